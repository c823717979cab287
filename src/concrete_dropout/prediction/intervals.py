"""Central intervals of a mixture of Gaussians."""

from __future__ import annotations

import math

import torch
from torch import Tensor

MAX_STEPS = 100
TOLERANCE = 1e-9  # of the interval's width


def mixture_interval(means: Tensor, variances: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """The interval that holds ``share`` of the mixture, with equal parts below and above.

    The samples of a network disagree where it knows little, and their mixture is then no Gaussian: it may have heavy
    tails, or two modes. Its quantiles are exact, unlike those of the Gaussian with its mean and variance.

    Args:
        means: (S, ...), of components with equal weights.
        variances: (S, ...), above 0.
        share: in (0, 1).

    Returns:
        Lower and upper end, (...), in float64.

    >>> low, high = mixture_interval(torch.zeros(1, 1), torch.ones(1, 1), 0.95)
    >>> round(low.item(), 3), round(high.item(), 3)
    (-1.96, 1.96)
    """
    tail = (1 - share) / 2
    return mixture_quantile(means, variances, tail), mixture_quantile(means, variances, 1 - tail)


def mixture_quantile(means: Tensor, variances: Tensor, probability: float) -> Tensor:
    """Where the mixture's distribution function is ``probability``: (S, ...) -> (...).

    Newton's method, kept within a bracket that starts with the smallest and the largest quantile of a component.
    """
    means, stds = means.double(), variances.double().sqrt()
    z = math.sqrt(2) * torch.erfinv(torch.tensor(2 * probability - 1, dtype=torch.float64)).item()
    low, high = (means + z * stds).aminmax(dim=0)
    spread = stds.amax(0) + (high - low)
    x = (low + high) / 2
    for _ in range(MAX_STEPS):
        scaled = (x - means) / stds
        above = torch.special.ndtr(scaled).mean(0) - probability
        low, high = torch.where(above <= 0, x, low), torch.where(above >= 0, x, high)
        density = (torch.exp(-0.5 * scaled.square()) / stds).mean(0) / math.sqrt(2 * math.pi)
        step = x - above / density
        following = torch.where((step >= low) & (step <= high), step, (low + high) / 2)  # NaN is neither
        moved, x = (following - x).abs(), following
        if bool((moved <= TOLERANCE * spread).all()):
            break
    return x
