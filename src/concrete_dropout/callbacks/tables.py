"""Tables of the run folder that are more than appended to: replaced whole, or cut back when a run is resumed."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from concrete_dropout.runfolder import RunFolder


def replace_table(folder: RunFolder, name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a whole CSV table in place of the old one; a reader sees either."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows(rows)
    folder.write_text(name, text.getvalue().replace("\r\n", "\n"))


def cut_table(folder: RunFolder, name: str, header: Sequence[str], before: float) -> list[dict[str, str]]:
    """Keep the rows of a table whose step lies below ``before``, and return them.

    A run that was killed after its last checkpoint has rows that the resumed run writes again, and perhaps half
    a row at the end. A run that starts at step 0 keeps nothing of another one that used its folder.
    """
    rows = folder.read_table(name)
    kept = [row for row in rows if _step(row) is not None and int(row["step"]) < before]
    if (folder.path / name).is_file():
        replace_table(folder, name, header, ([row[column] for column in header] for row in kept))
    return kept


def _step(row: dict[str, str]) -> int | None:
    try:
        return int(row["step"])
    except (KeyError, ValueError):
        return None
