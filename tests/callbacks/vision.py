"""Small real runs of classification and segmentation, and what they computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from concrete_dropout.callbacks import (
    CalibrationMonitor,
    ClassMonitor,
    GalleryMonitor,
    MapsMonitor,
    SelectiveMonitor,
    UncertaintyMonitor,
)
from concrete_dropout.data.digits import DigitsData
from concrete_dropout.data.scenes import ScenesData
from concrete_dropout.predictive import CategoricalPrediction
from concrete_dropout.settings import DropoutSettings, OptimSettings
from concrete_dropout.tasks.classification import ClassificationTask
from concrete_dropout.tasks.segmentation import SegmentationTask

OPTIM = OptimSettings(lr=3e-3, p_lr=0.05, schedule="constant")


class Outputs(pl.Callback):
    """Keeps everything that evaluation steps returned; with several loaders or processes, of this one."""

    def __init__(self) -> None:
        self.of: dict[str, list[Any]] = {}

    def on_validation_start(self, *_: Any) -> None:
        self.of["val"] = []

    def on_test_start(self, *_: Any) -> None:
        self.of["test"] = []

    def on_validation_batch_end(self, trainer: Any, task: Any, outputs: Any, *_: Any) -> None:
        self.of["val"].append(outputs)

    def on_test_batch_end(self, trainer: Any, task: Any, outputs: Any, *_: Any) -> None:
        self.of["test"].append(outputs)

    def joined(self, stage: str) -> tuple[CategoricalPrediction, Tensor]:
        predictions = [outputs["prediction"] for outputs in self.of[stage]]
        prediction = CategoricalPrediction(
            torch.cat([p.probabilities for p in predictions]), torch.cat([p.expected_entropy for p in predictions])
        )
        return prediction, torch.cat([outputs["targets"] for outputs in self.of[stage]])


def digits(**settings: Any) -> DigitsData:
    return DigitsData(**{"batch_size": 128, "eval_batch_size": 100, **settings})


def classification_task(data: DigitsData, kind: str = "concrete") -> ClassificationTask:
    torch.manual_seed(0)
    spec = data.spec
    network = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, spec.num_classes)
    )
    swapped = DropoutSettings(kind=kind, init_p=0.3, p=0.3).apply(network, data.example_input)  # type: ignore[arg-type]
    return ClassificationTask(
        swapped, num_train=spec.num_train, num_classes=spec.num_classes, optim=OPTIM, val_samples=3, test_samples=4
    )


def scenes(**settings: Any) -> ScenesData:
    sizes = {"num_train": 6, "num_val": 5, "num_test": 4, "height": 24, "width": 40}
    return ScenesData(**{**sizes, "batch_size": 3, "eval_batch_size": 2, "crop": 16, **settings})


def segmentation_task(data: ScenesData, **settings: Any) -> SegmentationTask:
    torch.manual_seed(0)
    spec = data.spec
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Dropout2d(0.2), nn.Conv2d(8, spec.num_classes, 3, padding=1)
    )
    swapped = DropoutSettings(init_p=0.3).apply(network, data.example_input)
    return SegmentationTask(
        swapped,
        num_train=spec.num_train,
        num_classes=spec.num_classes,
        **{"class_names": spec.class_names, "optim": OPTIM, "val_samples": 3, "test_samples": 4, **settings},
    )


def read_png(path: Path) -> NDArray[np.uint8]:
    """(H, W) of a grey picture, (H, W, 3) of a coloured one, palettes looked up."""
    with Image.open(path) as image:
        return np.asarray(image if image.mode == "L" else image.convert("RGB"))


def monitors(folder: Path) -> list[pl.Callback]:
    """What the default config has, but for p and the progress bar."""
    kinds = (UncertaintyMonitor, CalibrationMonitor, SelectiveMonitor, ClassMonitor, GalleryMonitor, MapsMonitor)
    return [kind(folder) for kind in kinds]
