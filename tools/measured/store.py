"""The CSV files: one for each table, in an order that does not depend on when a run was added."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from concrete_dropout.report.record import finite
from concrete_dropout.runfolder import RunFolder

from .collect import FINISHED, Row

KINDS = ("none", "fixed", "concrete")


class Table(Protocol):
    """A CSV file: of an experiment, or of what figures need beside its rows."""

    @property
    def name(self) -> str:
        """Of the file, without its ending."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns that, with ``settings``, tell one row from another."""

    @property
    def within(self) -> tuple[str, ...]:
        """Those of them that tell rows of one run apart."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The header; "settings", "state" and "started" are among them."""


def read_rows(folder: Path, table: Table) -> list[Row]:
    """The rows of a table; none where there is no file."""
    rows = RunFolder(folder).read_table(f"{table.name}.csv")
    return [{column: row.get(column, "") for column in table.columns} for row in rows]


def write_rows(folder: Path, table: Table, rows: Iterable[Row]) -> None:
    """Replace the file of a table."""
    text = io.StringIO()
    writer = csv.DictWriter(text, table.columns, lineterminator="\n")
    writer.writeheader()
    ordered: list[Row] = sorted(rows, key=lambda row: _order(row, table))
    writer.writerows(ordered)
    RunFolder(folder).write_text(f"{table.name}.csv", text.getvalue())


def merged(table: Table, known: Iterable[Row], added: Iterable[Row]) -> list[Row]:
    """Rows with those of other runs: of two runs with one setting, seed and split the newer counts.

    A run that was stopped never takes the place of one that was not.
    """
    runs: dict[tuple[str, ...], list[Row]] = {}
    for group in (*_by_run(table, known).items(), *_by_run(table, added).items()):
        key, rows = group
        before = runs.get(key)
        if before is None or _worth(rows) >= _worth(before):
            runs[key] = rows
    return [row for rows in runs.values() for row in rows]


def _by_run(table: Table, rows: Iterable[Row]) -> dict[tuple[str, ...], list[Row]]:
    """Rows by setting, seed and split; of several runs among them those of the newest."""
    found: dict[tuple[str, ...], dict[str, dict[tuple[str, ...], Row]]] = {}
    columns = [column for column in (*table.keys, "settings") if column not in table.within]
    for row in rows:
        runs = found.setdefault(tuple(row[column] for column in columns), {})
        # A run may be given twice, on its own and as a part of its study.
        runs.setdefault(row["started"], {})[tuple(row[column] for column in table.within)] = row
    return {key: max((list(own.values()) for own in runs.values()), key=_worth) for key, runs in found.items()}


def _worth(rows: list[Row]) -> tuple[bool, str]:
    """What a later run replaces an earlier one by; times are in one zone, and so in the order of their texts."""
    return rows[0]["state"] == FINISHED, rows[0]["started"]


def _order(row: Row, table: Table) -> list[tuple[float, float, str]]:
    return [in_order(row[column], column) for column in ("settings", *table.keys)]


def in_order(text: str, column: str = "") -> tuple[float, float, str]:
    """What to sort by: kinds of dropout as the controls come first, numbers by size, then words."""
    if column == "dropout" and text in KINDS:
        return (0, KINDS.index(text), "")
    number = finite(text.partition("x")[2] or text)
    return (0, number, text) if number is not None else (1, 0, text)
