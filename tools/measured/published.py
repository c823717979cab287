"""The paper's numbers, from docs/results/paper.csv; each says where in the paper it stands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from concrete_dropout.errors import UserError
from concrete_dropout.report.record import finite
from concrete_dropout.report.text import plus_minus
from concrete_dropout.runfolder import RunFolder

FILE = "paper.csv"


@dataclass(frozen=True)
class Number:
    """One number of the paper, as printed.

    Args:
        experiment: name of ours that it belongs to.
        setting: of the paper's experiment: a UCI set, with or without MC, N.
        method: the paper's name of it, or a kind of dropout.
        metric: what was measured.
        value: text, so that it keeps its decimals.
        error: standard error, "" where the paper has none.
        place: where it stands.
    """

    experiment: str
    setting: str
    method: str
    metric: str
    value: str
    error: str
    place: str

    @property
    def text(self) -> str:
        """The number as printed, with its error."""
        if not self.error:
            return self.value
        return plus_minus(float(self.value), float(self.error), len(self.value.partition(".")[2]))


class Published:
    """All numbers of the file, by what they are about."""

    def __init__(self, numbers: list[Number]) -> None:
        self.numbers = numbers

    def of(self, experiment: str) -> list[Number]:
        """All of one experiment."""
        return [number for number in self.numbers if number.experiment == experiment]

    def find(self, experiment: str, metric: str, method: str = "concrete", setting: str | None = None) -> Number | None:
        """The first that matches."""
        return next(
            (
                number
                for number in self.of(experiment)
                if (number.metric, number.method) == (metric, method) and setting in (None, number.setting)
            ),
            None,
        )


def read_published(folder: Path) -> Published:
    """Read the file.

    Raises:
        UserError: where it is missing or has a row without a number.
    """
    rows = RunFolder(folder).read_table(FILE)
    if not (folder / FILE).is_file():
        raise UserError(f"{folder / FILE} is missing: it has the paper's numbers, and is part of the repository")
    names = list(Number.__dataclass_fields__)
    for place, row in enumerate(rows, start=2):
        if list(row) != names or finite(row["value"]) is None or (row["error"] and finite(row["error"]) is None):
            raise UserError(f"{folder / FILE}, line {place}: {', '.join(names)} must be its columns, value a number")
    return Published([Number(**row) for row in rows])
