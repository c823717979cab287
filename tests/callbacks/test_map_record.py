from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concrete_dropout.callbacks.map_record import thinned


@given(st.lists(st.integers(0, 10**6), min_size=1, unique=True), st.integers(2, 8))
def test_first_and_last_stay_and_the_limit_holds(steps: list[int], limit: int) -> None:
    kept: list[int] = []
    for step in sorted(steps):
        kept = thinned([*kept, step], limit)
        assert kept == sorted(kept)
        assert (kept[0], kept[-1]) == (min(steps), step)
        assert len(kept) <= limit


@pytest.mark.parametrize("limit", [4, 6, 10])
def test_steps_are_about_geometric(limit: int) -> None:
    kept: list[int] = []
    for step in range(1, 2001):
        kept = thinned([*kept, step], limit)
    ratios = [after / before for before, after in pairwise(kept)]
    even = 2000 ** (1 / (limit - 1))
    # No gap is wider than a gap and a half of the even spacing, on a logarithmic scale.
    assert max(map(math.log, ratios)) < 1.5 * math.log(even)


def test_few_steps_all_stay() -> None:
    assert thinned([0, 3, 3, 1], 4) == [0, 1, 3]
