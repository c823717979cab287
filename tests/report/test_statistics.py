from __future__ import annotations

import math
import random
import statistics

import numpy as np
import pytest
from scipy.stats import linregress, rankdata

from concrete_dropout.report.paper import METHODS, UCI, paper_row
from concrete_dropout.report.statistics import average_ranks, difference_in_se, ranks, slope, summarise


def test_mean_and_standard_error_are_those_of_the_standard_library() -> None:
    values = [random.Random(0).gauss(3, 2) for _ in range(20)]
    found = summarise([*values, None, math.nan])
    assert found is not None
    assert found.mean == pytest.approx(statistics.fmean(values))
    assert found.se == pytest.approx(statistics.stdev(values) / math.sqrt(20))
    assert (found.count, found.low, found.high) == (20, min(values), max(values))


def test_one_value_has_no_standard_error_and_none_has_no_mean() -> None:
    one = summarise([2.0])
    assert one is not None
    assert one.se is None
    assert summarise([]) is None
    assert summarise([None, math.inf]) is None


def test_ranks_are_those_of_scipy() -> None:
    chance = np.random.default_rng(0)
    for _ in range(20):
        values = chance.integers(0, 4, size=6).astype(float).tolist()
        assert ranks(values, higher_is_better=False) == rankdata(values).tolist()
        assert ranks(values, higher_is_better=True) == rankdata([-value for value in values]).tolist()


def test_the_slope_is_that_of_scipy() -> None:
    chance = np.random.default_rng(0)
    x, y = chance.normal(size=12).tolist(), chance.normal(size=12).tolist()
    assert slope(x, y) == pytest.approx(linregress(x, y).slope)
    assert slope([], []) is None


def test_a_rounded_number_is_never_infinitely_certain() -> None:
    assert difference_in_se(0.072, 0.0, 0.07, 0.0) == math.inf
    assert difference_in_se(0.07, None, 0.07, 0.0) == 0
    assert difference_in_se(0.072, 0.0, 0.07, 0.0, resolution=0.01) == pytest.approx(0.002 / (0.01 / math.sqrt(12)))


def test_rows_without_a_method_are_left_out_of_the_ranks() -> None:
    found = average_ranks([{"a": 1.0, "b": 2.0}, {"b": 1.0}], higher_is_better=True)
    assert {name: (summary.mean, summary.count) for name, summary in found.items()} == {"a": (2.0, 1), "b": (1.0, 1)}
    assert average_ranks([], higher_is_better=True) == {}


def test_the_papers_average_ranks_follow_from_its_numbers() -> None:
    # Printed below the table of log-likelihoods; a wrong digit in a row would show here. It breaks ties otherwise.
    means = [{name: mean for name, (mean, _) in row.log_likelihood.items()} for row in UCI.values()]
    found = average_ranks(means, higher_is_better=True)
    printed = dict(zip(METHODS, (2.56, 3.56, 2.44, 1.44), strict=True))
    assert {name: found[name].mean for name in METHODS} == pytest.approx(printed, abs=0.12)


def test_sets_are_found_by_both_of_their_names() -> None:
    assert len(UCI) == 9
    assert sum(row.splits for row in UCI.values()) == 165
    assert paper_row("Naval-Propulsion-Plant") is UCI["naval"]
    assert paper_row("unknown") is None
    # The last M step moves no mean.
    assert all(row.rmse["CDropout"] == row.rmse["CDropoutM"] for row in UCI.values())
