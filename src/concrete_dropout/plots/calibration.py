"""Calibration of predictive distributions: coverage of intervals and the probability integral transform."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from concrete_dropout.plots.arrays import Series, numbers, series
from concrete_dropout.plots.theme import DASHES, MUTED, PALETTE, colours, figure, label, note


def coverage_curve(curves: Mapping[str, Series]) -> go.Figure:
    """Observed against expected coverage of central predictive intervals.

    Args:
        curves: label ("val", "test") -> (expected, observed), both from 0 to 1. On the diagonal an interval of
            90 % holds 90 % of the targets; below it the model is overconfident.
    """
    made = figure("Coverage of predictive intervals", "Expected coverage (probability)", "Observed coverage", 420)
    lines = {name: found for name, pair in curves.items() if len((found := series(pair))[0])}
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
    for index, ((name, (expected, observed)), colour) in enumerate(
        zip(lines.items(), colours(len(lines)), strict=True)
    ):
        made.add_scatter(
            x=np.round(expected, 5),
            y=np.round(observed, 5),
            name=label(name, 28),
            mode="lines+markers" if len(expected) < 15 else "lines",
            line={"color": colour, "width": 2.5, "dash": DASHES[index % len(DASHES)]},
            hovertemplate="%{x:.0%} interval holds %{y:.1%}<extra>%{fullData.name}</extra>",
        )
    for text, x, y, anchor in (("too cautious", 0.03, 0.95, "left"), ("overconfident", 0.97, 0.05, "right")):
        made.add_annotation(text=text, x=x, y=y, xanchor=anchor, showarrow=False, font={"size": 12, "color": MUTED})
    made.update_xaxes(range=[0, 1], tickformat=".0%", dtick=0.25, constrain="domain")
    made.update_yaxes(range=[0, 1], tickformat=".0%", dtick=0.25)
    return made


def pit_histogram(values: Iterable[Any], bins: int = 20) -> go.Figure:
    """Distribution of the probability integral transform; flat where the predictive distribution is right.

    Args:
        values: the predictive distribution function at each target, from 0 to 1.
        bins: number of equal bins.
    """
    made = figure("Targets in their distribution (PIT)", "Predictive probability below the target", "Share")
    found = numbers(values)
    found = found[(found >= 0) & (found <= 1)]
    if not len(found):
        return note(made, "No predictions recorded")
    counts, edges = np.histogram(found, bins=bins, range=(0.0, 1.0))
    made.add_bar(
        x=(edges[:-1] + edges[1:]) / 2,
        y=counts / len(found),
        width=1 / bins,
        marker={"color": PALETTE[5], "line": {"color": "white", "width": 1}},
        name="targets",
        hovertemplate="%{y:.1%} of targets<extra></extra>",
    )
    made.add_scatter(
        x=[0, 1],
        y=[1 / bins, 1 / bins],
        mode="lines",
        name="perfect",
        line={"color": MUTED, "width": 1.5, "dash": "dot"},
        hoverinfo="skip",
    )
    made.update_xaxes(range=[0, 1], tickformat=".0%", dtick=0.25)
    made.update_yaxes(tickformat=".0%", rangemode="tozero")
    return made
