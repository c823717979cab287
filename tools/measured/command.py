"""The command line of tools/results.py."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from concrete_dropout.errors import UserError

from .collect import collect
from .experiments import EXPERIMENTS
from .kept_store import add_kept
from .page import build
from .store import merged, read_rows, write_rows

ROOT = Path(__file__).parents[2]
REFUSED = 2


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Carry out a command on the documentation of ``root``; returns the exit code."""
    given = _parser().parse_args(arguments)
    try:
        if given.command == "add":
            add(root / "docs" / "results", given.folders, given.unfinished)
        else:
            for path in build(root):
                print(path.relative_to(root))
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr)
        return REFUSED
    return 0


def add(results: Path, folders: Sequence[Path], unfinished: bool = False) -> None:
    """Put the rows of runs, and what figures need beside them, into files; say what was left out.

    Raises:
        UserError: a folder without a run; nothing is written then.
    """
    found = [rows for folder in folders for rows in collect(folder, unfinished)]
    for rows in found:
        if rows.note:
            print(rows.note, file=sys.stderr)
    for experiment in EXPERIMENTS:
        added = [row for rows in found if rows.experiment == experiment for row in rows.rows]
        if added:
            before = read_rows(results, experiment)
            after = merged(experiment, before, added)
            write_rows(results, experiment, after)
            print(f"{experiment.name}.csv: {len(added)} rows read, {len(after)} in the file ({len(before)} before)")
    for line in (kept := add_kept(results, found)):
        print(line)
    if not kept and not any(rows.rows for rows in found):
        print("No finished run of the paper's experiments was found; nothing was written.", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python tools/results.py", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    adds = commands.add_parser(
        "add", help="take results of finished runs, and what figures need of them, into docs/results"
    )
    adds.add_argument("folders", nargs="+", type=Path, help="of runs, studies or sweeps")
    adds.add_argument("--unfinished", action="store_true", help="also episodes of agents that were stopped early")
    commands.add_parser("build", help="write docs/results.md, its figures and the README's table from these files")
    return parser
