"""Generated data with labels: clouds of points with a class each, and pictures with a class per pixel."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from concrete_dropout.models import MLP
from concrete_dropout.settings import DropoutSettings, OptimSettings
from concrete_dropout.tasks import ClassificationTask, SegmentationTask

CLASSES = ("road", "sky", "tree")
VOID = 255


class Labelled(pl.LightningDataModule):
    """Three parts of (x, y)."""

    def __init__(self, parts: list[tuple[Tensor, Tensor]], batch_size: int, num_train: int) -> None:
        super().__init__()
        self.train, self.val, self.test = (TensorDataset(*part) for part in parts)
        self.batch_size, self.num_train = batch_size, num_train

    def train_dataloader(self) -> Any:
        return DataLoader(self.train, self.batch_size, shuffle=True)

    def val_dataloader(self) -> Any:
        return DataLoader(self.val, self.batch_size)

    def test_dataloader(self) -> Any:
        return DataLoader(self.test, self.batch_size)


def clouds() -> Labelled:
    """Points around three centres that overlap a little."""
    generator = torch.Generator().manual_seed(2)
    centres = torch.tensor([[2.0, 0.0], [-1.0, 1.7], [-1.0, -1.7]])

    def part(rows: int) -> tuple[Tensor, Tensor]:
        y = torch.arange(rows) % 3
        return centres[y] + torch.randn(rows, 2, generator=generator), y

    return Labelled([part(90), part(30), part(48)], batch_size=16, num_train=90)


def pictures(height: int = 8, width: int = 10) -> Labelled:
    """The class of a pixel shows in its colour; a tenth of the pixels is void."""
    generator = torch.Generator().manual_seed(3)

    def part(rows: int) -> tuple[Tensor, Tensor]:
        y = torch.randint(3, (rows, height, width), generator=generator)
        x = nn.functional.one_hot(y, 3).movedim(-1, 1) + 0.4 * torch.randn(rows, 3, height, width, generator=generator)
        void = torch.rand(rows, height, width, generator=generator) < 0.1
        return x, y.masked_fill(void, VOID)

    return Labelled([part(12), part(4), part(6)], batch_size=4, num_train=12 * height * width)


def classifier(kind: Any = "concrete", **dropout: Any) -> nn.Module:
    settings = DropoutSettings(kind, **{"p": 0.2, "init_p": 0.2, **dropout})
    return settings.apply(MLP(2, 3, hidden=(16,)), torch.zeros(1, 2))


def segmenter(kind: Any = "concrete", **dropout: Any) -> nn.Module:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout2d(0.2), nn.Conv2d(8, 3, 1)
    )
    settings = DropoutSettings(kind, **{"p": 0.2, "init_p": 0.2, **dropout})
    return settings.apply(model, torch.zeros(1, 3, 8, 10))


def classification(data: Labelled, kind: Any = "concrete", **options: Any) -> ClassificationTask:
    network = options.pop("network", None) or classifier(kind)
    return ClassificationTask(network, **{**_defaults(data), **options})


def segmentation(data: Labelled, kind: Any = "concrete", **options: Any) -> SegmentationTask:
    network = options.pop("network", None) or segmenter(kind)
    return SegmentationTask(network, **{**_defaults(data), **options})


def _defaults(data: Labelled) -> dict[str, Any]:
    return {
        "num_train": data.num_train,
        "num_classes": 3,
        "class_names": CLASSES,
        "optim": OptimSettings(lr=1e-2),
        "val_samples": 4,
        "test_samples": 6,
    }
