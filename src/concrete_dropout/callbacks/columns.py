"""Rows of the tables of predictions, one per point or sample, as numbers under a header."""

from __future__ import annotations

import pytorch_lightning as pl
import torch
from torch import Tensor

from concrete_dropout.callbacks.stages import CategoricalOutput, StepOutput, column_names

Block = tuple[list[str], Tensor]  # the header, and rows (B, columns)


def regression_columns(trainer: pl.Trainer, output: StepOutput) -> Block:
    """Inputs, targets, mean and standard deviations of a batch, the latter four of each output."""
    prediction, inputs, targets = output
    features, names = column_names(trainer, inputs.shape[1] if inputs.dim() == 2 else 0, targets.shape[1])
    suffixes = [""] if len(names) == 1 else [f":{name}" for name in names]
    parts: dict[str, Tensor] = {f"x:{name}": inputs[:, i] for i, name in enumerate(features)}
    per_output = {
        "target": targets,
        "mean": prediction.mean,
        "epistemic_std": prediction.epistemic.sqrt(),
        "aleatoric_std": prediction.aleatoric.sqrt(),
        "predictive_std": prediction.predictive.sqrt(),
    }
    for i, suffix in enumerate(suffixes):
        parts |= {f"{name}{suffix}": values[:, i] for name, values in per_output.items()}
    if prediction.log_likelihood is not None:
        parts["log_likelihood"] = prediction.log_likelihood
    pit = getattr(prediction, "pit", None)
    if pit is not None:
        parts |= {f"pit{suffix}": pit[:, i] for i, suffix in enumerate(suffixes)}
    return _block(parts)


def class_columns(output: CategoricalOutput) -> Block:
    """True and predicted class (by number), confidence and entropies of the labelled rows of a batch."""
    prediction, targets = output.prediction, output.targets
    confidence, predicted = prediction.probabilities.max(dim=1)
    parts = {
        "target": targets,
        "predicted": predicted,
        "correct": predicted == targets,
        "confidence": confidence,
        "predictive_entropy": prediction.predictive_entropy,
        "expected_entropy": prediction.expected_entropy,
        "mutual_information": prediction.mutual_information,
    }
    if prediction.log_likelihood is not None:
        parts["log_likelihood"] = prediction.log_likelihood
    labelled = ~output.void
    return _block({name: values[labelled] for name, values in parts.items()})


def _block(parts: dict[str, Tensor]) -> Block:
    return list(parts), torch.stack([column.detach().double().cpu() for column in parts.values()], dim=1)
