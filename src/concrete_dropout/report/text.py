"""Numbers, times and values in words."""

from __future__ import annotations

import json
import math
from datetime import datetime, timezone
from typing import Any

MISSING = "–"


def number(value: Any, digits: int = 3) -> str:
    """A number with so many significant digits; a dash for what is none.

    >>> number(1234.567), number(-0.01234), number(0), number(None), number(1.5e-7), number(0.9996)
    ('1,235', '−0.0123', '0', '–', '1.50e−07', '1.00')
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    # The exponent after rounding: 0.9996 is 1.00 with three digits.
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    if not -5 <= exponent < 7:
        return f"{value:.{digits - 1}e}".replace("-", "−")
    return f"{value:,.{max(0, digits - 1 - exponent)}f}".replace("-", "−")


def plus_minus(mean: Any, se: Any = None, decimals: int = 2) -> str:
    """A mean with its standard error, with so many decimals that the error shows at least one digit.

    >>> plus_minus(-2.2899, 0.031), plus_minus(0.07241, 0.0003), plus_minus(1.5), plus_minus(6.2e-4), plus_minus(None)
    ('−2.29 ± 0.03', '0.0724 ± 0.0003', '1.50', '0.00062', '–')
    """
    if isinstance(mean, bool) or not isinstance(mean, (int, float)) or not math.isfinite(mean):
        return MISSING
    known = isinstance(se, (int, float)) and math.isfinite(se)
    # Without an error, small numbers keep two digits of their own.
    finest = se if known else mean / 10
    if finest:
        decimals = min(max(decimals, -int(f"{finest:.0e}".partition("e")[2])), 8)
    shown = f"{mean:,.{decimals}f} ± {se:,.{decimals}f}" if known else f"{mean:,.{decimals}f}"
    return shown.replace("-", "−")


def whole(value: Any) -> str:
    """A count: all digits, in groups of three; a dash for what is none.

    >>> whole(2105346), whole(1000.0), whole(None)
    ('2,105,346', '1,000', '–')
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return MISSING
    return f"{value:,.0f}".replace("-", "−")


def probability(value: Any) -> str:
    """A dropout probability with three decimals.

    >>> probability(0.12345), probability(0.0002), probability(None)
    ('0.123', '< 0.001', '–')
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return MISSING
    return "< 0.001" if 0 < value < 0.001 else f"{value:.3f}"


def change(value: Any) -> str:
    """A signed difference of probabilities.

    >>> change(0.0123), change(-0.2), change(0.0)
    ('+0.012', '−0.200', '0.000')
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return MISSING
    return "0.000" if abs(value) < 0.0005 else f"{value:+.3f}".replace("-", "−")


def percent(value: float, decimals: int = 0) -> str:
    """A share in per cent, which no line break tears apart."""
    return f"{100 * value:.{decimals}f}\N{NO-BREAK SPACE}%"


def count(amount: Any, noun: str, plural: str = "") -> str:
    """A number of things.

    >>> count(1, "layer"), count(1200, "layer"), count(2, "probability", "probabilities")
    ('1 layer', '1,200 layers', '2 probabilities')
    """
    return f"{whole(amount)} {noun if amount == 1 else plural or noun + 's'}"


def plain(value: Any) -> str:
    """A config value as one would type it.

    >>> plain("adam"), plain(None), plain([1, 0.5]), plain(True)
    ('adam', 'null', '[1, 0.5]', 'true')
    """
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def moment(value: Any) -> str:
    """An ISO time as date and minute; any other text as it is."""
    found = _time(value)
    if found is None:
        return str(value) if value else MISSING
    zone = f" {found.tzname()}" if found.tzinfo else ""
    return f"{found:%Y-%m-%d %H:%M}{zone}"


def duration(start: Any, end: Any) -> str | None:
    """Time between two ISO times.

    >>> duration("2026-01-01T10:00:00", "2026-01-01T10:01:05"), duration("2026-01-01", None)
    ('1 min 5 s', None)
    """
    first, last = _time(start), _time(end)
    if first is None or last is None:
        return None
    if (first.tzinfo is None) != (last.tzinfo is None):
        first, last = first.replace(tzinfo=timezone.utc), last.replace(tzinfo=timezone.utc)
    seconds = round((last - first).total_seconds())
    if seconds < 0:
        return None
    hours, minutes = seconds // 3600, seconds % 3600 // 60
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds % 60} s" if minutes else f"{seconds} s"


def _time(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        # Python 3.10 does not know the letter Z.
        return datetime.fromisoformat(f"{value[:-1]}+00:00" if value.endswith("Z") else value)
    except ValueError:
        return None
