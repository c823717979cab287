"""The CSV files: one for each experiment, in an order that does not depend on when a run was added."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from concrete_dropout.report.record import finite
from concrete_dropout.runfolder import RunFolder

from .collect import FINISHED, Row
from .experiments import EPISODE

KINDS = ("none", "fixed", "concrete")


class Sheet(Protocol):
    """A CSV file: an experiment's, or one about something else."""

    @property
    def name(self) -> str:
        """Of the file."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns that, with ``settings``, tell one row from another."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The header."""


def read_rows(folder: Path, experiment: Sheet) -> list[Row]:
    """The rows of an experiment; none where there is no file."""
    rows = RunFolder(folder).read_table(f"{experiment.name}.csv")
    return [{column: row.get(column, "") for column in experiment.columns} for row in rows]


def write_rows(folder: Path, experiment: Sheet, rows: Iterable[Row]) -> None:
    """Replace the file of an experiment."""
    text = io.StringIO()
    writer = csv.DictWriter(text, experiment.columns, lineterminator="\n")
    writer.writeheader()
    ordered: list[Row] = sorted(rows, key=lambda row: _order(row, experiment))
    writer.writerows(ordered)
    RunFolder(folder).write_text(f"{experiment.name}.csv", text.getvalue())


def merged(experiment: Sheet, known: Iterable[Row], added: Iterable[Row]) -> list[Row]:
    """Rows with those of other runs: of two runs with one setting, seed and split the newer counts.

    A run that was stopped never takes the place of one that was not.
    """
    runs: dict[tuple[str, ...], list[Row]] = {}
    for group in (*_by_run(experiment, known).items(), *_by_run(experiment, added).items()):
        key, rows = group
        before = runs.get(key)
        if before is None or _worth(rows) >= _worth(before):
            runs[key] = rows
    return [row for rows in runs.values() for row in rows]


def _by_run(experiment: Sheet, rows: Iterable[Row]) -> dict[tuple[str, ...], list[Row]]:
    """Rows by setting, seed and split; of several runs among them those of the newest."""
    found: dict[tuple[str, ...], dict[str, list[Row]]] = {}
    columns = [column for column in (*experiment.keys, "settings") if column != EPISODE]
    for row in rows:
        runs = found.setdefault(tuple(row[column] for column in columns), {})
        runs.setdefault(row["started"], []).append(row)
    return {key: max(runs.values(), key=_worth) for key, runs in found.items()}


def _worth(rows: list[Row]) -> tuple[bool, str]:
    """What a later run replaces an earlier one by; times are in one zone, and so in the order of their texts."""
    return rows[0].get("state", FINISHED) == FINISHED, rows[0]["started"]


def _order(row: Row, experiment: Sheet) -> list[tuple[float, float, str]]:
    return [in_order(row[column], column) for column in ("settings", *experiment.keys)]


def in_order(text: str, column: str = "") -> tuple[float, float, str]:
    """What to sort by: kinds of dropout as the controls come first, numbers by size, then words."""
    if column == "dropout" and text in KINDS:
        return (0, KINDS.index(text), "")
    number = finite(text.partition("x")[2] or text)
    return (0, number, text) if number is not None else (1, 0, text)
