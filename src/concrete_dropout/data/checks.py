"""Config values that a user can get wrong, checked before anything is read or built."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

from concrete_dropout.errors import UserError


def whole_number(key: str, value: Any, minimum: int) -> int:
    """The value as an int of at least ``minimum``.

    >>> whole_number("data.batch_size", 32, minimum=1)
    32
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise UserError(f"{key}={value!r} must be a whole number of at least {minimum}.")
    return int(value)


def finite_number(key: str, value: Any, minimum: float = -math.inf) -> float:
    """The value as a finite float of at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < minimum:
        bound = "" if minimum == -math.inf else f" of at least {minimum:g}"
        raise UserError(f"{key}={value!r} must be a finite number{bound}.")
    return float(value)


def fraction(key: str, value: Any) -> float:
    """The value as a share of the rows, in [0, 1)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise UserError(f"{key}={value!r} must be a number from 0 (no such part) to below 1.")
    return float(value)


def choice(key: str, value: Any, choices: Sequence[str]) -> str:
    """The value, if it is one of the choices."""
    if value not in choices:
        raise UserError(f"{key}={value!r} is not one of {', '.join(choices)}.{did_you_mean(str(value), choices)}")
    return str(value)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence with the names most like a mistyped one; empty where none is close.

    >>> did_you_mean("yatch", ["yacht", "wine"])
    ' Did you mean yacht?'
    """
    # Compared without case, since "Age" for "age" is the commonest slip of all.
    by_lower = {entry.lower(): entry for entry in known}
    close = [by_lower[entry] for entry in difflib.get_close_matches(name.lower(), by_lower, n=3)]
    return f" Did you mean {' or '.join(close)}?" if close else ""
