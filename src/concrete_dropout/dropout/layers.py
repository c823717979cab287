"""Concrete dropout layers: drop-ins for ``nn.Dropout``, ``nn.Dropout1d``, ``2d`` and ``3d`` that learn p."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from concrete_dropout.dropout.functional import concrete_dropout
from concrete_dropout.dropout.recompute import refuse_unrestored

InitP = float | Sequence[float]


class _ConcreteDropoutNd(_DropoutNd, ABC):
    """Everything but the shape of the mask.

    Args:
        p: initial drop probability, strictly between 0 and 1; a pair (low, high) draws it uniformly from there.
        inplace: accepted for compatibility; the input is never modified.
        init_p: another name for ``p``, the one that ``swap_dropout`` and the configs use.
        temperature: of the Concrete distribution, per layer. At 0.1 the mask is nearly Bernoulli.
        generator: source of the noise; torch's default generator by default. Gradient checkpointing restores
            only the default one: see ``preserve_masks`` for a generator of your own.

    The state dict holds ``p_logit`` alone. Dropout is silent in eval mode.
    """

    p_logit: nn.Parameter

    def __init__(
        self,
        p: InitP = 0.1,
        inplace: bool = False,
        *,
        init_p: InitP | None = None,
        temperature: float = 0.1,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        nn.Module.__init__(self)  # _DropoutNd would assign p, which is derived here
        low, high = check_init_p(p if init_p is None else init_p)
        check_temperature(temperature)
        self.inplace = False
        self.temperature = float(temperature)
        self.generator = generator
        drawn = low if low == high else low + (high - low) * torch.rand((), dtype=torch.float64).item()
        dtype = dtype or torch.get_default_dtype()
        self.p_logit = nn.Parameter(torch.tensor(_logit(drawn), device=device, dtype=dtype))

    @property
    def p(self) -> float:
        """The current drop probability, as ``nn.Dropout.p`` gives it. For gradients, use ``p_logit``."""
        return torch.sigmoid(self.p_logit.detach().double()).item()

    @p.setter
    def p(self, value: float) -> None:
        low, _ = check_init_p(value)
        with torch.no_grad():
            self.p_logit.fill_(_logit(low))

    @abstractmethod
    def mask_shape(self, x: Tensor) -> tuple[int, ...]:
        """Shape of the mask for an input ``x``: which entries share a mask value."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return input
        if self.generator is not None:
            refuse_unrestored(self.generator)
        return concrete_dropout(
            input, self.p_logit, self.temperature, mask_shape=self.mask_shape(input), generator=self.generator
        )

    def extra_repr(self) -> str:
        return f"p={self.p:.4g}, temperature={self.temperature:g}"


class ConcreteDropout(_ConcreteDropoutNd):
    """Element-wise Concrete dropout: every entry of the input has its own mask value.

    >>> layer = ConcreteDropout(0.2)
    >>> layer(torch.ones(8, 16)).shape, round(layer.p, 6)
    (torch.Size([8, 16]), 0.2)
    """

    def mask_shape(self, x: Tensor) -> tuple[int, ...]:
        return tuple(x.shape)


class _ConcreteFeatureDropout(_ConcreteDropoutNd):
    """One mask value per sample and channel. Which dimensions those are, is as in torch's layer of that name."""

    batched_dims: tuple[int, ...]  # numbers of dimensions of (N, C, ...)
    unbatched_dims: tuple[int, ...]  # and of (C, ...)

    def mask_shape(self, x: Tensor) -> tuple[int, ...]:
        if x.dim() in self.batched_dims:
            return (*x.shape[:2], *(1 for _ in x.shape[2:]))
        if x.dim() in self.unbatched_dims:
            return (x.shape[0], *(1 for _ in x.shape[1:]))
        allowed = sorted({*self.batched_dims, *self.unbatched_dims})
        raise ValueError(f"{type(self).__name__} takes inputs with {allowed} dimensions, got {tuple(x.shape)}")


class ConcreteDropout1d(_ConcreteFeatureDropout):
    """Concrete dropout of whole channels of (N, C, L) or (C, L) inputs.

    >>> y = ConcreteDropout1d(0.5)(torch.ones(4, 8, 5))
    >>> bool((y == y[:, :, :1]).all())
    True
    """

    batched_dims, unbatched_dims = (3,), (2,)


class ConcreteDropout2d(_ConcreteFeatureDropout):
    """Concrete dropout of whole channels of (N, C, H, W) inputs; three dimensions are taken for (N, C, L)."""

    batched_dims, unbatched_dims = (2, 3, 4), ()


class ConcreteDropout3d(_ConcreteFeatureDropout):
    """Concrete dropout of whole channels of (N, C, D, H, W) or (C, D, H, W) inputs."""

    batched_dims, unbatched_dims = (5,), (4,)


def check_init_p(init_p: InitP) -> tuple[float, float]:
    """An initial p as a range (low, high), refused unless 0 < low <= high < 1."""
    try:
        low, high = (float(end) for end in (init_p if isinstance(init_p, Sequence) else (init_p, init_p)))
    except (TypeError, ValueError) as error:
        raise ValueError(f"init_p={init_p!r} must be a number or a pair (low, high)") from error
    if not 0 < low <= high < 1:
        raise ValueError(f"init_p={init_p!r} must lie strictly between 0 and 1 (a learned p has a finite logit)")
    return low, high


def check_temperature(temperature: float) -> None:
    """Refuse a temperature that is not a positive number."""
    if not (math.isfinite(temperature) and temperature > 0):
        raise ValueError(f"temperature={temperature!r} must be a positive number (the paper uses 0.1)")


def _logit(p: float) -> float:
    return math.log(p) - math.log1p(-p)
