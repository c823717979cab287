"""Files one after the other: those that are finished are left alone, those that are refused do not stop the others."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from concrete_dropout.errors import UserError
from concrete_dropout.prediction.journal import Journal
from concrete_dropout.prediction.outcome import Predictor
from concrete_dropout.prediction.sources import Source


@dataclass
class Tally:
    """What came of all files.

    Attributes:
        rows: values of the files that are finished, by name.
        found: how many of them were finished before.
        refused: why a file was not predicted, by name.
    """

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    found: int = 0
    refused: dict[str, str] = field(default_factory=dict)


def predict_all(predictor: Predictor, sources: Sequence[Source], journal: Journal, strict: bool = False) -> Tally:
    """Predict every file that is not finished yet, with a progress bar on a terminal.

    Args:
        predictor: of this kind of files.
        sources: the files, in order.
        journal: of what is finished.
        strict: end with the first file that is refused.

    Raises:
        UserError: the only file is refused.
    """
    tally = Tally()
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("Predicting", total=len(sources))
        for number, block in enumerate(predictor.blocks(sources)):
            known = {source.name: journal.values(source) for source in block}
            finished = {name: values for name, values in known.items() if values is not None}
            tally.found += len(finished)
            tally.rows |= finished
            progress.advance(bar, len(finished))
            waiting = [source for source in block if source.name not in finished]
            for source, outcome in predictor.predict(block, waiting, number) if waiting else ():
                if isinstance(outcome, UserError):
                    if len(sources) == 1:
                        raise outcome
                    tally.refused[source.name] = str(outcome)
                    if strict:
                        return tally
                else:
                    journal.add(source, outcome.values, outcome.files)
                    tally.rows[source.name] = outcome.values
                progress.advance(bar)
    return tally


def table_of(sources: Sequence[Source], rows: Mapping[str, Mapping[str, Any]]) -> str:
    """A CSV table with a row for each finished file, in the order of the files."""
    present = [source.name for source in sources if source.name in rows]
    header = list(dict.fromkeys(key for name in present for key in rows[name]))
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["file", *header])
    for name in present:
        writer.writerow([name, *(_field(rows[name].get(key, "")) for key in header)])
    return file.getvalue()


def _field(value: Any) -> Any:
    return f"{value:.7g}" if isinstance(value, float) else value
