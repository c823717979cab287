"""Values as cells of the CSV files."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from concrete_dropout.report.text import plain

Row = dict[str, str]  # {column: cell}
DIGITS = 7


def setting(value: Any) -> str:
    """A value of the config; layers of one width as that, times their number.

    >>> setting([512, 512, 512]), setting("10000"), setting(1e-4)
    ('3x512', '10000', '0.0001')
    """
    if isinstance(value, list) and value and all(entry == value[0] for entry in value):
        return f"{len(value)}x{value[0]}"
    return text(value)


def text(value: Any) -> str:
    """A cell: numbers with seven digits, which is more than two runs on two machines share."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.{DIGITS}g}"
    return plain(value)


def moment(value: Any) -> datetime | None:
    """An ISO time in one zone for all, so that texts of times are in their order."""
    try:
        return datetime.fromisoformat(str(value)).astimezone(timezone.utc)
    except ValueError:
        return None


def moment_text(value: Any) -> str:
    """The same as a cell."""
    found = moment(value)
    return found.isoformat(timespec="seconds") if found is not None else ""


def numbers(values: list[str]) -> str:
    """Whole numbers in few characters; other texts one after the other.

    >>> numbers(["0", "1", "2", "7"]), numbers(["b", "a"]), numbers(["3"]), numbers([])
    ('0-2 7', 'a b', '3', '')
    """
    if not all(value.isdecimal() for value in values):
        return " ".join(sorted(set(values)))
    found: list[list[int]] = []
    for value in sorted({int(value) for value in values}):
        if found and value == found[-1][-1] + 1:
            found[-1].append(value)
        else:
            found.append([value])
    return " ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found)
