"""Validation and test data, seen alike by callbacks: what steps returned, what came out, what columns are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import pytorch_lightning as pl
from torch import Tensor

from concrete_dropout.metrics.stage import StageResult
from concrete_dropout.predictive import GaussianPrediction


class StepOutput(NamedTuple):
    """One batch of an evaluation, in original units."""

    prediction: GaussianPrediction
    inputs: Tensor
    targets: Tensor


def regression_output(outputs: Any) -> StepOutput | None:
    """What an evaluation step returned; None for tasks other than regression."""
    if not isinstance(outputs, Mapping) or not isinstance(outputs.get("prediction"), GaussianPrediction):
        return None
    return StepOutput(outputs["prediction"], outputs["inputs"], outputs["targets"])


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
