"""Output heads: from a network's last layer to the parameters of a likelihood."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

EXACT_LOG_VAR = 10.0
MARGIN_LOG_VAR = 10.0


class GaussianHead(nn.Module):
    """A network whose outputs are split into mean and log variance of Gaussian noise: heteroscedastic regression.

    Args:
        network: its last axis has 2 O features: O means, then O log variances.
        min_std: smallest standard deviation of noise that is believed in; its square is added to every variance.

    Shapes: (rows, ...) -> (mean, log_var), each (rows, O).

    The log variance goes through ``bounded_log_var``, so that neither it nor 1 / variance can overflow.

    >>> mean, log_var = GaussianHead(nn.Linear(3, 4))(torch.zeros(5, 3))
    >>> mean.shape, log_var.shape
    (torch.Size([5, 2]), torch.Size([5, 2]))
    """

    def __init__(self, network: nn.Module, *, min_std: float = 0.0) -> None:
        super().__init__()
        if not 0 <= min_std < math.inf:
            raise ValueError(f"min_std={min_std} must be 0 or more")
        self.network = network
        self.min_std = min_std

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features: Tensor = self.network(x)
        if features.shape[-1] % 2:
            raise ValueError(f"a GaussianHead splits its features in two, but the network has {features.shape[-1]}")
        mean, log_var = features.chunk(2, dim=-1)  # (rows, O) each
        log_var = bounded_log_var(log_var)
        if self.min_std:
            log_var = torch.logaddexp(log_var, log_var.new_tensor(2 * math.log(self.min_std)))
        return mean, log_var


def bounded_log_var(log_var: Tensor) -> Tensor:
    """The identity on [-10, 10], then a tanh that bends towards -20 and 20.

    Targets are standardised, so a noise standard deviation outside of [0.007, 148] is an accident of early training.
    Beyond it the variance stays within [2e-9, 5e8]: finite in float32, and so is its inverse. A hard clamp would
    have no gradient there and leave the head stuck; this one is smooth (once differentiable) and pulls it back.

    >>> bounded_log_var(torch.tensor([-3.0, 10.0, 1000.0]))
    tensor([-3., 10., 20.])
    """
    exact = log_var.clamp(-EXACT_LOG_VAR, EXACT_LOG_VAR)
    return exact + MARGIN_LOG_VAR * torch.tanh((log_var - exact) / MARGIN_LOG_VAR)
