"""Metrics: pure functions, and torchmetrics classes of fixed-size sums over them."""

from concrete_dropout.metrics.calibration import LEVELS, IntervalCoverage, calibration_rmse, covered
from concrete_dropout.metrics.categorical import CategoricalScores, Observations, brier_score, observations
from concrete_dropout.metrics.categorical_stage import CategoricalMetrics
from concrete_dropout.metrics.confusion import (
    ClassCounts,
    ConfusionMatrix,
    class_accuracy,
    class_counts,
    intersection_over_union,
    mean_iou,
)
from concrete_dropout.metrics.likelihood import GaussianScores, gaussian_crps
from concrete_dropout.metrics.reliability import (
    ConfidenceBins,
    Reliability,
    binned,
    calibration_errors,
    reliability_curve,
)
from concrete_dropout.metrics.selective import LEFT_OUT, SelectivePrediction, kept_parts
from concrete_dropout.metrics.stage import RegressionMetrics, StageMetrics, StageResult
from concrete_dropout.metrics.uncertainty import UncertaintyScores

__all__ = [
    "LEFT_OUT",
    "LEVELS",
    "CategoricalMetrics",
    "CategoricalScores",
    "ClassCounts",
    "ConfidenceBins",
    "ConfusionMatrix",
    "GaussianScores",
    "IntervalCoverage",
    "Observations",
    "RegressionMetrics",
    "Reliability",
    "SelectivePrediction",
    "StageMetrics",
    "StageResult",
    "UncertaintyScores",
    "binned",
    "brier_score",
    "calibration_errors",
    "calibration_rmse",
    "class_accuracy",
    "class_counts",
    "covered",
    "gaussian_crps",
    "intersection_over_union",
    "kept_parts",
    "mean_iou",
    "observations",
    "reliability_curve",
]
