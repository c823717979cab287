"""Results of several replicas as those of one evaluation over all of their points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from concrete_dropout.metrics.stage import StageResult

STDS = ("epistemic_std", "aleatoric_std", "predictive_std")


def pooled_calibration(results: Sequence[StageResult]) -> dict[str, Any]:
    """An entry of ``calibration.json``: the coverage over all points, and its distance to the diagonal.

    >>> half, full = (StageResult({}, {"expected": [0.5], "observed": [c]}, num_points=10) for c in (0.4, 0.8))
    >>> pooled = pooled_calibration([half, full])
    >>> round(pooled["observed"][0], 6), round(pooled["rmse"], 6), pooled["num_points"]
    (0.6, 0.1, 20)
    """
    expected = list(results[0].curves["expected"])
    curves = [result.curves["observed"] for result in results]
    observed = [_pooled(results, [curve[level] for curve in curves]) for level in range(len(expected))]
    squares = [(seen - wanted) ** 2 for seen, wanted in zip(observed, expected, strict=True)]
    return {
        "expected": expected,
        "observed": observed,
        "rmse": math.sqrt(math.fsum(squares) / len(squares)),
        **{name: _pooled_scalar(results, name) for name in ("sharpness", "nll", "crps")},
        "num_points": sum(result.num_points for result in results),
        "num_replicas": len(results),
    }


def pooled_uncertainty(results: Sequence[StageResult]) -> dict[str, Any]:
    """An entry of ``uncertainty.json``: roots of mean variances over all points."""
    stds: dict[str, float | None] = {}
    for name in STDS:
        if all(name in result.scalars for result in results):
            stds[name] = math.sqrt(_pooled(results, [result.scalars[name] ** 2 for result in results]))
    return {**stds, "num_points": sum(result.num_points for result in results), "num_replicas": len(results)}


def _pooled_scalar(results: Sequence[StageResult], name: str) -> float | None:
    if any(name not in result.scalars for result in results):
        return None
    return _pooled(results, [result.scalars[name] for result in results])


def _pooled(results: Sequence[StageResult], values: Sequence[float]) -> float:
    """Mean over points of a value that each replica has as a mean over its own."""
    points = [result.num_points for result in results]
    return math.fsum(n * value for n, value in zip(points, values, strict=True)) / max(1, sum(points))
