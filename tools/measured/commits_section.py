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

TITLE = "Commits that are not in the history"
FILE = "commits.csv"
TEXT = (
    "Work between two commits of the history was not kept as the commits that it was made in, but came in as one. "
    "Rows of those name what the run itself recorded; the settings are in its command and in the commit that holds the "
    "work."
)


def commits_lines(results: Path) -> list[str]:
    """The section; nothing where every commit is in the history."""
    holders = read_holders(results)
    rows = Counter(commit_of(row) for row in all_rows(results))
    body = [[code(commit), code(holder), str(rows[commit])] for commit, holder in holders.items() if rows[commit]]
    if not body:
        return []
    return [f"## {TITLE}", "", TEXT, "", *table(["commit of a run", "in the history as", "rows"], body)]


def read_holders(results: Path) -> dict[str, str]:
    """Commit that is not in the history -> the one that holds its work.

    Raises:
        UserError: a line without both.
    """
    found = {}
    for number, row in enumerate(RunFolder(results).read_table(FILE), start=2):
        commit, holder = row.get("commit"), row.get("held_by")
        if not (commit and holder):
            raise UserError(
                f"{results / FILE}, line {number}: it needs a commit, and in held_by one that holds its work"
            )
        found[commit] = holder
    return found


def all_rows(results: Path) -> Iterator[Row]:
    """Of all files whose rows are runs or evaluations."""
    sheets: list[Sheet] = [*EXPERIMENTS, *map(replaced_sheet, EXPERIMENTS), *SHEETS]
    for sheet in sheets:
        yield from read_rows(results, sheet)


def commit_of(row: Row) -> str:
    """Without the plus sign of changes that were not committed."""
    return row["commit"].removesuffix("+")
