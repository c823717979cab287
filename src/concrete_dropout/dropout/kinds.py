"""The three kinds of dropout, and which class stands for which in each shape."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, get_args

from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from concrete_dropout.dropout.layers import (
    ConcreteDropout,
    ConcreteDropout1d,
    ConcreteDropout2d,
    ConcreteDropout3d,
    _ConcreteDropoutNd,
    _ConcreteFeatureDropout,
)

Kind = Literal["none", "fixed", "concrete"]
KINDS: tuple[str, ...] = get_args(Kind)

PLAIN_OF_CONCRETE: dict[type[_ConcreteDropoutNd], type[_DropoutNd]] = {
    ConcreteDropout: nn.Dropout,
    ConcreteDropout1d: nn.Dropout1d,
    ConcreteDropout2d: nn.Dropout2d,
    ConcreteDropout3d: nn.Dropout3d,
}
CONCRETE_OF_PLAIN: dict[type[_DropoutNd], Any] = {plain: concrete for concrete, plain in PLAIN_OF_CONCRETE.items()}
PLAIN_IN_FRONT_OF: dict[type[nn.Module], type[_DropoutNd]] = {
    nn.Linear: nn.Dropout,
    nn.Conv1d: nn.Dropout1d,
    nn.Conv2d: nn.Dropout2d,
    nn.Conv3d: nn.Dropout3d,
    nn.ConvTranspose1d: nn.Dropout1d,
    nn.ConvTranspose2d: nn.Dropout2d,
    nn.ConvTranspose3d: nn.Dropout3d,
}


def is_concrete(module: _DropoutNd) -> bool:
    """Whether the layer learns its p."""
    layer_class: Any = type(module)  # which mypy does not take for hashable
    return _is_concrete(layer_class)


def kind_of(module: _DropoutNd) -> Kind:
    """What a dropout layer is now."""
    if is_concrete(module):
        return "concrete"
    return "fixed" if module.p > 0 else "none"


def plain_class(module: _DropoutNd) -> type[_DropoutNd] | None:
    """The torch class with this layer's mask shape; None for layers that have no Concrete counterpart.

    A subclass with a forward of its own (locked dropout, say) has none: its mask may be anything.
    """
    layer_class: Any = type(module)  # which mypy does not take for hashable
    return _plain_class(layer_class)


def is_channelwise(module: _DropoutNd) -> bool:
    """Whether the layer drops whole channels."""
    layer_class: Any = type(module)  # which mypy does not take for hashable
    return _is_channelwise(layer_class)


# Asked in every call of every layer while sampling, where a look at the bases of a class takes as long as a small mask.
@lru_cache(maxsize=256)
def _is_concrete(layer_class: type[_DropoutNd]) -> bool:
    return issubclass(layer_class, _ConcreteDropoutNd)


@lru_cache(maxsize=256)
def _plain_class(layer_class: type[_DropoutNd]) -> type[_DropoutNd] | None:
    if issubclass(layer_class, _ConcreteDropoutNd):
        return PLAIN_OF_CONCRETE[layer_class]
    return next((plain for plain in CONCRETE_OF_PLAIN if layer_class.forward is plain.forward), None)


@lru_cache(maxsize=256)
def _is_channelwise(layer_class: type[_DropoutNd]) -> bool:
    return issubclass(layer_class, (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, _ConcreteFeatureDropout))


def is_unbatched(module: _DropoutNd, x: Tensor) -> bool:
    """Whether a channel-wise layer takes ``x`` for (C, ...) rather than (N, C, ...)."""
    if not is_channelwise(module):
        return False
    plain = plain_class(module)
    return plain is not None and x.dim() in CONCRETE_OF_PLAIN[plain].unbatched_dims
