"""Curves of several runs on top of each other, and scores of classes beside each other.

A group of runs has one colour in all figures; dashes are for a second way to measure the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import plotly.graph_objects as go

from concrete_dropout.plots.arrays import Floats, numbers
from concrete_dropout.plots.comparison import add_flags
from concrete_dropout.plots.replicas import SYMBOLS, translucent_any
from concrete_dropout.plots.theme import INK, MUTED, PALETTE, figure, label, note


@dataclass(frozen=True)
class Curve:
    """A line through points.

    Args:
        name: in the legend.
        x: numbers.
        y: numbers, as many.
        low: lower end of a band around the line; none by default.
        high: its upper end.
        sizes: shares of the points among all observations, which their marks show; equal marks by default.
        colour: of the group.
        dashed: for the group's second curve.
        in_legend: False where the group's first curve is there already.
    """

    name: str
    x: Iterable[Any]
    y: Iterable[Any]
    low: Iterable[Any] = ()
    high: Iterable[Any] = ()
    sizes: Iterable[Any] = ()
    colour: str = PALETTE[0]
    dashed: bool = False
    in_legend: bool = True


def reliability(curves: Sequence[Curve]) -> go.Figure:
    """How often predictions of some confidence are right; larger marks stand for more predictions."""
    made = figure("Reliability", "Confidence (largest probability)", "Share that was right", 460)
    _diagonal(made, "too cautious", "overconfident")
    return _overlaid(made, curves, "confidence %{x:.1%}: %{y:.1%} right", square=True)


def gaps(curves: Sequence[Curve], title: str, x: str) -> go.Figure:
    """How far calibration curves lie above the diagonal, which hardly shows in the curves themselves."""
    made = figure(title, x, "Observed − expected", 460)
    pairs = [(curve, numbers(curve.x), numbers(curve.y)) for curve in curves]
    shifted = [replace(curve, x=x, y=y - x) for curve, x, y in pairs if len(x) == len(y)]
    made = _overlaid(made, shifted, "at %{x:.1%}: %{y:+.1%}")
    made.update_xaxes(range=[0, 1.01], tickformat=".0%", dtick=0.25)
    made.update_yaxes(tickformat=".0%", zeroline=True, zerolinecolor=MUTED, zerolinewidth=1.5)
    return made


def coverage(curves: Sequence[Curve]) -> go.Figure:
    """Observed against expected coverage of central predictive intervals."""
    made = figure("Coverage of predictive intervals", "Expected coverage (probability)", "Observed coverage", 460)
    _diagonal(made, "too cautious", "overconfident")
    return _overlaid(made, curves, "%{x:.0%} interval holds %{y:.1%}", square=True)


def selective(title: str, y: str, curves: Sequence[Curve]) -> go.Figure:
    """A score of what is kept when the most uncertain share is left out."""
    made = figure(title, "Most uncertain share that is left out", y, 360)
    made = _overlaid(made, curves, "%{x:.0%} left out: %{y:.4f}")
    made.update_xaxes(tickformat=".0%", range=[-0.02, 0.92])
    made.update_yaxes(tickformat=".1%")
    return made


def profiles(curves: Sequence[Curve], moving: Sequence[tuple[float, float]] = ()) -> go.Figure:
    """P of every layer from the input to the output, one line per group of runs.

    Args:
        curves: over the layer's number.
        moving: (number, p) of layers that had not converged.
    """
    made = figure("Dropout probability by depth", "Layer number, from input to output", "Dropout probability p", 400)
    made = _overlaid(made, curves, "layer %{x}: p = %{y:.3f}")
    if moving:
        add_flags(made, moving)
    # Plotly's own ranges hang on the size of the marks, and the margins on the ranges: they may never settle.
    last = max((float(np.nanmax(numbers(curve.x), initial=1)) for curve in curves), default=1.0)
    top = max((float(np.nanmax(numbers(curve.y), initial=0.05)) for curve in curves), default=1.0)
    top = min(1.08 * max(top, *(p for _, p in moving), 0.0), 1.02)
    made.update_xaxes(range=[0.3, last + 0.7])
    made.update_yaxes(range=[0, top], dtick=0.1 if top > 0.3 else 0.05 if top > 0.1 else 0.01)
    return made


def by_class(
    names: Sequence[str], groups: Mapping[str, Sequence[Sequence[Any]]], colours: Sequence[str] = PALETTE
) -> go.Figure:
    """A score of every class: a large mark for the mean of each group, small ones for its runs.

    Args:
        names: of the classes, from top to bottom.
        groups: name -> value of every class, of each run; values lie within [0, 1].
        colours: of the groups.
    """
    made = figure("IoU by class", "Intersection over union", "", 110 + 34 * max(len(names), 3))
    rows = np.arange(len(names), dtype=np.float64)
    if not len(names) or not any(len(runs) for runs in groups.values()):
        return note(made, "No classes recorded")
    for index, (name, runs) in enumerate(groups.items()):
        table = np.array([_fitted(run, len(names)) for run in runs]).reshape(-1, len(names))  # (runs, classes)
        lane = rows + 0.5 * ((index + 0.5) / len(groups) - 0.5)
        colour, symbol = colours[index % len(colours)], SYMBOLS[index % len(SYMBOLS)]
        means = [float(column[np.isfinite(column)].mean()) if np.isfinite(column).any() else None for column in table.T]
        texts = [label(entry, 40) for entry in names]
        if len(table) > 1:
            made.add_scatter(
                x=table.ravel(),
                y=np.tile(lane, len(table)),
                mode="markers",
                marker={"color": colour, "size": 5, "opacity": 0.5, "symbol": f"{symbol}-open"},
                legendgroup=str(index),
                showlegend=False,
                hoverinfo="skip",
            )
        made.add_scatter(
            x=means,
            y=lane,
            mode="markers",
            name=label(name, 28),
            marker={"color": colour, "size": 9, "symbol": symbol},
            legendgroup=str(index),
            showlegend=True,
            customdata=texts,
            hovertemplate="%{customdata}: %{x:.3f}<extra>%{fullData.name}</extra>",
        )
    made.update_xaxes(range=[-0.01, 1.01], dtick=0.25)
    made.update_yaxes(
        tickvals=rows,
        ticktext=[label(name, 18) for name in names],
        range=[len(names) - 0.5, -0.5],
        tickfont_color=INK,
    )
    return made


def _overlaid(made: go.Figure, curves: Sequence[Curve], hover: str, square: bool = False) -> go.Figure:
    drawn = 0
    shades = list(dict.fromkeys(curve.colour for curve in curves))
    for curve in curves:
        x, y = numbers(curve.x), numbers(curve.y)
        length = min(len(x), len(y))
        x, y = x[:length], y[:length]
        if not np.isfinite(x * y).any():
            continue
        drawn += 1
        symbol = SYMBOLS[shades.index(curve.colour) % len(SYMBOLS)]
        low, high = numbers(curve.low), numbers(curve.high)
        if len(low) == len(high) == length and np.isfinite(low + high).all():
            made.add_scatter(
                x=np.concatenate([x, x[::-1]]),
                y=np.round(np.concatenate([high, low[::-1]]), 5),
                mode="lines",
                fill="toself",
                fillcolor=translucent_any(curve.colour, 0.15),
                line={"width": 0},
                legendgroup=curve.colour,
                showlegend=False,
                hoverinfo="skip",
            )
        made.add_scatter(
            x=np.round(x, 5),
            y=np.round(y, 5),
            name=label(curve.name, 28),
            mode="lines+markers" if length < 40 else "lines",
            marker={"symbol": symbol, "size": _sizes(curve.sizes, length)},
            line={"color": curve.colour, "width": 2.2, "dash": "dash" if curve.dashed else "solid"},
            legendgroup=curve.colour,
            showlegend=curve.in_legend,
            hovertemplate=f"{hover}<extra>%{{fullData.name}}</extra>",
        )
    if not drawn:
        made.data = ()
        made.layout.annotations = ()
        return note(made, "No values yet")
    if square:
        made.update_xaxes(range=[0, 1.01], tickformat=".0%", dtick=0.25)
        made.update_yaxes(range=[0, 1.01], tickformat=".0%", dtick=0.25)
    return made


def _diagonal(made: go.Figure, above: str, below: str) -> None:
    dotted = {"color": MUTED, "width": 1.5, "dash": "dot"}
    made.add_scatter(x=[0, 1], y=[0, 1], mode="lines", name="perfect", line=dotted, hoverinfo="skip")
    for text, x, y, anchor in ((above, 0.03, 0.95, "left"), (below, 0.97, 0.05, "right")):
        made.add_annotation(text=text, x=x, y=y, xanchor=anchor, showarrow=False, font={"size": 12, "color": MUTED})


def _sizes(shares: Iterable[Any], count: int) -> Any:
    """Diameters of marks whose areas grow with the shares."""
    found = numbers(shares)
    if len(found) != count or not count:
        return 6
    return np.round(4 + 10 * np.sqrt(np.clip(np.nan_to_num(found), 0, 1)), 2)


def _fitted(values: Iterable[Any], count: int) -> Floats:
    found = numbers(values)[:count]
    return np.concatenate([found, np.full(count - len(found), np.nan)])
