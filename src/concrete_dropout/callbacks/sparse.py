"""Histories of bounded length: every second entry goes when there are too many, and later ones come half as often."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise


def thinned(steps: Sequence[int], values: Sequence[float]) -> tuple[list[int], list[float]]:
    """The first entry of a history, and every second one behind it.

    >>> thinned([0, 10, 20, 30, 40], [0.1, 0.2, 0.3, 0.4, 0.5])
    ([0, 20, 40], [0.1, 0.3, 0.5])
    """
    return list(steps[::2]), list(values[::2])


def stride_of(steps: Sequence[int], every: int) -> int:
    """How many times a history was thinned that had an entry at every n-th step: 1, 2, 4, ... for none, once, twice.

    Args:
        steps: of its entries, increasing; a few may be irregular.
        every: n.

    >>> stride_of([0, 10, 20, 30], 10), stride_of([0, 40, 80, 120, 125], 10), stride_of([5], 10)
    (1, 4, 1)
    """
    if len(steps) < 3 or every < 1:
        return 1
    gaps = sorted(after - before for before, after in pairwise(steps))
    return int(2 ** max(0, round(math.log2(max(1, gaps[len(gaps) // 2] / every)))))
