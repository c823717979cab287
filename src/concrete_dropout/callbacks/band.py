"""The predictive band over a one-dimensional input, as the numbers of ``band.json``."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytorch_lightning as pl
import torch

from concrete_dropout.callbacks.stages import column_names
from concrete_dropout.predictive import GaussianPrediction

MAX_POINTS = 500


def predictive_band(
    trainer: pl.Trainer, task: pl.LightningModule, *, num_points: int = 200, margin: float = 0.25, samples: int = 100
) -> dict[str, Any] | None:
    """Mean and standard deviations over a grid, with the training points; None unless the input has one dimension.

    Args:
        trainer: its data module has the training data in original units (``tables.train``).
        task: predicts in original units.
        num_points: of the grid.
        margin: how far the grid reaches beyond the training data on each side, as a part of their range: what
            the network believes where it has seen nothing is the point of the plot.
        samples: stochastic passes.
    """
    train = getattr(getattr(getattr(trainer, "datamodule", None), "tables", None), "train", None)
    if train is None or np.ndim(train.x) != 2 or np.shape(train.x)[1] != 1:
        return None
    x, y = np.asarray(train.x, dtype=np.float64)[:, 0], np.asarray(train.y, dtype=np.float64)
    low, high = float(x.min()), float(x.max())
    reach = margin * ((high - low) or 1.0)
    grid = torch.linspace(low - reach, high + reach, num_points, dtype=torch.float64)
    with torch.no_grad():
        predict = cast(Any, task).predict
        # One mask per sample for the whole grid: functions, whose spread is smooth over x.
        points = grid[:, None].to(task.device)
        prediction = cast(GaussianPrediction, predict(points, samples=samples, frozen_masks=True))
    features, targets = column_names(trainer, 1, y.shape[1])
    shown = np.unique(np.linspace(0, len(x) - 1, min(len(x), MAX_POINTS)).round().astype(int))

    def first(values: torch.Tensor) -> list[float]:
        return cast("list[float]", values[:, 0].double().cpu().tolist())

    return {
        "feature": features[0],
        "target": targets[0],
        "x": grid.tolist(),
        "mean": first(prediction.mean),
        "epistemic_std": first(prediction.epistemic.sqrt()),
        "predictive_std": first(prediction.predictive.sqrt()),
        "train_x": x[shown].tolist(),
        "train_y": y[shown, 0].tolist(),
    }
