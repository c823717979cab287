"""Predictive uncertainty: bands over one input, errors against what the model expected, distributions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from concrete_dropout.plots.arrays import Floats, Table, columns, numbers, output_column, thin
from concrete_dropout.plots.theme import INK, MUTED, PALETTE, figure, label, note, translucent

MAX_SCATTER = 1000


def band(band: Mapping[str, Any]) -> go.Figure:
    """Mean with bands of two standard deviations over a one-dimensional input, and the training points.

    Args:
        band: x, mean, epistemic_std, predictive_std (aleatoric included), train_x, train_y, feature, target.
    """
    feature, target = str(band.get("feature") or "Input"), str(band.get("target") or "Target")
    made = figure("Prediction and its uncertainty", feature, target, 420)
    names = ("x", "mean", "epistemic_std", "predictive_std")
    found = [numbers(band.get(name) or []) for name in names]
    length = min(len(values) for values in found)
    order = np.argsort(found[0][:length], kind="stable")
    x, mean, epistemic, predictive = (values[:length][order] for values in found)
    train_x, train_y = _pairs(numbers(band.get("train_x") or []), numbers(band.get("train_y") or []))
    if not length and not len(train_x):
        return note(made, "No prediction band recorded")
    if length:
        _add_band(made, x, mean, predictive, translucent(PALETTE[5], 0.35), "noise and model, ±2 std")
        _add_band(made, x, mean, epistemic, translucent(PALETTE[0], 0.45), "model alone (epistemic), ±2 std")
        made.add_scatter(
            x=x, y=mean, name="mean", mode="lines" if length > 1 else "markers", line={"color": INK, "width": 2}
        )
    if len(train_x):
        train_x, train_y = thin(train_x, train_y, limit=MAX_SCATTER)
        made.add_scatter(
            x=train_x,
            y=train_y,
            name="training data",
            mode="markers",
            marker={"size": 4, "color": PALETTE[1], "opacity": 0.6},
        )
    return made


def error_against_std(predictions: Table, output: str = "") -> go.Figure:
    """Absolute error of each prediction against its predictive standard deviation.

    Args:
        predictions: rows or columns with target, mean and predictive_std (``target:<name>`` etc. for several outputs).
        output: name of the output, "" where there is only one.

    Points are cut at the 99.5th percentile, so that one outlier does not squash the others. The line is the RMSE
    in bins of equally many points: on the diagonal, errors are as large as the model says.
    """
    made = figure("Error against predicted uncertainty", "Predictive standard deviation (target units)", "|error|", 400)
    table = columns(predictions)
    std = output_column(table, "predictive_std", output)
    target, mean = output_column(table, "target", output), output_column(table, "mean", output)
    if not len(std) or not len(target) or not len(mean):
        return note(made, "No predictions recorded")
    std, error = _pairs(std, np.abs(target - mean))
    if not len(std):
        return note(made, "No finite predictions recorded")
    shown_std, shown_error = thin(std, error, limit=MAX_SCATTER)
    made.add_scatter(
        x=shown_std,
        y=shown_error,
        mode="markers",
        name="predictions",
        marker={"size": 4, "color": PALETTE[5], "opacity": 0.55},
        hovertemplate="std %{x:.3g}, error %{y:.3g}<extra></extra>",
    )
    centres, roots = _binned_rmse(std, error)
    made.add_scatter(
        x=centres,
        y=roots,
        mode="lines+markers",
        name="RMSE of bins",
        line={"color": PALETTE[1], "width": 2.5},
        hovertemplate="std %{x:.3g}: RMSE %{y:.3g}<extra></extra>",
    )
    upper = max(_upper(std), 1e-12)
    made.add_scatter(
        x=[0, upper],
        y=[0, upper],
        mode="lines",
        name="perfect",
        line={"color": MUTED, "width": 1.5, "dash": "dot"},
        hoverinfo="skip",
    )
    low = float(np.min(std))
    margin = 0.04 * (upper - low) or 0.5 * upper
    made.update_xaxes(range=[max(0.0, low - margin), upper + margin])
    made.update_yaxes(range=[0, max(_upper(error), upper) * 1.05])
    return made


def histogram(predictions: Table, output: str = "", bins: int = 40) -> go.Figure:
    """Distributions of the epistemic, aleatoric and predictive standard deviations over the predictions."""
    made = figure("Distribution of uncertainty", "Standard deviation (target units)", "Share of predictions", 400)
    table = columns(predictions)
    kinds = ("epistemic", "aleatoric", "predictive")
    found = {kind: output_column(table, f"{kind}_std", output) for kind in kinds}
    found = {kind: finite for kind, values in found.items() if len(finite := values[np.isfinite(values)])}
    if not found:
        return note(made, "No predictions recorded")
    everything = np.concatenate(list(found.values()))
    low, high = float(everything.min()), _upper(everything)
    if high - low < 1e-9 * max(abs(high), 1e-9):
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    edges = np.linspace(low, high, bins + 1)
    for colour, dash, kind in zip((PALETTE[0], PALETTE[1], INK), ("solid", "dash", "dot"), kinds, strict=True):
        if kind not in found:
            continue
        counts, _ = np.histogram(found[kind], bins=edges)
        made.add_scatter(
            x=(edges[:-1] + edges[1:]) / 2,
            y=counts / len(found[kind]),
            name=kind,
            mode="lines",
            line={"shape": "hvh", "color": colour, "width": 2, "dash": dash},
            fill="tozeroy" if kind != "predictive" else None,
            fillcolor=translucent(colour, 0.15),
            hovertemplate=f"{kind} %{{x:.3g}}: %{{y:.1%}}<extra></extra>",
        )
    made.update_yaxes(tickformat=".0%", rangemode="tozero")
    return made


def _add_band(made: go.Figure, x: Floats, mean: Floats, std: Floats, colour: str, name: str) -> None:
    # One closed outline instead of two traces: a click in the legend then hides the whole band.
    made.add_scatter(
        x=np.concatenate([x, x[::-1]]),
        y=np.concatenate([mean + 2 * std, (mean - 2 * std)[::-1]]),
        fill="toself",
        fillcolor=colour,
        line={"width": 0},
        mode="lines",
        name=label(name),
        hoverinfo="skip",
    )


def _pairs(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    length = min(len(first), len(second))
    first, second = first[:length], second[:length]
    keep = np.isfinite(first) & np.isfinite(second)
    return first[keep], second[keep]


def _binned_rmse(std: Floats, error: Floats) -> tuple[Floats, Floats]:
    bins = np.array_split(np.argsort(std, kind="stable"), max(1, min(10, len(std) // 10)))
    centres = np.array([np.sqrt(np.mean(std[index] ** 2)) for index in bins])
    return centres, np.array([np.sqrt(np.mean(error[index] ** 2)) for index in bins])


def _upper(values: Floats) -> float:
    """The largest value that is worth an axis."""
    return float(np.quantile(values, 0.995))
