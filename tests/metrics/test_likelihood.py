"""CRPS against numerical integration, scores against direct means."""

from __future__ import annotations

import pytest
import torch
from scipy import integrate, stats

from concrete_dropout.metrics.likelihood import GaussianScores, gaussian_crps


@pytest.mark.parametrize(("y", "mean", "std"), [(0.3, 0.0, 1.0), (-4.0, 1.5, 0.7), (20.0, -3.0, 9.0), (2.0, 2.0, 0.01)])
def test_crps_is_the_integral_of_squared_differences(y: float, mean: float, std: float) -> None:
    below, _ = integrate.quad(lambda x: stats.norm.cdf(x, mean, std) ** 2, mean - 40 * std, y, limit=500)
    above, _ = integrate.quad(lambda x: stats.norm.sf(x, mean, std) ** 2, y, max(mean, y) + 40 * std, limit=500)
    actual = gaussian_crps(*(torch.tensor(value, dtype=torch.float64) for value in (y, mean, std**2)))
    assert actual.item() == pytest.approx(below + above, rel=1e-7)


def test_crps_without_variance_is_the_absolute_error() -> None:
    y = torch.tensor([-3.0, 0.0, 1e-3, 1e6], dtype=torch.float64)
    torch.testing.assert_close(gaussian_crps(y, torch.zeros(4), torch.zeros(4)), y.abs(), rtol=1e-12, atol=1e-29)


def test_scores_are_means_over_all_batches() -> None:
    log_likelihood, y, mean, variance = torch.randn(7), torch.randn(7, 2), torch.randn(7, 2), torch.rand(7, 2)
    scores = GaussianScores()
    for rows in torch.arange(7).split(3):
        scores.update(log_likelihood[rows], y[rows], mean[rows], variance[rows])
    result = scores.compute()
    assert result["log_likelihood"].item() == pytest.approx(log_likelihood.double().mean().item(), abs=1e-12)
    assert result["nll"] == -result["log_likelihood"]
    assert result["rmse"].item() == pytest.approx(((y - mean).double() ** 2).mean().sqrt().item(), abs=1e-7)
    expected = gaussian_crps(y.double(), mean.double(), variance.double()).mean().item()
    assert result["crps"].item() == pytest.approx(expected, abs=1e-12)
    assert result["num_rows"] == 7


def test_sums_do_not_lose_small_terms() -> None:
    """In float32 a sum of 2^25 does not grow by adding ones."""
    scores = GaussianScores()
    one = torch.ones(1, 1)
    scores.update(torch.full((1,), 2.0**25), one, one, one)
    for _ in range(10):
        scores.update(torch.ones(1), one, one, one)
    assert (scores.compute()["log_likelihood"] * 11).item() == pytest.approx(2.0**25 + 10, abs=1e-6)
