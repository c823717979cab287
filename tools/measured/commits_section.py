"""The section on commits: rows name the one that their run was made at, which may not have stayed in the history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import RunFolder

from .cells import Row
from .experiments import EXPERIMENTS
from .sheets import SHEETS
from .store import Sheet, read_rows, replaced_sheet
from .tables import code, table

TITLE = "Commits that came in together"
FILE = "commits.csv"
TEXT = (
    "Work was not always kept as the commits that it was made in: those may be missing from the history, where fewer "
    "hold the same work. Rows name what the run itself recorded; their code is that of the commit below and what came "
    "right after it, their settings are in their commands."
)


def commits_lines(results: Path) -> list[str]:
    """The section; nothing where every commit is in the history.

    A commit is placed by one from before it, which stays what it is: those that hold its work may be made anew.
    """
    rows = Counter(commit_of(row) for row in all_rows(results))
    places = read_places(results)
    body = [[code(commit), code(place), str(rows[commit])] for commit, place in places.items() if rows[commit]]
    if not body:
        return []
    return [f"## {TITLE}", "", TEXT, "", *table(["commit of a run", "made after", "rows"], body)]


def read_places(results: Path) -> dict[str, str]:
    """Commit that is not in the history -> the last one of the history that its work came after.

    Raises:
        UserError: a line without both.
    """
    found = {}
    for number, row in enumerate(RunFolder(results).read_table(FILE), start=2):
        commit, place = row.get("commit"), row.get("after")
        if not (commit and place):
            raise UserError(f"{results / FILE}, line {number}: it needs a commit, and in after one from before it")
        found[commit] = place
    return found


def all_rows(results: Path) -> Iterator[Row]:
    """Of all files whose rows are runs or evaluations."""
    sheets: list[Sheet] = [*EXPERIMENTS, *map(replaced_sheet, EXPERIMENTS), *SHEETS]
    for sheet in sheets:
        yield from read_rows(results, sheet)


def commit_of(row: Row) -> str:
    """Without the plus sign of changes that were not committed."""
    return row["commit"].removesuffix("+")
