"""All metrics of one evaluation, validation or test, and their result as plain numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torchmetrics import Metric, SumMetric

from concrete_dropout.metrics.calibration import LEVELS, IntervalCoverage, calibration_rmse
from concrete_dropout.metrics.likelihood import GaussianScores
from concrete_dropout.metrics.uncertainty import UncertaintyScores
from concrete_dropout.predictive import GaussianPrediction


@dataclass(frozen=True)
class StageResult:
    """What an evaluation found, over all batches and processes.

    Attributes:
        scalars: {"nll": ..., "rmse": ...}.
        curves: {"expected": [...], "observed": [...]}, the coverage curve for regression.
        num_points: rows that were evaluated.
    """

    scalars: dict[str, float] = field(default_factory=dict)
    curves: dict[str, list[float]] = field(default_factory=dict)
    num_points: int = 0


class StageMetrics(nn.Module, ABC):
    """What a task evaluates: fed with the outputs of evaluation steps. Its children are torchmetrics classes."""

    @abstractmethod
    def update(self, outputs: Mapping[str, Any]) -> None:
        """Add what one evaluation step returned."""

    @abstractmethod
    def compute(self) -> StageResult:
        """The result over all processes."""

    def reset(self) -> None:
        """Forget everything, for the next evaluation."""
        for child in self.children():
            if isinstance(child, Metric):
                child.reset()


class RegressionMetrics(StageMetrics):
    """Likelihood, errors, uncertainty and calibration of ``GaussianPrediction``s, in the units they are given in.

    After a final M step of the noise (see ``tasks.noise``), steps also give ``log_likelihood_before_m_step``, and the
    result has ``nll_before_m_step`` and ``log_likelihood_before_m_step``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.scores = GaussianScores()
        self.uncertainty = UncertaintyScores()
        self.coverage = IntervalCoverage()
        self.before = SumMetric().set_dtype(torch.float64)
        # A metric too, because a process without rows has seen nothing of it.
        self.has_before = SumMetric().set_dtype(torch.float64)

    def update(self, outputs: Mapping[str, Any]) -> None:
        """Add a step's ``prediction`` and ``targets``."""
        prediction: GaussianPrediction = outputs["prediction"]
        targets: Tensor = outputs["targets"]
        if prediction.log_likelihood is None or prediction.pit is None:
            raise ValueError("a prediction that is to be scored must be made with its targets")
        self.scores.update(prediction.log_likelihood, targets, prediction.mean, prediction.predictive)
        self.uncertainty.update(prediction.epistemic, prediction.aleatoric)
        self.coverage.update(prediction.pit)
        before: Tensor | None = outputs.get("log_likelihood_before_m_step")
        self.has_before.update(float(before is not None))
        if before is not None:
            self.before.update(before.double().sum())

    def compute(self) -> StageResult:
        """The result in plain numbers."""
        expected, observed = torch.tensor(LEVELS, dtype=torch.float64), self.coverage.compute().cpu()
        values: dict[str, Tensor] = {**self.scores.compute(), **self.uncertainty.compute()}
        values["calibration_rmse"] = calibration_rmse(expected, observed)
        rows = values.pop("num_rows")
        if self.has_before.compute():
            before = self.before.compute() / rows
            values |= {"log_likelihood_before_m_step": before, "nll_before_m_step": -before}
        curves = {"expected": list(LEVELS), "observed": observed.tolist()}
        return StageResult({name: value.item() for name, value in values.items()}, curves, int(rows))
