"""Puts what figures need into docs/results, beside the rows; adding a run again changes nothing.

Runs whose rows were replaced, because they were made under other conditions, are in no figure either.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from concrete_dropout.report.record import finite
from concrete_dropout.runfolder import RunFolder

from .cells import Row
from .collect import Rows
from .experiments import EXPERIMENTS, HEAD, SEED, Experiment
from .kept import KEEPING, Beside, Kept, calibration_table, history_table, maps_table, picture_file, sources_table
from .store import merged, read_rows, replaced_sheet, write_rows


def add_kept(results: Path, found: Sequence[Rows]) -> list[str]:
    """Put what runs gave into the files of their experiments; returns lines that say what was done."""
    said = []
    for experiment in EXPERIMENTS:
        own = [rows.kept for rows in found if rows.experiment == experiment]
        if experiment.name not in KEEPING or not any(kept.rows for kept in own):
            continue
        replaced = {_run_of(row) for row in read_rows(results, replaced_sheet(experiment))}
        for table in (calibration_table(experiment), history_table(experiment), sources_table(experiment)):
            added = [row for kept in own for row in kept.rows.get(table, [])]
            if added:
                before = read_rows(results, table)
                # Before they are merged: a replaced run may be the newer one of its seed.
                valid = ([row for row in rows if _run_of(row) not in replaced] for rows in (before, added))
                after = merged(table, *valid)
                write_rows(results, table, after)
                said.append(
                    f"{table.name}.csv: {len(added)} rows read, {len(after)} in the file ({len(before)} before)"
                )
        said += _add_maps(results, experiment, own, replaced)
    return said


def _run_of(row: Row) -> tuple[str, ...]:
    """Which run a row is of."""
    return tuple(row[column] for column in (*HEAD, "settings", SEED, "started"))


def _add_maps(
    results: Path, experiment: Experiment, found: Sequence[Kept], replaced: Collection[tuple[str, ...]]
) -> list[str]:
    """Maps are of one run: of the longest training, and among those of the first seed."""
    table = maps_table(experiment)
    known = read_rows(results, table)
    valid = [kept for kept in found if (rows := kept.rows.get(table)) and _run_of(rows[0]) not in replaced]
    best = max(valid, key=lambda kept: _worth(kept, table), default=None)
    stays = bool(known) and _run_of(known[0]) not in replaced
    if best is None or (stays and _rank(known[0]) > _worth(best, table)):
        return []
    rows, folder = best.rows[table], RunFolder(results)
    write_rows(results, table, rows)
    for old in results.glob(f"{table.name}_*.png"):
        if old.name not in best.pictures:
            old.unlink()
    for name, content in best.pictures.items():
        folder.write_bytes(name, content)
    return [
        f"{table.name}.csv: maps of {len(rows)} images, such as {picture_file(experiment, rows[0]['image'], 'error')}"
    ]


def _worth(kept: Kept, table: Beside) -> tuple[float, float, str, str]:
    return _rank(kept.rows[table][0])


def _rank(row: Row) -> tuple[float, float, str, str]:
    return finite(row["steps"]) or 0.0, -(finite(row["seed"]) or 0.0), row["started"], row["settings"]
