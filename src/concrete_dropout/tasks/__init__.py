"""Tasks: a network, its objective and its evaluation as Lightning modules."""

from concrete_dropout.metrics.stage import StageResult
from concrete_dropout.tasks.base import Task, mixture_nll
from concrete_dropout.tasks.categorical import CategoricalTask
from concrete_dropout.tasks.classification import ClassificationTask
from concrete_dropout.tasks.dynamics import DynamicsTask
from concrete_dropout.tasks.noise import NoisePrecision
from concrete_dropout.tasks.regression import RegressionTask
from concrete_dropout.tasks.segmentation import SegmentationTask

__all__ = [
    "CategoricalTask",
    "ClassificationTask",
    "DynamicsTask",
    "NoisePrecision",
    "RegressionTask",
    "SegmentationTask",
    "StageResult",
    "Task",
    "mixture_nll",
]
