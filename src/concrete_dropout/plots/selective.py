"""Selective prediction: what becomes of the scores when the most uncertain predictions are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from concrete_dropout.plots.arrays import Floats, Table, columns, numbers, series
from concrete_dropout.plots.theme import INK, MUTED, PALETTE, figure, note, translucent

# score -> (title, axis)
SCORES = {
    "accuracy": ("Accuracy of what is kept", "Accuracy"),
    "miou": ("mIoU of what is kept", "mIoU"),
    "calibration_rmse": ("Calibration RMSE of what is kept", "Calibration RMSE"),
}
# suffix of the curve -> (name, colour, dash, symbol)
ORDERS = {
    "_kept": ("by predictive entropy", PALETTE[0], "solid", "circle"),
    "_kept_epistemic": ("by mutual information", PALETTE[1], "dash", "diamond"),
}


def left_out(entry: Mapping[str, Any], score: str) -> go.Figure:
    """A score of the predictions that are kept, against the share of the most uncertain ones that are left out.

    Args:
        entry: of one stage in selective.json: left_out, <score>_kept (the most uncertain by predictive entropy) and
            <score>_kept_epistemic (by mutual information).
        score: "accuracy", "miou" or "calibration_rmse".
    """
    title, name = SCORES[score]
    made = figure(title, "Most uncertain predictions left out", name, 360)
    shares = entry.get("left_out") or []
    lines = {kind: series((shares, entry.get(f"{score}{kind}") or [])) for kind in ORDERS}
    lines = {kind: line for kind, line in lines.items() if len(line[0])}
    if not lines:
        return note(made, "No selective prediction recorded")
    if score == "accuracy":
        _add_best(made, *next(iter(lines.values())))
    for kind, (x, y) in lines.items():
        words, colour, dash, symbol = ORDERS[kind]
        made.add_scatter(
            x=x,
            y=y,
            name=words,
            mode="lines+markers",
            line={"color": colour, "width": 2.2, "dash": dash},
            marker={"size": 6, "symbol": symbol},
            hovertemplate=f"%{{x:.0%}} left out: {name} %{{y:.4f}}<extra>{words}</extra>",
        )
    made.update_xaxes(tickformat=".0%", rangemode="tozero")
    made.update_yaxes(tickformat=".3~f" if score == "calibration_rmse" else ".1~%")
    return made


def entropy_by_outcome(predictions: Table, bins: int = 30) -> go.Figure:
    """Distributions of the predictive entropy of right and of wrong predictions; they part where errors are found.

    Args:
        predictions: rows or columns with predictive_entropy and correct (1 or 0).
        bins: number of equal bins.
    """
    made = figure("Uncertainty of right and wrong predictions", "Predictive entropy (nats)", "Share of each", 360)
    table = columns(predictions)
    entropy, correct = table.get("predictive_entropy", numbers([])), table.get("correct", numbers([]))
    length = min(len(entropy), len(correct))
    entropy, correct = entropy[:length], correct[:length]
    keep = np.isfinite(entropy) & np.isfinite(correct)
    entropy, correct = entropy[keep], correct[keep]
    if not len(entropy):
        return note(made, "No predictions recorded")
    edges = np.linspace(0.0, max(float(entropy.max()), 1e-3), bins + 1)
    for words, wanted, colour, dash in (("right", 1.0, PALETTE[0], "solid"), ("wrong", 0.0, PALETTE[1], "dash")):
        values = entropy[correct == wanted]
        if not len(values):
            continue
        counts, _ = np.histogram(values, bins=edges)
        made.add_scatter(
            x=(edges[:-1] + edges[1:]) / 2,
            y=counts / len(values),
            name=f"{words} ({len(values):,})",
            mode="lines",
            line={"shape": "hvh", "color": colour, "width": 2, "dash": dash},
            fill="tozeroy",
            fillcolor=translucent(colour, 0.15),
            hovertemplate=f"entropy %{{x:.2f}}: %{{y:.1%}} of the {words}<extra></extra>",
        )
    made.update_yaxes(tickformat=".0%", rangemode="tozero")
    return made


def _add_best(made: go.Figure, x: Floats, accuracy: Floats) -> None:
    """What an order that has all errors first would reach, and one that knows nothing."""
    whole = accuracy[0] * (1 - x[0])  # share of right ones among all
    best = np.minimum(1.0, whole / np.maximum(1 - x, 1e-9))
    for words, y, colour in (("perfect order", best, MUTED), ("random order", np.full_like(x, accuracy[0]), INK)):
        made.add_scatter(
            x=x, y=y, name=words, mode="lines", line={"color": colour, "width": 1.5, "dash": "dot"}, hoverinfo="skip"
        )
