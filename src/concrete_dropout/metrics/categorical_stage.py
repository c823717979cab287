"""All metrics of a classification or a segmentation, with and without Monte Carlo dropout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torchmetrics import SumMetric

from concrete_dropout.metrics.categorical import CategoricalScores, Observations, observations
from concrete_dropout.metrics.confusion import (
    ConfusionMatrix,
    class_accuracy,
    class_counts,
    intersection_over_union,
    mean_iou,
)
from concrete_dropout.metrics.reliability import Reliability, calibration_errors, reliability_curve
from concrete_dropout.metrics.selective import LEFT_OUT, SelectivePrediction
from concrete_dropout.metrics.stage import StageMetrics, StageResult

NO_MC = "_no_mc"
ENTROPIES_OF_SAMPLES = ("expected_entropy", "mutual_information")  # of one pass: the entropy itself, and 0


class PredictionMetrics(nn.Module):
    """Scores, calibration and, for a segmentation, agreement per class, of one kind of prediction.

    Args:
        num_classes: C.
        class_names: whose intersection over union is reported; none for a classification.
    """

    def __init__(self, num_classes: int, class_names: Sequence[str] = ()) -> None:
        super().__init__()
        self.class_names = tuple(class_names)
        self.scores = CategoricalScores()
        self.reliability = Reliability()
        self.confusion = ConfusionMatrix(num_classes) if class_names else None

    def update(self, seen: Observations) -> None:
        """Add the labelled observations of a batch."""
        self.scores.update(seen)
        self.reliability.update(seen.confidence, seen.correct)
        if self.confusion is not None:
            self.confusion.update(seen.targets, seen.predicted)

    def compute(self) -> StageResult:
        """Scalars and the reliability curve."""
        values: dict[str, Tensor] = dict(self.scores.compute())  # a copy: torchmetrics keeps its own
        num_points = int(values.pop("num_points"))
        bins = self.reliability.compute()
        values |= calibration_errors(bins)
        if self.confusion is not None:
            counts = class_counts(self.confusion.compute())
            values |= {"miou": mean_iou(counts), "class_accuracy": class_accuracy(counts)}
            ious = intersection_over_union(counts)
            values |= {f"iou/{name}": iou for name, iou in zip(self.class_names, ious, strict=True)}
        scalars = {name: value.item() for name, value in values.items()}
        return StageResult(scalars, reliability_curve(bins), num_points)

    def reset(self) -> None:
        """Forget everything."""
        for metric in (self.scores, self.reliability, self.confusion):
            if metric is not None:
                metric.reset()


class CategoricalMetrics(StageMetrics):
    """What is said about ``CategoricalPrediction``s, of single labels or of pixels; void does not count.

    Scalars: ``nll``, ``log_likelihood``, ``accuracy``, ``brier``, ``ece``, ``mce``, ``calibration_rmse``,
    ``predictive_entropy``, ``expected_entropy``, ``mutual_information``; with class names also ``miou``,
    ``class_accuracy`` and ``iou/<class>``. Where steps give a ``deterministic`` prediction too, the same of it with
    the suffix ``_no_mc``, but for the two entropies that one pass has not.

    Curves: ``confidence``, ``frequency`` and ``share`` of the reliability diagram (and with the suffix); ``left_out``,
    ``accuracy_kept``, ``calibration_rmse_kept`` and, with class names, ``miou_kept`` of selective prediction by
    predictive entropy, and the same ending in ``_kept_epistemic`` by mutual information.

    Args:
        num_classes: C.
        class_names: of a segmentation; none for a classification.
    """

    def __init__(self, num_classes: int, class_names: Sequence[str] = ()) -> None:
        super().__init__()
        self.sampled = PredictionMetrics(num_classes, class_names)
        self.deterministic = PredictionMetrics(num_classes, class_names)
        self.by_entropy = SelectivePrediction(num_classes, with_classes=bool(class_names))
        self.by_information = SelectivePrediction(num_classes, with_classes=bool(class_names))
        # A metric too, because a process without rows has seen nothing of it.
        self.has_deterministic = SumMetric().set_dtype(torch.float64)

    def update(self, outputs: Mapping[str, Any]) -> None:
        """Add a step's ``prediction``, ``deterministic`` (None, or left out: there is none) and ``targets``."""
        targets: Tensor = outputs["targets"]
        seen = observations(outputs["prediction"], targets)
        self.sampled.update(seen)
        rest = seen.targets, seen.predicted, seen.confidence
        self.by_entropy.update(seen.predictive_entropy, *rest)
        self.by_information.update(seen.mutual_information, *rest)
        deterministic = outputs.get("deterministic")
        self.has_deterministic.update(float(deterministic is not None))
        if deterministic is not None:
            self.deterministic.update(observations(deterministic, targets))

    def compute(self) -> StageResult:
        """The result in plain numbers."""
        result = self.sampled.compute()
        scalars, curves = dict(result.scalars), dict(result.curves)
        if self.has_deterministic.compute():
            other = self.deterministic.compute()
            scalars |= {f"{k}{NO_MC}": v for k, v in other.scalars.items() if k not in ENTROPIES_OF_SAMPLES}
            curves |= {f"{name}{NO_MC}": values for name, values in other.curves.items()}
        curves["left_out"] = list(LEFT_OUT)
        for suffix, selective in (("kept", self.by_entropy), ("kept_epistemic", self.by_information)):
            curves |= {f"{name}_{suffix}": values.tolist() for name, values in selective.compute().items()}
        return StageResult(scalars, curves, result.num_points)

    def reset(self) -> None:
        """Forget everything, for the next evaluation."""
        super().reset()
        self.sampled.reset()
        self.deterministic.reset()
