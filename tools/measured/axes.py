"""Axes of figures: which numbers they span, and where their labels stand without touching each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

CHARACTER = 7.0  # pixels of a character at the size of the labels, rather too wide than too narrow
FEW = 8  # values that are ticks themselves
DECADES = 2  # over more of them only powers of ten are labelled


@dataclass(frozen=True)
class Axis:
    """What an axis is about.

    Args:
        label: in words.
        log: distances are ratios.
        limits: its ends, where these do not follow from the values.
        names: words at 0, 1, 2, ... in place of numbers.
    """

    label: str
    log: bool = False
    limits: tuple[float, float] | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scale:
    """An axis with its ends, as logarithms where it is logarithmic, and its labels."""

    low: float
    high: float
    log: bool
    ticks: tuple[tuple[float, str], ...]

    def share(self, value: float) -> float:
        """Where a value lies between the ends, from 0 to 1; beyond them, at the nearer one.

        >>> Scale(0.0, 2.0, True, ()).share(10.0), Scale(0.0, 2.0, False, ()).share(-3.0)
        (0.5, 0.0)
        """
        if self.log and value <= 0:
            return 0.0
        place = (_along(value, self.log) - self.low) / ((self.high - self.low) or 1.0)
        return min(1.0, max(0.0, place))


def across(axis: Axis, values: Iterable[float], width: float) -> Scale:
    """The x axis of a panel: from the smallest value to the largest, few values as ticks and else round numbers."""
    if axis.names:
        return Scale(-0.5, len(axis.names) - 0.5, False, tuple((float(i), name) for i, name in enumerate(axis.names)))
    known = sorted(set(values))
    low, high = axis.limits or (known[0], known[-1])
    if len(known) <= FEW and axis.limits is None:
        choices = [known]
    elif axis.log:
        choices = [ratio_levels(low, high)]
    else:
        choices = [round_levels(low, high, at_least) for at_least in (5, 4, 3, 2, 1)]
    bare = Scale(_along(low, axis.log), _along(high, axis.log), axis.log, ())
    ticks: tuple[tuple[float, str], ...] = ()
    for places in choices:
        inside = [(place, f"{place:g}") for place in places if low <= place <= high]
        ticks = _apart(inside, bare, width)
        if len(ticks) == len(inside):  # else even distances, further apart
            break
    return Scale(bare.low, bare.high, axis.log, ticks)


def upwards(axis: Axis, values: Iterable[float], height: float) -> Scale:
    """The y axis of a panel: between round numbers; from 0 where no value is negative, except on an axis of ratios."""
    known = [value for value in values if value > 0 or not axis.log]
    if axis.limits is not None:
        known = list(axis.limits)
    if axis.log:
        levels = ratio_levels(min(known, default=0.1), max(known, default=1.0))
    else:
        levels = round_levels(min(0.0, *known), max(known), at_least=5 if height > 200 else 3)
    ends = _along(levels[0], axis.log), _along(levels[-1], axis.log)
    return Scale(*ends, axis.log, tuple((level, f"{level:g}") for level in levels))


def round_levels(low: float, high: float, at_least: int = 5) -> list[float]:
    """Round numbers from below the lowest value to above the highest.

    >>> round_levels(0.0, 17.9)[-2:], round_levels(-0.3, 0.0)[:2]
    ([16.0, 18.0], [-0.3, -0.25])
    """
    span = (high - low) or 1.0
    size = 10.0 ** math.floor(math.log10(span / at_least))
    step = max(size * factor for factor in (1, 2, 5) if size * factor <= span / at_least * (1 + 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, max(last, first + 1) + 1)]


def ratio_levels(low: float, high: float) -> list[float]:
    """Round numbers with round ratios from below the lowest value to above the highest.

    >>> ratio_levels(0.03, 0.4), ratio_levels(0.03, 40.0)
    ([0.02, 0.05, 0.1, 0.2, 0.5], [0.01, 0.1, 1.0, 10.0, 100.0])
    """
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    factors = (1, 2, 5) if math.log10(high / low) <= DECADES else (1,)
    steps = [float(f"{factor}e{power}") for power in range(first, last + 1) for factor in factors]
    below = [step for step in steps if step <= low * (1 + 1e-9)]
    above = [step for step in steps if step >= high * (1 - 1e-9)]
    levels = [step for step in steps if below[-1] <= step <= above[0]]
    return levels if len(levels) > 1 else [levels[0], 10 * levels[0]]


def width_of(text: str) -> float:
    """Pixels that a text takes, about."""
    return CHARACTER * len(text)


def _apart(ticks: Sequence[tuple[float, str]], scale: Scale, width: float) -> tuple[tuple[float, str], ...]:
    """The ticks whose labels have room, the first one always."""
    kept: list[tuple[float, str]] = []
    end = -math.inf
    for value, text in ticks:
        middle = scale.share(value) * width
        if middle - width_of(text) / 2 >= end + CHARACTER / 2:
            kept.append((value, text))
            end = middle + width_of(text) / 2
    return tuple(kept)


def _along(value: float, log: bool) -> float:
    return math.log10(value) if log else value
