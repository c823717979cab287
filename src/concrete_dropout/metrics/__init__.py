"""Metrics: pure functions, and torchmetrics classes of fixed-size sums over them."""

from concrete_dropout.metrics.calibration import LEVELS, IntervalCoverage, calibration_rmse, covered
from concrete_dropout.metrics.likelihood import GaussianScores, gaussian_crps
from concrete_dropout.metrics.stage import RegressionMetrics, StageMetrics, StageResult
from concrete_dropout.metrics.uncertainty import UncertaintyScores

__all__ = [
    "LEVELS",
    "GaussianScores",
    "IntervalCoverage",
    "RegressionMetrics",
    "StageMetrics",
    "StageResult",
    "UncertaintyScores",
    "calibration_rmse",
    "covered",
    "gaussian_crps",
]
