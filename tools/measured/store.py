"""The CSV files: one for each experiment, in an order that does not depend on when a run was added."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from concrete_dropout.report.record import finite
from concrete_dropout.runfolder import RunFolder

from .cells import Row
from .collect import FINISHED
from .commands import changes, words
from .experiments import EPISODE, HEAD, REPEATS, Experiment

KINDS = ("none", "fixed", "concrete")
# Columns that tell rows of one run apart: of agents, and of what figures need.
WITHIN = (EPISODE, "mc", "bin", "depth", "step", "image")
# Settings by which a run ends when it sees fit, so that its number of steps says nothing about its config.
OPEN_END = ("callbacks", "trainer.max_time")
LENGTH = ("trainer.max_steps", "trainer.max_epochs")  # is in the steps


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


def replaced_sheet(experiment: Experiment) -> Experiment:
    """The file of rows that newer ones under other conditions took the place of."""
    return replace(experiment, name=f"{experiment.name}_replaced")


def renewed(experiment: Experiment, rows: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """Rows of what the experiment's command gives now, and those that came of it before.

    A command says nothing of what the config sets by itself, such as the KL weight of a set in experiment=uci_table.
    When that changes, rows of before must not be in one mean with newer ones, nor stand beside them as their controls.
    The newest row, of whatever kind of dropout, has the conditions that count; it is all the same in which order rows
    were added.

    Args:
        experiment: whose they are.
        rows: of both files, and new ones.
    """
    columns = [column for column in (*experiment.keys, "settings") if column not in (*REPEATS, *HEAD)]
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    now: list[Row] = []
    before: dict[tuple[str, ...], list[Row]] = {}
    for group in groups.values():
        valid = max((_claim(row, experiment), _conditions(row, experiment)) for row in group)[1]
        for row in group:
            own = _conditions(row, experiment)
            if _agree(own, valid):
                now.append(row)
            else:
                before.setdefault(own, []).append(row)
    old = [row for same in before.values() for row in merged(experiment, same, ())]
    return merged(experiment, now, ()), sorted(old, key=lambda row: (row["started"], _conditions(row, experiment)))


def _claim(row: Row, experiment: Experiment) -> tuple[bool, bool, str]:
    """What decides whose conditions count: a set that was run by itself has none of the table's settings."""
    own = [word for word in words(experiment.command) if word.startswith("experiment=")]
    return row["state"] == FINISHED, set(own) <= set(words(row["command"])), row["started"]


def _conditions(row: Row, experiment: Experiment) -> tuple[str, ...]:
    """What rows of one mean must have in common; "" where it is not known, or says nothing."""
    is_open = experiment.is_open_end or any(word.startswith(OPEN_END) for word in row["settings"].split())
    # A study writes what its config sets for a run into the command of the run.
    known = (*experiment.settings.values(), *experiment.facts.values(), *LENGTH)
    given = (changes(row["command"], {}, known) or "nothing") if row["command"] else ""
    return (*(row[column] for column in experiment.facts), "" if is_open else row["steps"], given)


def _agree(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return all(a == b or not a or not b for a, b in zip(one, other, strict=True))


def _by_run(experiment: Sheet, rows: Iterable[Row]) -> dict[tuple[str, ...], list[Row]]:
    """Rows by setting, seed and split; of several runs among them those of the newest."""
    found: dict[tuple[str, ...], dict[str, dict[tuple[str, ...], Row]]] = {}
    columns = [column for column in (*experiment.keys, "settings") if column not in WITHIN]
    for row in rows:
        runs = found.setdefault(tuple(row[column] for column in columns), {})
        # A run may be given twice, on its own and as a part of its study.
        runs.setdefault(row["started"], {})[tuple(row.get(column, "") for column in WITHIN)] = row
    return {key: max((list(own.values()) for own in runs.values()), key=_worth) for key, runs in found.items()}


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
