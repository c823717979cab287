"""What is kept of a pass over data: metrics, scores that tell shifted data, and what a temperature is fitted on."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from concrete_dropout.evaluation.subjects import Subject
from concrete_dropout.metrics.categorical import observations
from concrete_dropout.metrics.categorical_stage import PredictionMetrics
from concrete_dropout.metrics.detection import binned_detection, detection, score_counts
from concrete_dropout.metrics.stage import RegressionMetrics, StageMetrics, StageResult
from concrete_dropout.metrics.temperature import (
    fit_std_scale,
    fit_temperature,
    log_probabilities,
    rescaled,
    squared_errors,
    tempered,
)
from concrete_dropout.predictive import CategoricalPrediction, GaussianPrediction
from concrete_dropout.tasks.categorical import CategoricalTask, is_labelled
from concrete_dropout.tasks.regression import RegressionTask

Arrays = dict[str, npt.NDArray[Any]]
PIXELS = "/pixels"  # behind the name of a score: counts of pixels in bins of it
FITTED_PIXELS = 2000  # of an image at the most, for a temperature


def new_metrics(subject: Subject) -> StageMetrics:
    """The metrics of the subject's own test, empty."""
    metrics = copy.deepcopy(subject.task.test_metrics)
    metrics.reset()
    return metrics


class ShiftScores:
    """Scores of every observation of a pass; of pixels their counts in bins, and the mean over each image.

    - ``epistemic``: mutual information, or the variance of the mean in units of the target's
    - ``predictive``: entropy of the prediction, or its whole variance
    - ``confidence``: 1 - the largest probability; not of a regression

    Args:
        subject: whose predictions they are.
        with_epistemic: False for a single network without dropout, which has none.
    """

    def __init__(self, subject: Subject, with_epistemic: bool) -> None:
        self.subject, self.with_epistemic = subject, with_epistemic
        self.kept: dict[str, list[Tensor]] = {}
        self.counts: dict[str, Tensor] = {}

    def update(self, outputs: Mapping[str, Any]) -> None:
        """Add a step's prediction."""
        prediction, targets = outputs["prediction"], outputs["targets"]
        for name, values in self._scores(prediction).items():
            if not self.subject.is_dense:
                self.kept.setdefault(name, []).append(values.cpu())
                continue
            classes = prediction.probabilities.shape[1]
            labelled = is_labelled(targets, classes)
            if not labelled.any():  # other data, whose labels mean nothing here
                labelled = torch.ones_like(labelled)
            counts = score_counts(values[labelled], classes).cpu()
            self.counts[name] = self.counts.get(name, torch.zeros_like(counts)) + counts
            sums, pixels = (values * labelled).flatten(1).sum(1), labelled.flatten(1).sum(1)
            self.kept.setdefault(name, []).append((sums / pixels.clamp_min(1))[pixels > 0].cpu())

    def arrays(self) -> Arrays:
        """{score: (N,) of each observation or image}, and {score/pixels: counts}."""
        arrays: Arrays = {name: torch.cat(parts).numpy() for name, parts in self.kept.items()}
        return arrays | {f"{name}{PIXELS}": counts.numpy() for name, counts in self.counts.items()}

    def _scores(self, prediction: CategoricalPrediction | GaussianPrediction) -> dict[str, Tensor]:
        if isinstance(prediction, CategoricalPrediction):
            scores = {
                "epistemic": prediction.epistemic,
                "predictive": prediction.predictive_entropy,
                "confidence": 1 - prediction.probabilities.amax(1),
            }
        else:
            assert isinstance(self.subject.task, RegressionTask)
            unit = self.subject.task.targets.std.square().to(prediction.mean)  # variances of several outputs add up
            scores = {
                name: (getattr(prediction, name) / unit).flatten(1).sum(1) for name in ("epistemic", "predictive")
            }
        return {name: values for name, values in scores.items() if name != "epistemic" or self.with_epistemic}


def detections(clean: Arrays, shifted: Arrays) -> dict[str, dict[str, float]]:
    """{score: {"auroc", "aupr", "fpr95"}} of scores on clean and on shifted data."""
    found = {}
    for name in clean:
        if name in shifted:
            compare = binned_detection if name.endswith(PIXELS) else detection
            found[name] = compare(*(torch.from_numpy(np.asarray(each[name])) for each in (clean, shifted)))
    return found


class Fit:
    """Collects what a temperature, or a scale of standard deviations, is fitted on.

    Of an image 2,000 labelled pixels are taken, evenly spread: all pixels of CamVid would take a gigabyte.
    """

    def __init__(self) -> None:
        self.parts: list[tuple[Tensor, ...]] = []

    def update(self, outputs: Mapping[str, Any]) -> None:
        """Add a step's prediction and targets."""
        prediction, targets = outputs["prediction"], outputs["targets"]
        if isinstance(prediction, GaussianPrediction):
            self.parts.append((squared_errors(prediction, targets).flatten().cpu(),))
            return
        p = prediction.probabilities.movedim(1, -1)  # (rows, ..., C)
        for row_p, row_y in [(p, targets)] if targets.dim() == 1 else zip(p, targets, strict=True):
            chosen = is_labelled(row_y, p.shape[-1]).flatten().nonzero().squeeze(1)
            if targets.dim() > 1:
                chosen = chosen[:: max(1, len(chosen) // FITTED_PIXELS)]
            rows = log_probabilities(row_p.reshape(-1, p.shape[-1])[chosen])
            self.parts.append((rows.cpu(), row_y.flatten()[chosen].cpu()))

    def result(self) -> float:
        """The temperature, or the scale."""
        columns = [torch.cat(column) for column in zip(*self.parts, strict=True)]
        return fit_std_scale(columns[0]) if len(columns) == 1 else fit_temperature(columns[0], columns[1])


class Fitted:
    """Scores with and without what was fitted.

    Args:
        subject: whose predictions they are.
        factor: the temperature, or the scale of standard deviations.
    """

    NAMES = ("nll", "ece", "brier", "accuracy", "mce", "calibration_rmse", "crps", "rmse")

    def __init__(self, subject: Subject, factor: float) -> None:
        self.factor = factor
        task = subject.task
        self.metrics: dict[str, PredictionMetrics | RegressionMetrics] = {
            name: PredictionMetrics(task.num_classes) if isinstance(task, CategoricalTask) else RegressionMetrics()
            for name in ("before", "after")
        }
        for metrics in self.metrics.values():
            metrics.to(task.device)

    def update(self, outputs: Mapping[str, Any]) -> None:
        """Add a step's prediction."""
        prediction, targets = outputs["prediction"], outputs["targets"]
        for name, metrics in self.metrics.items():
            factor = self.factor if name == "after" else 1.0
            if isinstance(metrics, RegressionMetrics):
                metrics.update({"prediction": rescaled(prediction, targets, factor), "targets": targets})
            else:
                seen = tempered(prediction, targets, factor) if name == "after" else prediction
                metrics.update(observations(seen, targets))

    def result(self) -> dict[str, Any]:
        """{"factor": ..., "before": scalars, "after": scalars, "curves": {"before": ..., "after": ...}}."""
        results: dict[str, StageResult] = {name: metrics.compute() for name, metrics in self.metrics.items()}
        scalars = {
            name: {key: found.scalars[key] for key in self.NAMES if key in found.scalars}
            for name, found in results.items()
        }
        return {"factor": self.factor, **scalars, "curves": {name: found.curves for name, found in results.items()}}
