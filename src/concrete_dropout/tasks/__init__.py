"""Tasks: a network, its objective and its evaluation as Lightning modules."""

from concrete_dropout.metrics.stage import StageResult
from concrete_dropout.tasks.base import Task, mixture_nll
from concrete_dropout.tasks.noise import NoisePrecision
from concrete_dropout.tasks.regression import RegressionTask

__all__ = ["NoisePrecision", "RegressionTask", "StageResult", "Task", "mixture_nll"]
