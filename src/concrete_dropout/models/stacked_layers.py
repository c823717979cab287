"""The layers of R networks as one layer each: parameters (R, ...), inputs (R, B, K)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from concrete_dropout.dropout.kinds import Kind, kind_of
from concrete_dropout.dropout.layers import ConcreteDropout
from concrete_dropout.errors import UserError
from concrete_dropout.models.stacked_mask import stacked_concrete_dropout

MIN_LOGIT = -1000.0  # exp of it is 0, and so is its entropy: the limit p -> 0


def stacked(parameters: Sequence[Tensor]) -> nn.Parameter:
    """One parameter (R, ...) from R of the same shape."""
    values = torch.stack([parameter.detach() for parameter in parameters])
    return nn.Parameter(values, requires_grad=all(parameter.requires_grad for parameter in parameters))


class StackedLayer(nn.Module, ABC):
    """One layer of each replica.

    Args:
        layers: the replicas' layers, which ``write_back`` writes to.
    """

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self._originals = tuple(layers)  # in a tuple: they are not part of this module

    @abstractmethod
    def write_back(self) -> None:
        """Copy the parameters into the replicas' layers."""

    def _copy(self, values: Tensor, name: str) -> None:
        with torch.no_grad():
            for value, layer in zip(values.detach(), self._originals, strict=True):
                getattr(layer, name).copy_(value)


class StackedLinear(StackedLayer):
    """R linear maps: (R, B, I) -> (R, B, O), by one batched product.

    >>> layers = [nn.Linear(3, 2) for _ in range(4)]
    >>> x = torch.randn(4, 5, 3)
    >>> StackedLinear(layers)(x)[1].allclose(layers[1](x[1]), atol=1e-6)
    True
    """

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__(layers)
        self.weight = stacked([layer.weight for layer in layers])  # (R, O, I)
        self.bias = None if layers[0].bias is None else stacked([layer.bias for layer in layers])  # (R, O)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight.transpose(1, 2)
        return torch.bmm(x, weight) if self.bias is None else torch.baddbmm(self.bias.unsqueeze(1), x, weight)

    def write_back(self) -> None:
        self._copy(self.weight, "weight")
        if self.bias is not None:
            self._copy(self.bias, "bias")


class StackedDropout(StackedLayer, ABC):
    """One dropout of each replica, of any kind.

    Attributes:
        name: of the dropout in a replica's network.
        kind: "none", "fixed" or "concrete".
    """

    def __init__(self, name: str, kind: Kind, layers: Sequence[_DropoutNd]) -> None:
        super().__init__(layers)
        self.name, self.kind = name, kind

    @property
    @abstractmethod
    def logits(self) -> Tensor:
        """Logits of p, (R,), differentiable where p is learned."""

    @property
    @abstractmethod
    def probabilities(self) -> list[float]:
        """The p of each replica."""


class StackedConcreteDropout(StackedDropout):
    """Concrete dropout with a p of its own for every replica."""

    def __init__(self, name: str, layers: Sequence[ConcreteDropout]) -> None:
        super().__init__(name, "concrete", layers)
        temperatures = sorted({layer.temperature for layer in layers})
        if len(temperatures) > 1:
            raise UserError(
                f"replicas need the same dropout.temperature, but dropout {name!r} has "
                f"{', '.join(f'{value:g}' for value in temperatures)}: train these apart"
            )
        self.temperature = temperatures[0]
        self.p_logit = stacked([layer.p_logit for layer in layers])

    @property
    def logits(self) -> Tensor:
        return self.p_logit

    @property
    def probabilities(self) -> list[float]:
        values: list[float] = torch.sigmoid(self.p_logit.detach().double()).tolist()
        return values

    def forward(self, x: Tensor) -> Tensor:
        return stacked_concrete_dropout(x, self.p_logit, self.temperature) if self.training else x

    def write_back(self) -> None:
        self._copy(self.p_logit, "p_logit")


class StackedFixedDropout(StackedDropout):
    """Ordinary dropout, with a p of its own for every replica; p = 0 stands for none."""

    p: Tensor

    def __init__(self, name: str, layers: Sequence[_DropoutNd], like: Tensor) -> None:
        super().__init__(name, "none" if all(layer.p == 0 for layer in layers) else "fixed", layers)
        self._p = [float(layer.p) for layer in layers]
        p = torch.tensor(self._p, dtype=torch.float64)
        self.register_buffer("p", p.to(like), persistent=False)
        logits = torch.logit(p).clamp(min=MIN_LOGIT)
        self.register_buffer("_logits", logits.to(like), persistent=False)

    @property
    def logits(self) -> Tensor:
        return self.get_buffer("_logits")

    @property
    def probabilities(self) -> list[float]:
        return list(self._p)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.kind == "none":
            return x
        if len(set(self._p)) == 1:
            return nn.functional.dropout(x, self._p[0])
        p = self.p.view(-1, 1, 1)
        return x * ((torch.rand_like(x) >= p) / (1 - p))

    def write_back(self) -> None:
        """A fixed p has nothing to write."""


def stacked_dropout(name: str, layers: Sequence[_DropoutNd], like: Tensor) -> StackedDropout:
    """The stack of the replicas' dropouts ``name``; ``like`` has the dtype and device of their inputs."""
    if all(isinstance(layer, ConcreteDropout) for layer in layers):
        return StackedConcreteDropout(name, [layer for layer in layers if isinstance(layer, ConcreteDropout)])
    kinds = {kind_of(layer) for layer in layers}
    if "concrete" in kinds:
        raise UserError(f"replicas need the same kind of dropout, but {name!r} is {' and '.join(sorted(kinds))}")
    return StackedFixedDropout(name, layers, like)
