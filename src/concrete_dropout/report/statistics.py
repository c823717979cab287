"""Means with standard errors, differences in standard errors, average ranks. Plain numbers, no torch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """Several values of one quantity.

    Args:
        mean: of the values.
        se: standard error of the mean, std / sqrt(n) with n - 1 in the variance; None for a single value.
        count: number of values.
        low: the smallest.
        high: the largest.
    """

    mean: float
    se: float | None
    count: int
    low: float
    high: float


def summarise(values: Iterable[float | None]) -> Summary | None:
    """Mean and standard error of the finite values; None where there are none.

    >>> summarise([1.0, 2.0, 3.0, None])
    Summary(mean=2.0, se=0.577, count=3, low=1.0, high=3.0)
    """
    found = [value for value in values if value is not None and math.isfinite(value)]
    if not found:
        return None
    mean = math.fsum(found) / len(found)
    se = None
    if len(found) > 1:
        variance = math.fsum((value - mean) ** 2 for value in found) / (len(found) - 1)
        se = math.sqrt(variance / len(found))
    return Summary(mean, se, len(found), min(found), max(found))


def difference_in_se(
    ours: float, our_se: float | None, other: float, other_se: float, resolution: float = 0.0
) -> float:
    """Difference of two independent means in units of its standard error; infinite where nothing is uncertain.

    Args:
        ours: a mean.
        our_se: its standard error; None counts as 0.
        other: the mean to compare with.
        other_se: its standard error.
        resolution: what ``other`` and ``other_se`` were rounded to. A rounded number is off by up to half of it, a
            uniform error with standard deviation resolution / sqrt(12): without it "±0.00" would make any
            difference infinitely significant.

    >>> difference_in_se(1.0, 0.3, 0.5, 0.4)
    1.0
    """
    difference = ours - other
    error = math.sqrt((our_se or 0.0) ** 2 + other_se**2 + resolution**2 / 12)
    if error == 0:
        return math.copysign(math.inf, difference) if difference else 0.0
    return difference / error


def slope(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Least-squares slope of y over x; None where x does not vary.

    >>> slope([0.0, 1.0, 2.0], [1.0, 1.5, 2.0]), slope([1.0, 1.0], [0.0, 2.0])
    (0.5, None)
    """
    if not x:
        return None
    mean_x, mean_y = math.fsum(x) / len(x), math.fsum(y) / len(y)
    square = math.fsum((value - mean_x) ** 2 for value in x)
    product = math.fsum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return product / square if square > 0 else None


def ranks(values: Sequence[float], higher_is_better: bool) -> list[float]:
    """Rank of every value, 1 for the best; equal values share the mean of their places.

    >>> ranks([0.5, 0.3, 0.5], higher_is_better=True)
    [1.5, 3.0, 1.5]
    """
    signed = [-value if higher_is_better else value for value in values]
    return [sum(other < value for other in signed) + (signed.count(value) + 1) / 2 for value in signed]


def average_ranks(rows: Iterable[Mapping[str, float]], higher_is_better: bool) -> dict[str, Summary]:
    """Mean rank of every method over the rows; rows that lack a method are left out.

    >>> found = average_ranks([{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 3.0}], higher_is_better=False)
    >>> found["a"].mean, found["b"].mean
    (1.25, 1.75)
    """
    table = list(rows)
    methods = list(dict.fromkeys(method for row in table for method in row))
    complete = [row for row in table if all(method in row for method in methods)]
    ranked = [ranks([row[method] for method in methods], higher_is_better) for row in complete]
    found = {method: summarise(row[i] for row in ranked) for i, method in enumerate(methods)}
    return {method: summary for method, summary in found.items() if summary is not None}
