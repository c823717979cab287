"""Random categorical predictions for tests of metrics."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric

from concrete_dropout import CategoricalAccumulator, CategoricalPrediction

VOID = 255


def prediction_of(logits: Tensor, targets: Tensor) -> CategoricalPrediction:
    """From logits (S, rows, C, ...)."""
    accumulator = CategoricalAccumulator(targets)
    accumulator.update(logits)
    return accumulator.compute()


def random_logits(*shape: int, seed: int = 0, scale: float = 3.0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


def random_targets(num_classes: int, *shape: int, void: float = 0.2, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(num_classes, shape, generator=generator)
    return targets.masked_fill(torch.rand(shape, generator=generator) < void, VOID)


def add_states(metric: Metric, other: Metric) -> None:
    """What the sum over processes does."""
    for name in metric._defaults:
        setattr(metric, name, getattr(metric, name) + getattr(other, name))
