"""Figures: plain arrays and dicts in, plotly figures out. Knows neither torch nor files.

Names (layers, metrics, columns) may be any text: they are escaped, because plotly reads some HTML in labels.
"""

from concrete_dropout.plots import (
    calibration,
    classes,
    control,
    metrics,
    pictures,
    probabilities,
    reliability,
    replicas,
    selective,
    study,
    uncertainty,
)
from concrete_dropout.plots.theme import TEMPLATE

__all__ = [
    "TEMPLATE",
    "calibration",
    "classes",
    "control",
    "metrics",
    "pictures",
    "probabilities",
    "reliability",
    "replicas",
    "selective",
    "study",
    "uncertainty",
]
