"""What the properties are checked on: tensors by seed and shape, logits, dtypes and small random networks."""

from __future__ import annotations

import random

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

seeds = st.integers(0, 2**32 - 1)
p_logits = st.floats(-40, 40, allow_nan=False)
moderate_logits = st.floats(-6, 6, allow_nan=False)
float_dtypes = st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.float16])
shapes = st.lists(st.integers(1, 7), min_size=2, max_size=4).map(tuple)


def tensor(shape: tuple[int, ...], seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Normal numbers that depend on shape and seed alone."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def pieces(total: int, seed: int) -> list[int]:
    """Lengths of at least 1 that add up to ``total``, at random."""
    chooser, lengths = random.Random(seed), []
    while total > 0:
        lengths.append(chooser.randint(1, total))
        total -= lengths[-1]
    return lengths


class Residual(nn.Module):
    """x + body(x)."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.body(x)
        return out


class Joined(nn.Module):
    """What two branches make of x, side by side."""

    def __init__(self, left: nn.Module, right: nn.Module) -> None:
        super().__init__()
        self.left, self.right = left, right

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.left(x), self.right(x)], dim=1)


def random_network(seed: int) -> tuple[nn.Sequential, Tensor]:
    """A network of linear or convolutional layers with at least one dropout in front of a layer, and its input."""
    chooser = random.Random(seed)
    conv = chooser.random() < 0.5
    inputs, width, depth = chooser.randint(1, 4), chooser.randint(2, 6), chooser.randint(1, 4)
    activations = [nn.ReLU, nn.Tanh, nn.Identity, nn.SiLU]
    layers: list[nn.Module] = [_layer(conv, inputs, width)]
    for number in range(depth):
        layers.append(chooser.choice(activations)())
        dropout = nn.Dropout2d if conv and chooser.random() < 0.7 else nn.Dropout
        body = nn.Sequential(dropout(chooser.choice([0.1, 0.5])), _layer(conv, width, width))
        kind = chooser.choice(["plain", "residual", "joined"])
        if kind == "plain" or number == 0:
            layers.append(body)
        elif kind == "residual":
            layers.append(Residual(body))
        else:
            layers += [Joined(body, nn.Identity()), _layer(conv, 2 * width, width)]
    shape = (chooser.randint(1, 5), inputs, *((6, 5) if conv else ()))
    torch.manual_seed(seed)
    for layer in layers:
        for part in layer.modules():
            if hasattr(part, "reset_parameters"):
                part.reset_parameters()
    return nn.Sequential(*layers).eval(), tensor(shape, seed)


def _layer(conv: bool, inputs: int, outputs: int) -> nn.Module:
    return nn.Conv2d(inputs, outputs, 3, padding=1) if conv else nn.Linear(inputs, outputs)
