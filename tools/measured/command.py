"""The command line of tools/results.py."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from concrete_dropout.errors import UserError

from .cells import Row
from .collect import FINISHED, collect
from .evaluated import evaluated, evaluations_in
from .experiments import EXPERIMENTS, Experiment
from .folders import has_runs
from .grid import grid_rows
from .kept_store import add_kept
from .page import RESULTS, build
from .plan import Step, names, steps
from .runner import STOPPED, arguments, run_steps, state_of
from .sheets import GRID_COST, MASKS, SHIFT, TUNING
from .store import Sheet, merged, read_rows, renewed, replaced_sheet, write_rows
from .tuning import tried

ROOT = Path(__file__).parents[2]
FAILED, REFUSED = 1, 2


def main(given_words: Sequence[str], root: Path = ROOT) -> int:
    """Carry out a command on the documentation of ``root``; returns the exit code."""
    given = _parser().parse_args(given_words)
    try:
        if given.command == "run":
            return reproduce(steps(given.names), root, given.list)
        if given.command == "add":
            add(root / RESULTS, given.folders, given.unfinished)
        elif given.command == "tried":
            record_tried(root / RESULTS, given.folders)
        else:
            for path in build(root):
                print(path.relative_to(root))
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr)
        return REFUSED
    return 0


def add(results: Path, folders: Sequence[Path], unfinished: bool = False) -> None:
    """Put the rows of runs into the CSV files, and say what was left out.

    Raises:
        UserError: a folder without a run; nothing is written then.
    """
    evaluations = {folder: evaluations_in(folder) for folder in folders}
    # A folder with neither is refused by the reader of runs.
    runs = [folder for folder, inside in evaluations.items() if not inside or has_runs(folder)]
    scored = [evaluated(place) for inside in evaluations.values() for place in inside]
    found = [rows for folder in runs for rows in collect(folder, unfinished)]
    searched, notes = grid_rows(runs)
    for note in [*(rows.note for rows in found), *(rows.note for rows in scored), *notes]:
        if note:
            print(note, file=sys.stderr)
    for experiment in EXPERIMENTS:
        _renew(results, experiment, [row for rows in found if rows.experiment == experiment for row in rows.rows])
    _put(results, GRID_COST, searched)
    for sheet in (MASKS, SHIFT):
        _put(results, sheet, [row for rows in scored for row in rows.rows.get(sheet, [])])
    for line in (kept := add_kept(results, found)):
        print(line)
    if not (kept or searched or any(rows.rows for rows in found) or any(rows.rows for rows in scored)):
        print("No finished run of the paper's experiments was found; nothing was written.", file=sys.stderr)


def reproduce(planned: Sequence[Step], root: Path, only_list: bool = False) -> int:
    """Run commands, and put what each has found on the page before the next; returns the exit code."""
    if only_list:
        for step in planned:
            finished = state_of(root / step.folder) == FINISHED
            print(f"{'# finished: ' if finished else ''}{shlex.join(['python', *arguments(step, root)[1:]])}")
        return 0
    refused: dict[Step, str] = {}

    def publish(step: Step, is_new: bool) -> None:
        """A command may take days, and the next may be stopped; what is wrong with a file must not keep it waiting."""
        try:
            add(root / RESULTS, [root / step.folder])
            if is_new:
                build(root)
        except UserError as error:
            refused[step] = str(error)

    done, failed, stopped = run_steps(planned, root, publish)
    # A command that was refused leaves no folder, and is among the failed already.
    failed += [f"{step.command} ({refused[step]})" for step in done if step in refused]
    try:
        for path in build(root):
            print(path.relative_to(root))
    except UserError as error:
        failed.append(f"python tools/results.py build ({error})")
    if stopped:
        print(f"Stopped after {len(done)} of {len(planned)}; the same command goes on from there.", file=sys.stderr)
    if failed:
        print(f"\nError: {len(failed)} of {len(planned)} commands failed:", *failed, file=sys.stderr, sep="\n  ")
    return STOPPED[0] if stopped else FAILED if failed else 0


def record_tried(results: Path, folders: Sequence[Path]) -> None:
    """Put validation scores of runs that were made to choose settings into their CSV file.

    Raises:
        UserError: a folder without a run; nothing is written then.
    """
    rows, notes = tried(folders)
    for note in notes:
        print(note, file=sys.stderr)
    _put(results, TUNING, rows)
    if not rows:
        print("No finished run with validation scores was found; nothing was written.", file=sys.stderr)


def _renew(results: Path, experiment: Experiment, added: Sequence[Row]) -> None:
    """Add rows to the file of an experiment; those that its command gives no more go to another."""
    if not added:
        return
    replaced = replaced_sheet(experiment)
    known, old = read_rows(results, experiment), read_rows(results, replaced)
    now, before = renewed(experiment, [*known, *old, *added])
    write_rows(results, experiment, now)
    print(f"{experiment.name}.csv: {len(added)} rows read, {len(now)} in the file ({len(known)} before)")
    if before or old:
        write_rows(results, replaced, before)
        print(f"{replaced.name}.csv: {len(before)} rows of other settings ({len(old)} before)")


def _put(results: Path, sheet: Sheet, added: Sequence[Row]) -> None:
    """Add rows to a file, and say how many."""
    if added:
        before = read_rows(results, sheet)
        after = merged(sheet, before, added)
        write_rows(results, sheet, after)
        print(f"{sheet.name}.csv: {len(added)} rows read, {len(after)} in the file ({len(before)} before)")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python tools/results.py", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    adds = commands.add_parser("add", help="take the results of finished runs into docs/results/*.csv")
    adds.add_argument("folders", nargs="+", type=Path, help="of runs, studies, sweeps or evaluations")
    adds.add_argument("--unfinished", action="store_true", help="also episodes of agents that were stopped early")
    tries = commands.add_parser("tried", help="take validation scores of runs that were made to choose settings")
    tries.add_argument("folders", nargs="+", type=Path, help="of runs, studies or sweeps")
    runs = commands.add_parser("run", help="run the commands behind the page, add what they found, and build it")
    runs.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(names())}; all without one")
    runs.add_argument("--list", action="store_true", help="print the commands alone")
    commands.add_parser("build", help="write docs/results.md, its figures and the README's table from these files")
    return parser
