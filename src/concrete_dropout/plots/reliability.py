"""Calibration of class probabilities: how often predictions of a certain confidence are right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from concrete_dropout.plots.arrays import Floats, number, numbers
from concrete_dropout.plots.theme import DASHES, MUTED, colours, figure, label, note

Curve = Mapping[str, Iterable[Any]]
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "x", "star")
BAR = 0.036  # width of all bars of a bin, of which there are twenty
# The curves above, the shares below.
UPPER, LOWER = (0.3, 1.0), (0.0, 0.2)


def reliability_curve(curves: Mapping[str, Curve], title: str = "Reliability of confidence") -> go.Figure:
    """Share of right predictions against confidence, and below it how many predictions have that confidence.

    Args:
        curves: label ("with MC", "without MC", or the name of a run) -> {"confidence": mean confidence of each bin,
            "frequency": share of right ones in it, "share": its share of all predictions}, all from 0 to 1. On the
            diagonal, of predictions made with 90 % confidence 90 % are right; below it the model is overconfident.
        title: of the figure.
    """
    made = figure(title, "Confidence (largest probability)", "Share that is right", 480)
    lines = {name: found for name, curve in curves.items() if len((found := _bins(curve))[0])}
    if not lines:
        return note(made, "No calibration curve recorded")
    made.add_scatter(
        x=[0, 1],
        y=[0, 1],
        mode="lines",
        name="perfect",
        line={"color": MUTED, "width": 1.5, "dash": "dot"},
        hoverinfo="skip",
    )
    shades = colours(len(lines))
    for index, ((name, (confidence, frequency, share)), colour) in enumerate(zip(lines.items(), shades, strict=True)):
        made.add_scatter(
            x=np.round(confidence, 5),
            y=np.round(frequency, 5),
            customdata=np.round(share, 7),
            name=label(name, 28),
            legendgroup=str(index),
            mode="lines+markers",
            cliponaxis=False,
            line={"color": colour, "width": 2.2, "dash": DASHES[index % len(DASHES)]},
            marker={"size": 7, "symbol": SYMBOLS[index % len(SYMBOLS)]},
            hovertemplate="confidence %{x:.1%}: %{y:.1%} right (%{customdata:.2%} of all)"
            "<extra>%{fullData.name}</extra>",
        )
        made.add_bar(
            x=np.round(confidence, 5),
            y=np.round(share, 7),
            width=BAR / len(lines),
            offset=BAR * (index / len(lines) - 0.5),
            name=label(name, 28),
            legendgroup=str(index),
            showlegend=False,
            yaxis="y2",
            marker={"color": colour},
            hovertemplate="confidence %{x:.1%}: %{y:.2%} of all<extra>%{fullData.name}</extra>",
        )
    for text, x, y, anchor in (("too cautious", 0.03, 0.95, "left"), ("overconfident", 0.97, 0.05, "right")):
        made.add_annotation(text=text, x=x, y=y, xanchor=anchor, showarrow=False, font={"size": 12, "color": MUTED})
    # Most predictions are nearly certain: their bars need room beyond 1.
    made.update_xaxes(range=[0, 1.02], tickformat=".0%", dtick=0.25, anchor="y2")
    made.update_layout(
        yaxis={"range": [0, 1], "tickformat": ".0%", "dtick": 0.25, "domain": UPPER},
        yaxis2={"title": {"text": "Share of all"}, "tickformat": ".0%", "domain": LOWER, "rangemode": "tozero"},
    )
    made.update_yaxes(nticks=3, selector={"domain": LOWER})
    return made


def mean_gap(curve: Curve) -> float:
    """Mean confidence minus share of right predictions; above 0 the model is overconfident. NaN without a curve.

    >>> mean_gap({"confidence": [0.6, 0.9], "frequency": [0.5, 0.9], "share": [0.5, 0.5]})
    0.05
    """
    confidence, frequency, share = _bins(curve)
    if not len(share) or not share.sum() > 0:
        return float("nan")
    return number(np.sum(share * (confidence - frequency)) / share.sum())


def _bins(curve: Curve) -> tuple[Floats, Floats, Floats]:
    """The bins in the order of confidence; those without a number are left out."""
    found = [numbers(curve.get(name) or []) for name in ("confidence", "frequency", "share")]
    length = min(map(len, found))
    table = np.stack([values[:length] for values in found])
    table = table[:, np.isfinite(table).all(axis=0)]
    confidence, frequency, share = table[:, np.argsort(table[0], kind="stable")]
    return confidence, frequency, share
