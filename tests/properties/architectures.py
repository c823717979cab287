"""Random small networks of many shapes, with what each of their dropouts masks known from how they were built.

A dropout in front of layers masks their columns, one behind a layer (with nothing linear after it) its rows. Blocks end
with a layer or with a function through which no mask of features passes, so that neighbours have nothing to do with
each other.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from tests.properties.strategies import Joined, Residual, tensor
from torch import Tensor, nn

OPAQUE: tuple[Callable[[], nn.Module], ...] = (nn.Tanh, nn.SiLU, nn.Sigmoid)
HOMOGENEOUS: tuple[Callable[[], nn.Module], ...] = (nn.ReLU, nn.LeakyReLU, nn.Identity)
LAYERS: tuple[type[nn.Module], ...] = (nn.Linear, nn.Conv1d, nn.Conv2d)
DROPOUTS = ((nn.Dropout,), (nn.Dropout, nn.Dropout1d), (nn.Dropout, nn.Dropout2d))
NORMS = (nn.BatchNorm1d, nn.BatchNorm1d, nn.BatchNorm2d)
SIZES: tuple[tuple[int, ...], ...] = ((), (5,), (4, 3))


class Two(nn.Module):
    """One mask for two layers, whose results are added."""

    def __init__(self, dropout: nn.Module, left: nn.Module, right: nn.Module) -> None:
        super().__init__()
        self.dropout, self.left, self.right = dropout, left, right

    def forward(self, x: Tensor) -> Tensor:
        x = self.dropout(x)
        out: Tensor = self.left(x) + self.right(torch.relu(x))
        return out


class Again(nn.Module):
    """Layers one after the other, with a dropout in front of each; dropouts or layers may be the same module."""

    def __init__(self, dropouts: list[nn.Module], layers: list[nn.Module]) -> None:
        super().__init__()
        self.dropouts, self.layers = nn.ModuleList(dropouts), nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for dropout, layer in zip(self.dropouts, self.layers, strict=True):
            x = torch.tanh(layer(dropout(x)))
        return x


@dataclass
class Masked:
    """What a dropout masks: weights, and the number of entries of its masks."""

    weights: list[nn.Module] = field(default_factory=list)
    entries: int = 0


@dataclass(frozen=True)
class Architecture:
    """A network in eval mode, an input for it, and what its dropouts mask, by name."""

    model: nn.Sequential
    x: Tensor
    masked: dict[str, Masked]


class _Builder:
    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.kind = self.choose.randrange(3)
        self.width = self.choose.randint(1, 5)
        self.truth: dict[int, Masked] = {}

    def layer(self, inputs: int, outputs: int) -> nn.Module:
        bias = self.choose.random() < 0.7
        if self.kind == 0:
            return nn.Linear(inputs, outputs, bias=bias)
        size = self.choose.choice([1, 3])
        return LAYERS[self.kind](inputs, outputs, size, padding=size // 2, bias=bias)

    def dropout(self, *layers: nn.Module, entries: int) -> nn.Module:
        made = self.choose.choice(DROPOUTS[self.kind])(self.choose.choice([0.1, 0.3, 0.5]))
        self.masks(made, *layers, entries=entries)
        return made

    def masks(self, dropout: nn.Module, *layers: nn.Module, entries: int) -> None:
        known = self.truth.setdefault(id(dropout), Masked())
        known.weights += [layer for layer in layers if not any(layer is other for other in known.weights)]
        known.entries += entries

    def opaque(self) -> nn.Module:
        return self.choose.choice(OPAQUE)()

    def between(self) -> list[nn.Module]:
        """What may stand between a dropout and its layer."""
        return [self.choose.choice(HOMOGENEOUS)()] if self.choose.random() < 0.5 else []

    def front(self) -> nn.Module:
        layer = self.layer(self.width, self.width)
        first = self.dropout(layer, entries=self.width)
        more = [self.dropout(layer, entries=self.width)] if self.choose.random() < 0.15 else []
        return nn.Sequential(first, *more, *self.between(), layer)

    def behind(self) -> nn.Module:
        layer = self.layer(self.width, self.width)
        return nn.Sequential(layer, *self.between(), self.dropout(layer, entries=self.width), self.opaque())

    def two(self) -> nn.Module:
        left, right = self.layer(self.width, self.width), self.layer(self.width, self.width)
        return Two(self.dropout(left, right, entries=self.width), left, right)

    def same_dropout(self) -> nn.Module:
        layers = [self.layer(self.width, self.width) for _ in range(2)]
        dropout = self.dropout(layers[0], entries=self.width)
        self.masks(dropout, layers[1], entries=self.width)
        return Again([dropout, dropout], layers)

    def same_layer(self) -> nn.Module:
        layer = self.layer(self.width, self.width)
        return Again([self.dropout(layer, entries=self.width) for _ in range(2)], [layer, layer])

    def residual(self) -> nn.Module:
        return Residual(self.front())

    def joined(self) -> nn.Module:
        branch = self.front() if self.choose.random() < 0.5 else self.behind()
        return nn.Sequential(Joined(branch, nn.Identity()), self.layer(2 * self.width, self.width))

    def norm(self) -> nn.Module:
        return nn.Sequential(NORMS[self.kind](self.width), self.opaque())


def architecture(seed: int) -> Architecture:
    """The network of a seed: one to four blocks between two layers, with at least one dropout."""
    build = _Builder(seed)
    masking = [build.front, build.behind, build.two, build.same_dropout, build.same_layer, build.residual, build.joined]
    inputs, outputs = build.choose.randint(1, 4), build.choose.randint(1, 4)
    blocks: list[nn.Module] = [build.layer(inputs, build.width), build.opaque()]
    blocks.append(build.choose.choice(masking)())
    for _ in range(build.choose.randint(0, 3)):
        blocks += [build.opaque(), build.choose.choice([*masking, build.norm])()]
    model = nn.Sequential(*blocks, build.opaque(), build.layer(build.width, outputs))
    _initialise(model, seed)
    shape = (build.choose.randint(2, 5), inputs, *SIZES[build.kind])
    masked = {name: build.truth[id(part)] for name, part in model.named_modules() if id(part) in build.truth}
    return Architecture(model.eval(), tensor(shape, seed), masked)


def _initialise(model: nn.Module, seed: int) -> None:
    """Weights and running statistics that depend on the seed alone."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in [*model.parameters(), *model.buffers()]:
            if value.is_floating_point():
                value.copy_(torch.rand(value.shape, generator=generator) + 0.1)
        for value in model.parameters():
            value.sub_(0.6)
