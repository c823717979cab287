from __future__ import annotations

import pytest
import torch
from scipy import stats

from concrete_dropout.prediction.intervals import mixture_interval, mixture_quantile


@pytest.mark.parametrize("probability", [0.001, 0.3, 0.5, 0.975])
def test_a_single_gaussian(probability: float) -> None:
    found = mixture_quantile(torch.tensor([[3.0]]), torch.tensor([[4.0]]), probability)
    assert found.item() == pytest.approx(stats.norm(3, 2).ppf(probability), rel=1e-9)


@pytest.mark.parametrize("spread", [0.1, 3.0, 1000.0])
def test_the_distribution_function_at_a_quantile_is_the_probability(spread: float) -> None:
    generator = torch.Generator().manual_seed(0)
    means = spread * torch.randn(50, 20, dtype=torch.float64, generator=generator)
    variances = torch.rand(50, 20, dtype=torch.float64, generator=generator) + 1e-3
    for share in (0.5, 0.95, 0.999):
        low, high = mixture_interval(means, variances, share)
        for end, probability in ((low, (1 - share) / 2), (high, (1 + share) / 2)):
            reached = torch.special.ndtr((end - means) / variances.sqrt()).mean(0)
            assert reached.tolist() == pytest.approx([probability] * 20, abs=1e-6)


def test_two_modes_have_no_gaussian_interval() -> None:
    """Half of the mass at -10 and half at 10: the central half lies between the modes, and is reached exactly."""
    low, high = mixture_interval(torch.tensor([[-10.0], [10.0]]), torch.tensor([[1.0], [1.0]]), 0.5)
    assert low.item() == pytest.approx(-10, abs=1e-6)
    assert high.item() == pytest.approx(10, abs=1e-6)
