"""What results.json of an evaluation says, in the form that tables and figures need. Knows files, not torch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

# kind -> the metrics that tables and figures have
MAIN = {
    "regression": ("nll", "rmse", "crps", "calibration_rmse", "epistemic_std", "aleatoric_std"),
    "classification": ("accuracy", "nll", "brier", "ece", "mutual_information"),
    "segmentation": ("miou", "accuracy", "nll", "brier", "ece", "mutual_information"),
}
SHIFTED = {  # those that are drawn against severity
    "regression": ("nll", "rmse", "calibration_rmse", "epistemic_std"),
    "classification": ("accuracy", "nll", "ece", "brier"),
    "segmentation": ("miou", "nll", "ece", "brier"),
}
SCORES = {  # by which shifted data are told
    "epistemic": "epistemic uncertainty",
    "predictive": "whole uncertainty",
    "confidence": "1 − largest probability",
    "epistemic/pixels": "epistemic uncertainty, pixels",
    "predictive/pixels": "whole uncertainty, pixels",
    "confidence/pixels": "1 − largest probability, pixels",
}
NO_DROPOUT = "none"
SHORT = {  # headings of tables
    "nll": "NLL",
    "rmse": "RMSE",
    "crps": "CRPS",
    "calibration_rmse": "cal. RMSE",
    "epistemic_std": "epistemic",
    "aleatoric_std": "aleatoric",
    "accuracy": "accuracy",
    "brier": "Brier",
    "ece": "ECE",
    "mutual_information": "epistemic",
    "miou": "mIoU",
}


@dataclass(frozen=True)
class Estimate:
    """A mean, and the spread of what it is the mean of: NaN of a single value."""

    mean: float
    error: float = math.nan


@dataclass(frozen=True)
class Row:
    """One combination, over its repeats and replicas.

    Attributes:
        group: the run or ensemble.
        part: of the data.
        mask: "none" without dropout.
        samples: 0 without dropout.
        metrics: by name.
        num: values that each mean is of.
        shift: name of a corruption or of other data; "" for clean data.
        severity: of a corruption.
        detection: {score: {"auroc": ...}}.
        fitted: what temperature scaling gave; of the first replica where there are several.
        curves: of the first repeat and replica.
        points: observations.
    """

    group: str
    part: str
    mask: str
    samples: int
    metrics: dict[str, Estimate]
    num: int
    shift: str = ""
    severity: int = 0
    detection: dict[str, dict[str, Estimate]] = field(default_factory=dict)
    fitted: list[Mapping[str, Any]] = field(default_factory=list)
    curves: Mapping[str, Any] = field(default_factory=dict)
    points: int = 0


def rows_of(results: Mapping[str, Any]) -> list[Row]:
    """All combinations that are there, in the order in which they came."""
    groups = {subject["name"]: subject["group"] for subject in results.get("subjects", [])}
    asked = set(results.get("plan", {}).get("counts", []))
    found: dict[tuple[Any, ...], dict[str, list[Mapping[str, Any]]]] = {}
    for record in results.get("passes", []):
        group, mask = groups.get(record["subject"]), record["mask"] or NO_DROPOUT
        for row in record["rows"]:
            if group is not None and (row["samples"] in asked or mask == NO_DROPOUT):
                key = (group, record["part"], mask, row["samples"], record["shift"], record["severity"])
                found.setdefault(key, {}).setdefault(record["subject"], []).append(row)
    return [_row(key, subjects) for key, subjects in found.items()]


def _row(key: tuple[Any, ...], subjects: Mapping[str, list[Mapping[str, Any]]]) -> Row:
    group, part, mask, samples, shift, severity = key
    every = [row for rows in subjects.values() for row in rows]
    names = list(dict.fromkeys(name for row in every for name in row.get("metrics", {})))
    scores = list(dict.fromkeys(name for row in every for name in row.get("detection", {})))
    return Row(
        group,
        part,
        mask,
        samples,
        {name: _estimate(subjects.values(), "metrics", name) for name in names},
        len(subjects) if len(subjects) > 1 else len(every),
        shift,
        severity,
        {
            score: {name: _estimate(subjects.values(), "detection", score, name) for name in ("auroc", "aupr", "fpr95")}
            for score in scores
        },
        [row["fitted"] for row in every if "fitted" in row],
        every[0].get("curves", {}),
        every[0].get("points") or 0,
    )


def _estimate(subjects: Iterable[list[Mapping[str, Any]]], *path: str) -> Estimate:
    """The mean over replicas with its standard error, or over repeats with the deviation of a single one."""
    values = [[v for row in rows if (v := _at(row, path)) is not None] for rows in subjects]
    values = [each for each in values if each]
    if not values:
        return Estimate(math.nan)
    if len(values) > 1:
        means = [fmean(each) for each in values]
        return Estimate(fmean(means), stdev(means) / math.sqrt(len(means)))
    return Estimate(fmean(values[0]), stdev(values[0]) if len(values[0]) > 1 else math.nan)


def _at(row: Mapping[str, Any], path: tuple[str, ...]) -> float | None:
    value: Any = row
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def error_words(results: Mapping[str, Any]) -> str:
    """What the ± of this evaluation is; "" where there is none.

    >>> error_words({"plan": {"repeats": 3}})
    '± is the standard deviation over 3 seeds of the masks: the Monte Carlo error of one evaluation.'
    """
    groups = [subject["group"] for subject in results.get("subjects", [])]
    replicas = max((groups.count(group) for group in groups), default=1)
    if replicas > 1:
        return f"± is the standard error over {replicas} replicas."
    repeats = results.get("plan", {}).get("repeats", 1)
    if repeats < 2:
        return ""
    return f"± is the standard deviation over {repeats} seeds of the masks: the Monte Carlo error of one evaluation."
