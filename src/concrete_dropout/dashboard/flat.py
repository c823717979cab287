"""Numbers and configs in the form in which the page wants them: short, flat, JSON."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from concrete_dropout.report.text import plain

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the compiled one takes a tenth of the time
OWN_FOLDER = "RUN"
MAX_VALUE = 2000
MAX_ENTRIES = 20_000


def rounded(value: float | None, digits: int = 5) -> float | None:
    """A number with so many significant digits; None for what is no finite number.

    >>> rounded(0.123456789), rounded(None), rounded(float("nan")), rounded(1234567.0)
    (0.12346, None, None, 1234600.0)
    """
    return None if value is None or not math.isfinite(value) else float(f"{value:.{digits}g}")


def thinned(series: Sequence[Sequence[float]], limit: int) -> list[list[float | None]]:
    """Columns of one length with at most ``limit`` rows, evenly spaced; the first and the last stay.

    The first column has steps or places on an axis, which are kept as they are.

    >>> thinned([[0, 1, 2, 3, 4], [0.123456] * 5], 3)
    [[0, 2, 4], [0.12346, 0.12346, 0.12346]]
    """
    length = min((len(column) for column in series), default=0)
    rows: Iterable[int] = range(length)
    if length > limit:
        rows = [round(i * (length - 1) / (limit - 1)) for i in range(limit)]
    return [[rounded(column[i]) if place else column[i] for i in rows] for place, column in enumerate(series)]


def flat_config(text: str) -> dict[str, str]:
    """A config as {dotted key: value as one would type it}; the run's own folder is called RUN in all of them.

    >>> flat_config("a: {b: 1, c: [x, y]}\\npaths: {run_dir: /o/1}\\nlog: /o/1/log")
    {'a.b': '1', 'a.c': '["x", "y"]', 'paths.run_dir': 'RUN', 'log': 'RUN/log'}

    Raises:
        ValueError: no YAML, or no mapping.
    """
    try:
        parts = [dict(_flat(block)) for block in re.split(r"^(?=[^\s#-])", text, flags=re.MULTILINE) if block.strip()]
        found = {key: value for part in parts for key, value in part.items()}
    except ValueError:  # parts that refer to each other, or no YAML at all
        found = dict(_flat(text))
    own = found.get("paths.run_dir")
    return {key: value.replace(own, OWN_FOLDER)[:MAX_VALUE] if own else value for key, value in found.items()}


@functools.lru_cache(maxsize=2000)
def _flat(text: str) -> tuple[tuple[str, str], ...]:
    """A part of a config; most parts of most runs are the same, and YAML is slow."""
    try:
        content = yaml.load(text, Loader=Loader)  # nosec B506 # a safe loader, see above
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
    if not isinstance(content, dict):
        raise ValueError("it holds no mapping")
    _check_size(content)
    return tuple((key, value[:MAX_VALUE]) for key, value in _entries("", content))


def _entries(prefix: str, value: Any) -> Iterable[tuple[str, str]]:
    if not isinstance(value, dict) or not value:
        yield prefix, str(value) if type(value) in (int, str) else plain(value)
        return
    for key, entry in value.items():
        yield from _entries(f"{prefix}.{key}" if prefix else str(key), entry)


def _check_size(content: Any) -> None:
    """Few lines of YAML that refer to each other may stand for more values than a memory holds."""
    waiting, seen = [content], 0
    while waiting:
        seen += 1
        if seen > MAX_ENTRIES:
            raise ValueError(f"it has more than {MAX_ENTRIES:,} values")
        value = waiting.pop()
        waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
