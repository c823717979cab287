"""The Gaussian head: a split, and a log variance that cannot overflow."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from concrete_dropout.models.heads import GaussianHead, bounded_log_var
from concrete_dropout.predictive import gaussian_log_density


def test_split() -> None:
    linear, x = nn.Linear(3, 4), torch.randn(6, 3)
    mean, log_var = GaussianHead(linear)(x)
    assert torch.equal(mean, linear(x)[:, :2])
    torch.testing.assert_close(log_var, linear(x)[:, 2:])


def test_the_smallest_noise_is_added_to_every_variance() -> None:
    linear, x = nn.Linear(3, 4), torch.randn(6, 3)
    (mean, log_var), (floored_mean, floored) = GaussianHead(linear)(x), GaussianHead(linear, min_std=0.3)(x)
    assert torch.equal(floored_mean, mean)
    torch.testing.assert_close(floored.exp(), log_var.exp() + 0.09)


@pytest.mark.parametrize("min_std", [-0.1, float("inf"), float("nan")])
def test_an_impossible_smallest_noise_is_refused(min_std: float) -> None:
    with pytest.raises(ValueError, match="min_std"):
        GaussianHead(nn.Linear(3, 4), min_std=min_std)


def test_an_odd_number_of_features_is_refused() -> None:
    with pytest.raises(ValueError, match="the network has 3"):
        GaussianHead(nn.Linear(3, 3))(torch.zeros(1, 3))


def test_sane_values_are_exact() -> None:
    log_var = torch.linspace(-10, 10, 2001)
    assert torch.equal(bounded_log_var(log_var), log_var)


def test_it_is_smooth_and_increasing() -> None:
    log_var = torch.linspace(-60, 60, 4001, dtype=torch.float64, requires_grad=True)
    bounded = bounded_log_var(log_var)
    assert (bounded.diff() > 0).all()
    assert bounded.abs().max() < 20
    (slope,) = torch.autograd.grad(bounded.sum(), log_var)
    assert slope.diff().abs().max() < 0.01  # no jump at 10, where a clamp would have one
    assert (slope > 0).all()


@pytest.mark.parametrize("value", [-1e30, -1e3, -30.0, 30.0, 1e3, 1e30])
def test_neither_loss_nor_gradient_overflow(value: float) -> None:
    log_var = torch.tensor([value], requires_grad=True)
    mean = torch.zeros(1, requires_grad=True)
    nll = -gaussian_log_density(torch.tensor([100.0]), mean, bounded_log_var(log_var)).sum()
    gradients = torch.autograd.grad(nll, [mean, log_var])
    assert nll.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients)
