"""Populations of policies: many of the same kind, evaluated and trained side by side.

Every parameter has the population as its first axis, so that a population is one module, and a policy one slice of it.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn


def saturate(x: Tensor) -> Tensor:
    """PILCO's smooth squashing to [-1, 1]: (9 sin x + sin 3x) / 8, almost linear around 0 and flat at the limits.

    >>> saturate(torch.tensor([0.0, math.pi / 2, -math.pi / 2]))
    tensor([ 0.,  1., -1.])
    """
    sin = torch.sin(x)
    return sin * (1.5 - 0.5 * sin.square())  # the same by sin 3x = 3 sin x - 4 sin^3 x, with one sine


class Population(nn.Module, ABC):
    """Policies that map features of a state to an action within [-limit, limit].

    Args:
        num_features: D.
        limits: the largest action in each of A directions.
        scale: (D,), roughly how far features range, so that policies see numbers around 1; by default 1 each.

    Shapes: features (K, P, D), policy number p in [:, p] -> actions (K, P, A).
    """

    limits: Tensor
    scale: Tensor

    def __init__(self, num_features: int, limits: Sequence[float], scale: Sequence[float] | None = None) -> None:
        super().__init__()
        dtype = torch.get_default_dtype()
        self.register_buffer("limits", torch.tensor(limits, dtype=dtype))
        self.register_buffer("scale", torch.tensor(scale or [1.0] * num_features, dtype=dtype))

    @property
    def size(self) -> int:
        """P."""
        return next(self.parameters()).shape[0]

    @abstractmethod
    def prepared(self) -> Callable[[Tensor], Tensor]:
        """Actions (K, P, A) before they are squashed, as a function of features (K, P, D).

        What does not depend on features is computed once here instead of at every step of a rollout.
        """

    def acting(self) -> Callable[[Tensor], Tensor]:
        """The policies as they are now: features (K, P, D) -> actions (K, P, A)."""
        outputs = self.prepared()
        return lambda features: self.limits * saturate(outputs(features))

    def forward(self, features: Tensor) -> Tensor:
        """Actions (K, P, A)."""
        return self.acting()(features)

    def single(self, number: int) -> Callable[[Tensor], Tensor]:
        """One of the policies as it is now: features (K, 1, D) -> actions (K, 1, A)."""
        everyone = self.acting()
        return lambda features: everyone(features.expand(-1, self.size, -1))[:, number : number + 1]

    @abstractmethod
    def renew(self, numbers: Tensor, generator: torch.Generator | None = None) -> None:
        """New random policies in place of those with these numbers, (n,)."""

    @torch.no_grad()
    def part(self, numbers: Tensor) -> Population:
        """A population of its own, of copies of the policies with these numbers, (n,)."""
        part = copy.deepcopy(self)
        for mine, its in zip(self.parameters(), part.parameters(), strict=True):
            its.data = mine[numbers].clone()
        return part

    @torch.no_grad()
    def put(self, numbers: Tensor, part: Population) -> None:
        """Take the n policies of ``part`` in place of those with these numbers, (n,)."""
        for mine, its in zip(self.parameters(), part.parameters(), strict=True):
            mine[numbers] = its

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
        width: of the bumps at the start, in units of the scaled features.
        strength: of the bumps at the start.
        scale: of features.
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
        strength: float = 1.0,
        scale: Sequence[float] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(num_features, limits, scale)
        if size < 1 or units < 1 or not width > 0:
            raise ValueError(f"policy.size={size}, policy.units={units} and policy.width={width} must be above 0")
        self.width, self.strength = width, strength
        self.centres = nn.Parameter(torch.empty(size, units, num_features))
        self.log_widths = nn.Parameter(torch.empty(size, num_features))
        self.weights = nn.Parameter(torch.empty(size, units, len(limits)))
        self.renew(torch.arange(size), generator)

    @torch.no_grad()
    def renew(self, numbers: Tensor, generator: torch.Generator | None = None) -> None:
        """Centres and weights from a Gaussian, widths alike."""
        for parameter, strength in ((self.centres, 1.0), (self.weights, self.strength)):
            parameter[numbers] = strength * torch.randn(len(numbers), *parameter.shape[1:], generator=generator)
        self.log_widths[numbers] = math.log(self.width)

    def prepared(self) -> Callable[[Tensor], Tensor]:
        """Weighted sums of bumps."""
        precisions = torch.exp(-self.log_widths)
        gain = precisions / self.scale  # (P, D)
        centres = self.centres * precisions.unsqueeze(1)  # (P, U, D)

        def outputs(features: Tensor) -> Tensor:
            f = (features * gain).transpose(0, 1)  # (P, K, D)
            return bumps(f, centres, self.weights).transpose(0, 1)

        return outputs


def bumps(f: Tensor, centres: Tensor, weights: Tensor) -> Tensor:
    """sum_u w_u exp(-|f - c_u|^2 / 2), in one step of autograd.

    Shapes: f (P, K, D), centres (P, U, D), weights (P, U, A) -> (P, K, A).
    """
    out: Tensor = _Bumps.apply(f, centres, weights)
    return out


class _Bumps(torch.autograd.Function):
    """Rollouts call it at every step with few rows: what takes time is the number of operations."""

    @staticmethod
    def forward(ctx: Any, f: Tensor, c: Tensor, w: Tensor) -> Tensor:
        # -|f - c|^2 / 2 = f c - |f|^2 / 2 - |c|^2 / 2: one product of matrices instead of all differences.
        closeness = torch.baddbmm(c.square().sum(-1).unsqueeze(1), f, c.transpose(1, 2), beta=-0.5)  # (P, K, U)
        e = closeness.sub_(f.square().sum(-1, keepdim=True), alpha=0.5).exp_()
        ctx.save_for_backward(f, c, w, e)
        return e @ w

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        f, c, w, e = ctx.saved_tensors
        g = gradients[0]
        d = (g @ w.transpose(1, 2)).mul_(e)  # (P, K, U), of the exponents: d/df = c - f, d/dc = f - c
        of_f = torch.addcmul(d @ c, d.sum(2, keepdim=True), f, value=-1)
        back = d.transpose(1, 2)
        of_c = torch.addcmul(back @ f, back.sum(2, keepdim=True), c, value=-1)
        return of_f, of_c, e.transpose(1, 2) @ g


class MLPPolicies(Population):
    """Networks of tanh layers.

    Args:
        num_features: D.
        limits: the largest action in each of A directions.
        size: P.
        hidden: widths of the hidden layers.
        strength: of the last layer's weights at the start.
        scale: of features.
        generator: of the random start.
    """

    def __init__(
        self,
        num_features: int,
        limits: Sequence[float],
        size: int = 16,
        hidden: Sequence[int] = (50,),
        strength: float = 1.0,
        scale: Sequence[float] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(num_features, limits, scale)
        self.strength = strength
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for fan_in, fan_out in pairwise([num_features, *hidden, len(limits)]):
            self.weights.append(torch.empty(size, fan_in, fan_out))
            self.biases.append(torch.empty(size, 1, fan_out))
        self.renew(torch.arange(size), generator)

    @torch.no_grad()
    def renew(self, numbers: Tensor, generator: torch.Generator | None = None) -> None:
        """Weights from a Gaussian by their fan-in, no biases."""
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            strength = self.strength if layer == len(self.weights) - 1 else 1.0
            new = torch.randn(len(numbers), *weight.shape[1:], generator=generator)
            weight[numbers] = strength * new / math.sqrt(weight.shape[1])
            bias[numbers] = 0.0

    def prepared(self) -> Callable[[Tensor], Tensor]:
        """What the last layer gives."""

        def outputs(features: Tensor) -> Tensor:
            x = (features / self.scale).transpose(0, 1)  # (P, K, D)
            for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
                x = torch.baddbmm(bias, x if layer == 0 else torch.tanh(x), weight)
            return x.transpose(0, 1)

        return outputs
