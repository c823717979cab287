"""Validation and test data, seen alike by callbacks: what steps returned, what came out, what things are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import pytorch_lightning as pl
from torch import Tensor

from concrete_dropout.metrics.stage import StageResult
from concrete_dropout.predictive import CategoricalPrediction, GaussianPrediction


class StepOutput(NamedTuple):
    """One batch of an evaluation, in original units."""

    prediction: GaussianPrediction
    inputs: Tensor
    targets: Tensor


class CategoricalOutput(NamedTuple):
    """One batch of an evaluation of classes: targets (B,) or (B, H, W), probabilities (B, C, ...)."""

    prediction: CategoricalPrediction
    targets: Tensor

    @property
    def num_classes(self) -> int:
        """C."""
        return self.prediction.probabilities.shape[1]

    @property
    def void(self) -> Tensor:
        """Where there is no true class; of the shape of the targets."""
        return (self.targets < 0) | (self.targets >= self.num_classes)


def regression_output(outputs: Any) -> StepOutput | None:
    """What an evaluation step returned; None for tasks other than regression."""
    if not isinstance(outputs, Mapping) or not isinstance(outputs.get("prediction"), GaussianPrediction):
        return None
    return StepOutput(outputs["prediction"], outputs["inputs"], outputs["targets"])


def categorical_output(outputs: Any) -> CategoricalOutput | None:
    """What an evaluation step returned; None for tasks that do not predict classes."""
    if not isinstance(outputs, Mapping) or not isinstance(outputs.get("prediction"), CategoricalPrediction):
        return None
    return CategoricalOutput(outputs["prediction"], outputs["targets"])


def result_of(task: pl.LightningModule, stage: str) -> StageResult | None:
    """The task's result on "val" or "test"; None where there is none."""
    return cast("dict[str, StageResult]", getattr(task, "results", {})).get(stage)


def column_names(trainer: pl.Trainer, num_inputs: int, num_outputs: int) -> tuple[list[str], list[str]]:
    """Names of inputs and targets: the data module's, or numbered ones."""
    tables = getattr(getattr(trainer, "datamodule", None), "tables", None)
    features = list(getattr(tables, "feature_names", ()))
    targets = list(getattr(tables, "target_names", ()))
    if len(features) != num_inputs:
        features = [f"x{i}" for i in range(num_inputs)]
    if len(targets) != num_outputs:
        targets = [f"y{i}" for i in range(num_outputs)]
    return features, targets


def class_names(trainer: pl.Trainer, num_classes: int) -> list[str]:
    """Names of the classes: the data module's, or numbers."""
    names = [str(name) for name in getattr(_spec(trainer), "class_names", ())]
    return names if len(names) == num_classes else [str(index) for index in range(num_classes)]


def class_colours(trainer: pl.Trainer, num_classes: int) -> list[tuple[int, int, int]]:
    """Colours of the classes: the data module's, or some that can be told apart."""
    colours = [(int(red), int(green), int(blue)) for red, green, blue in getattr(_spec(trainer), "class_colours", ())]
    if len(colours) == num_classes:
        return colours
    from concrete_dropout.plots.pictures import default_colours  # plotly takes half a second to import

    return default_colours(num_classes)


def num_evaluated(trainer: pl.Trainer, stage: str) -> int | None:
    """How many rows of the part an evaluation goes through, over all processes; None where nobody knows."""
    loaders = trainer.val_dataloaders if stage == "val" else trainer.test_dataloaders
    batches = trainer.num_val_batches if stage == "val" else trainer.num_test_batches
    loader = loaders[0] if isinstance(loaders, (list, tuple)) and loaders else loaders
    try:
        rows = len(loader.dataset)  # type: ignore[union-attr]
    except (AttributeError, TypeError):  # a loader of another make, or data without a length
        return None
    size = getattr(loader, "batch_size", None)
    if size is None or not batches:
        return rows
    return int(min(rows, batches[0] * size * trainer.world_size))


def _spec(trainer: pl.Trainer) -> Any:
    return getattr(getattr(trainer, "datamodule", None), "spec", None)
