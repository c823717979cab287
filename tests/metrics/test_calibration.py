"""Coverage against known distributions."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats
from torch import Tensor

from concrete_dropout.metrics.calibration import LEVELS, IntervalCoverage, calibration_rmse, covered

levels = torch.tensor(LEVELS, dtype=torch.float64)


def coverage_of(pit: Tensor) -> Tensor:
    metric = IntervalCoverage()
    metric.update(pit)
    return metric.compute()


def test_there_are_99_levels() -> None:
    assert len(LEVELS) == 99
    assert LEVELS[0] == 0.01
    assert LEVELS[-1] == 0.99


def test_intervals_lie_between_quantiles() -> None:
    """|2 u - 1| <= c says the same as: y lies between the quantiles of (1 - c) / 2 and (1 + c) / 2."""
    y = torch.randn(500, dtype=torch.float64) * 3 + 1
    u = torch.tensor(stats.norm.cdf(y, 1, 2))
    for index, level in enumerate(LEVELS):
        low, high = stats.norm.ppf([(1 - level) / 2, (1 + level) / 2], 1, 2)
        assert torch.equal(covered(u, levels)[:, index], (y >= low) & (y <= high))


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_a_wrong_noise_scale_has_the_coverage_that_theory_gives(factor: float) -> None:
    """y ~ N(0, 1) and predictions N(0, factor^2): the interval of level c is factor * q_c wide."""
    quantile = torch.linspace(0, 1, 200_001, dtype=torch.float64)[1:-1]
    y = torch.tensor(stats.norm.ppf(quantile))  # an exact grid instead of random numbers
    observed = coverage_of(torch.tensor(stats.norm.cdf(y, scale=factor)))
    theory = 2 * torch.tensor(stats.norm.cdf(factor * stats.norm.ppf((1 + levels) / 2))) - 1
    torch.testing.assert_close(observed, theory, rtol=0, atol=1e-4)
    rmse = calibration_rmse(levels, observed).item()
    assert rmse == pytest.approx(math.sqrt(((theory - levels) ** 2).mean()), abs=1e-4)


def test_batches_and_outputs_add_up() -> None:
    pit = torch.rand(12, 2)
    metric = IntervalCoverage()
    for part in pit.split(5):
        metric.update(part)
    assert torch.equal(metric.compute(), coverage_of(pit.flatten()))
    assert metric.counts.shape == (99,)
    assert metric.counts.dtype is torch.float64
