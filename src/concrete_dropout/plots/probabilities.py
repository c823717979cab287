"""Learned dropout probabilities: their way through training, and their profile over depth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from concrete_dropout.plots.arrays import Floats, Series, number, numbers, series, thin
from concrete_dropout.plots.theme import (
    DASHES,
    DEPTH_SCALE,
    INK,
    MUTED,
    PALETTE,
    figure,
    label,
    note,
)
from concrete_dropout.plots.theme import (
    by_depth as depth_colours,
)

MAX_LEGEND = len(PALETTE)
MAX_NAMED_BARS = 16


def trajectories(rows: Mapping[str, Series]) -> go.Figure:
    """P of every layer over training steps.

    Args:
        rows: layer name -> (steps, probabilities), in the order of depth. Beyond a handful of layers the colour
            is the depth, with a scale instead of a legend; the name is in the hover text.
    """
    made = figure("Dropout probability during training", "Training step", "Dropout probability p")
    lines = {name: found for name, pair in rows.items() if len((found := series(pair))[0])}
    if not lines:
        return note(made, "No dropout probabilities recorded")
    many = len(lines) > MAX_LEGEND
    # Sixty layers with a few hundred points each would make up most of a report's size.
    limit = 400 if not many else max(60, 6000 // len(lines))
    colours = depth_colours(len(lines)) if many else list(PALETTE)
    for index, (name, pair) in enumerate(lines.items()):
        steps, probabilities = thin(*pair, limit=limit)
        made.add_scatter(
            x=steps,
            y=np.round(probabilities, 5),
            name=label(name, 28),
            mode="lines+markers" if len(steps) == 1 else "lines",
            line={
                "color": colours[index],
                "width": 1.4 if many else 2.2,
                "dash": "solid" if many else DASHES[index % len(DASHES)],
            },
            showlegend=not many,
            hovertemplate=f"{label(name, 60).replace('%', '&#37;')}<br>step %{{x}}: p = %{{y:.3f}}<extra></extra>",
        )
    if many:
        _add_depth_scale(made, len(lines))
    _probability_axis(made, np.concatenate([pair[1] for pair in lines.values()]))
    return made


def by_depth(names: Sequence[str], final: Iterable[Any], initial: Iterable[Any] | float | None = None) -> go.Figure:
    """P of every layer at the end of training, from the input to the output.

    Args:
        names: of the layers, in the order of depth.
        final: learned probabilities.
        initial: probabilities at the start (or one for all layers), drawn as marks beside the bars.
    """
    values = _fitted(final, len(names))
    starts = None if initial is None else _fitted(_repeated(initial, len(names)), len(names))
    if not len(names) or not np.isfinite(values).any():
        return note(figure("Dropout probability by depth", "Layer", "p"), "No dropout probabilities recorded")
    made = _bars_with_names(names, values, starts) if len(names) <= MAX_NAMED_BARS else _profile(names, values, starts)
    made.update_layout(showlegend=starts is not None)
    return made


def _bars_with_names(names: Sequence[str], values: Floats, starts: Floats | None) -> go.Figure:
    """Horizontal bars: names of layers stay legible at any width."""
    height = max(240, 130 + 30 * len(names))
    made = figure("Dropout probability by depth", "Dropout probability p", "", height)
    places = np.arange(len(names))
    hover = [label(name, 60) for name in names]
    made.add_bar(
        x=values,
        y=places,
        orientation="h",
        name="at the end",
        marker_color=PALETTE[0],
        customdata=hover,
        hovertemplate="%{customdata}: p = %{x:.4f}<extra></extra>",
    )
    if starts is not None:
        made.add_scatter(
            x=starts,
            y=places,
            name="at the start",
            mode="markers",
            marker={"symbol": "line-ns", "size": 18, "line": {"width": 3, "color": PALETTE[1]}},
            customdata=hover,
            hovertemplate="%{customdata}: started at %{x:.4f}<extra></extra>",
        )
    # To the right of both, so that no number lies under the other mark.
    ends = values if starts is None else np.fmax(values, starts)
    made.add_scatter(
        x=ends,
        y=places,
        mode="text",
        text=[f" {value:.3f}" if np.isfinite(value) else "" for value in values],
        textposition="middle right",
        cliponaxis=False,
        showlegend=False,
        hoverinfo="skip",
    )
    _probability_axis(made, ends * 1.15, axis="x")
    # The first layer on top: depth runs down the page, as data runs through the network.
    made.update_yaxes(
        tickvals=places,
        ticktext=[label(name, 24) for name in names],
        range=[len(names) - 0.4, -0.6],
        tickfont_color=INK,
        showgrid=False,
    )
    return made


def _profile(names: Sequence[str], values: Floats, starts: Floats | None) -> go.Figure:
    """Bars over the layer's number: the shape over depth counts, names are in the hover text."""
    made = figure("Dropout probability by depth", "Layer number, from input to output", "Dropout probability p")
    places = np.arange(1, len(names) + 1)
    hover = [label(name, 60) for name in names]
    made.add_bar(
        x=places,
        y=values,
        name="at the end",
        marker_color=PALETTE[0],
        customdata=hover,
        hovertemplate="%{x}. %{customdata}: p = %{y:.4f}<extra></extra>",
    )
    if starts is not None:
        made.add_scatter(
            x=places,
            y=starts,
            name="at the start",
            mode="markers",
            marker={"symbol": "line-ew", "size": 7, "line": {"width": 2.5, "color": PALETTE[1]}},
            customdata=hover,
            hovertemplate="%{x}. %{customdata}: started at %{y:.4f}<extra></extra>",
        )
    made.update_layout(bargap=0.15)
    made.update_xaxes(range=[0.3, len(names) + 0.7], showgrid=False)
    _probability_axis(made, np.concatenate([values, starts if starts is not None else []]))
    return made


def _repeated(value: Iterable[Any] | float, count: int) -> Iterable[Any]:
    return [value] * count if isinstance(value, (int, float)) else value


def _fitted(values: Iterable[Any], count: int) -> Floats:
    """Exactly ``count`` numbers: NaN where some are missing."""
    found = numbers(values)[:count]
    return np.concatenate([found, np.full(count - len(found), np.nan)])


def _probability_axis(made: go.Figure, values: Floats, axis: str = "y") -> None:
    """From 0 to a little above the largest value, so that small probabilities are not stretched into drama."""
    largest = float(np.nanmax(values)) if np.isfinite(values).any() else 1.0
    upper = min(max(largest * 1.08, 0.05), 1.02)
    made.layout[f"{axis}axis"].update(range=[0, upper], rangemode="tozero")


def _add_depth_scale(made: go.Figure, count: int) -> None:
    """A colour bar that says which end is the input: plotly hangs it on a trace without points."""
    scale = [[i / (len(DEPTH_SCALE) - 1), colour] for i, colour in enumerate(DEPTH_SCALE)]
    made.add_scatter(
        x=[None],
        y=[None],
        mode="markers",
        showlegend=False,
        hoverinfo="skip",
        marker={
            "color": [number(1)],
            "cmin": 1,
            "cmax": count,
            "colorscale": scale,
            "showscale": True,
            "colorbar": {
                "orientation": "h",
                "thickness": 10,
                "len": 0.84,
                "x": 0.5,
                "y": 0,
                "yref": "container",
                "yanchor": "bottom",
                "tickvals": [1, (count + 1) // 2, count],
                "ticktext": ["first layer", f"layer {(count + 1) // 2}", f"layer {count}"],
                "tickfont": {"size": 12, "color": MUTED},
                "outlinewidth": 0,
            },
        },
    )
    made.update_layout(height=430)
