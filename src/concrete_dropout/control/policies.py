"""Populations of policies: many of the same kind, evaluated and trained side by side.

Every parameter has the population as its first axis, so that a population is one module, and a policy one slice of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


def saturate(x: Tensor) -> Tensor:
    """PILCO's smooth squashing to [-1, 1]: (9 sin x + sin 3x) / 8, almost linear around 0 and flat at the limits.

    >>> saturate(torch.tensor([0.0, math.pi / 2, -math.pi / 2]))
    tensor([ 0.,  1., -1.])
    """
    return (9 * torch.sin(x) + torch.sin(3 * x)) / 8


class Population(nn.Module, ABC):
    """Policies that map features of a state to an action within [-limit, limit].

    Args:
        limits: the largest action in each of A directions.

    Shapes: features (K, P, D), policy number p in [:, p] -> actions (K, P, A).
    """

    limits: Tensor

    def __init__(self, limits: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("limits", torch.tensor(limits, dtype=torch.get_default_dtype()))

    @property
    def size(self) -> int:
        """P."""
        return next(self.parameters()).shape[0]

    @abstractmethod
    def outputs(self, features: Tensor) -> Tensor:
        """Actions (K, P, A) before they are squashed."""

    def forward(self, features: Tensor) -> Tensor:
        """Actions (K, P, A)."""
        return self.limits * saturate(self.outputs(features))

    @torch.no_grad()
    def replace(self, worse: Tensor, better: Tensor, spread: float, generator: torch.Generator | None = None) -> None:
        """Policies ``worse`` become copies of ``better``, (n,) each, with random changes.

        The changes of a parameter are as large as ``spread`` times its standard deviation within the copied policy.
        """
        for parameter in self.parameters():
            copied = parameter[better]
            scale = copied.flatten(1).std(1, correction=0).view(-1, *(1 for _ in copied.shape[1:]))
            noise = torch.randn(copied.shape, generator=generator, dtype=copied.dtype)
            parameter[worse] = copied + spread * scale * noise.to(copied.device)


class RBFPolicies(Population):
    """Sums of Gaussian bumps, as PILCO's: sum_u w_u exp(-|(f - c_u) / s|^2 / 2).

    Args:
        num_features: D.
        limits: the largest action in each of A directions.
        size: P.
        units: bumps of a policy.
        width: of the bumps at the start, in units of the features.
        generator: of the random start.

    >>> RBFPolicies(5, [10.0], size=16)(torch.zeros(8, 16, 5)).shape
    torch.Size([8, 16, 1])
    """

    def __init__(
        self,
        num_features: int,
        limits: Sequence[float],
        size: int = 16,
        units: int = 30,
        width: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(limits)
        self.centres = nn.Parameter(torch.randn(size, units, num_features, generator=generator))
        self.log_widths = nn.Parameter(torch.full((size, num_features), math.log(width)))
        self.weights = nn.Parameter(torch.randn(size, units, len(limits), generator=generator))

    def outputs(self, features: Tensor) -> Tensor:
        """Weighted sums of bumps."""
        precisions = torch.exp(-self.log_widths)
        f = (features * precisions).transpose(0, 1)  # (P, K, D)
        c = self.centres * precisions.unsqueeze(1)  # (P, U, D)
        # |f - c|^2 = |f|^2 + |c|^2 - 2 f c: one product of matrices instead of all differences.
        squares = f.square().sum(-1, keepdim=True) + c.square().sum(-1).unsqueeze(1) - 2 * f @ c.transpose(1, 2)
        return (torch.exp(-squares.clamp(min=0) / 2) @ self.weights).transpose(0, 1)


class MLPPolicies(Population):
    """Networks of tanh layers.

    Args:
        num_features: D.
        limits: the largest action in each of A directions.
        size: P.
        hidden: widths of the hidden layers.
        generator: of the random start.
    """

    def __init__(
        self,
        num_features: int,
        limits: Sequence[float],
        size: int = 16,
        hidden: Sequence[int] = (50,),
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(limits)
        widths = [num_features, *hidden, len(limits)]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for fan_in, fan_out in pairwise(widths):
            self.weights.append(torch.randn(size, fan_in, fan_out, generator=generator) / math.sqrt(fan_in))
            self.biases.append(torch.zeros(size, 1, fan_out))

    def outputs(self, features: Tensor) -> Tensor:
        """What the last layer gives."""
        x = features.transpose(0, 1)  # (P, K, D)
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x if layer == 0 else torch.tanh(x), weight)
        return x.transpose(0, 1)
