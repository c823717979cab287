"""Several models that were trained as one: how their probabilities moved, and how far they agree in the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from concrete_dropout.plots.arrays import Floats, Series, numbers, series, thin
from concrete_dropout.plots.theme import DASHES, INK, MUTED, PALETTE, by_depth, figure, label, note, translucent

SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "x", "star")
MAX_LEGEND = len(PALETTE)


def spread(rows: Mapping[str, Sequence[Series]]) -> go.Figure:
    """P of every layer over training steps: the mean over replicas in the band of all replicas.

    Args:
        rows: layer name -> (steps, probabilities) of each replica; only steps that all replicas have are drawn.
    """
    made = figure("Dropout probability during training", "Training step", "Dropout probability p", 400)
    found = {name: table for name, runs in rows.items() if len((table := _aligned(runs))[0])}
    if not found:
        return note(made, "No dropout probabilities recorded")
    many = len(found) > MAX_LEGEND
    colours = by_depth(len(found)) if many else list(PALETTE)
    # Bands first, so that no line lies under a band.
    for index, (steps, values) in enumerate(found.values()):
        if not many and len(values) > 1:
            steps, low, high = thin(steps, values.min(axis=0), values.max(axis=0), limit=200)
            made.add_scatter(
                x=np.concatenate([steps, steps[::-1]]),
                y=np.round(np.concatenate([high, low[::-1]]), 5),
                mode="lines",
                fill="toself",
                fillcolor=translucent(colours[index], 0.16),
                line={"width": 0},
                legendgroup=str(index),
                showlegend=False,
                hoverinfo="skip",
            )
    for index, (name, (steps, values)) in enumerate(found.items()):
        steps, mean = thin(steps, values.mean(axis=0), limit=200)
        made.add_scatter(
            x=steps,
            y=np.round(mean, 5),
            name=label(name, 28),
            mode="lines+markers" if len(steps) == 1 else "lines",
            line={"color": colours[index], "width": 2.2, "dash": "solid" if many else DASHES[index % len(DASHES)]},
            legendgroup=str(index),
            showlegend=not many,
            hovertemplate=f"{_hover(name)}<br>step %{{x}}: mean p = %{{y:.3f}}<extra></extra>",
        )
    _from_zero(made, np.concatenate([values.ravel() for _, values in found.values()]))
    return made


def by_group(title: str, lines: Mapping[str, Series]) -> go.Figure:
    """P of one layer over training steps, one line per group of replicas; dark to light in the order given."""
    made = figure(title, "Training step", "Dropout probability p", 360)
    found = {name: pair for name, raw in lines.items() if len((pair := series(raw))[0])}
    if not found:
        return note(made, "No dropout probabilities recorded")
    for index, ((name, pair), colour) in enumerate(zip(found.items(), by_depth(len(found)), strict=True)):
        steps, values = thin(*pair, limit=150)
        made.add_scatter(
            x=steps,
            y=np.round(values, 5),
            name=label(name, 28),
            mode="lines+markers" if len(steps) == 1 else "lines",
            line={"color": colour, "width": 2, "dash": DASHES[index % len(DASHES)]},
            showlegend=True,
            hovertemplate=f"{_hover(name)}<br>step %{{x}}: p = %{{y:.3f}}<extra></extra>",
        )
    _from_zero(made, np.concatenate([values for _, values in found.values()]))
    return made


def strip(rows: Mapping[str, Mapping[str, Iterable[Any]]], title: str = "Dropout probability at the end") -> go.Figure:
    """Final p of every replica as a dot, with the mean of each layer as a line.

    Args:
        rows: what has a row of its own (a data set, or a layer) -> layer -> p of each replica.
        title: of the figure.
    """
    found = {
        row: {layer: finite for layer, values in entry.items() if len(finite := _finite(values))}
        for row, entry in rows.items()
    }
    layers = list(dict.fromkeys(layer for entry in found.values() for layer in entry))
    lanes = max((len(entry) for entry in found.values()), default=1)
    made = figure(title, "Dropout probability p", "", max(240, 110 + len(found) * (18 + 22 * max(lanes, 1))))
    if not layers:
        return note(made, "No dropout probabilities recorded")
    for index, layer in enumerate(layers):
        colour = (PALETTE if len(layers) <= MAX_LEGEND else by_depth(len(layers)))[index % max(len(layers), 7)]
        x: list[float] = []
        y: list[float] = []
        names: list[str] = []
        means: list[tuple[float, float]] = []
        for place, (row, entry) in enumerate(found.items()):
            if layer not in entry:
                continue
            lane = list(entry).index(layer)
            # Rows are 1 apart; the lanes of a row share 0.8 of it.
            centre = place + 0.8 * ((lane + 0.5) / len(entry) - 0.5)
            values = entry[layer]
            height = 0.22 / len(entry)
            x += np.round(values, 5).tolist()
            y += (centre + np.linspace(-height, height, len(values) + 2)[1:-1]).tolist()
            names += [f"{label(row, 40)} · {label(layer, 40)}"] * len(values)
            means.append((float(values.mean()), centre))
        made.add_scatter(
            x=x,
            y=y,
            name=label(layer, 28),
            mode="markers",
            customdata=names,
            marker={"color": translucent_any(colour, 0.6), "size": 6, "symbol": SYMBOLS[index % len(SYMBOLS)]},
            legendgroup=str(index),
            showlegend=True,
            hovertemplate="%{customdata}: p = %{x:.4f}<extra></extra>",
        )
        made.add_scatter(
            x=[mean for mean, _ in means],
            y=[centre for _, centre in means],
            mode="markers",
            marker={"symbol": "line-ns", "size": 16, "line": {"width": 3, "color": INK}},
            legendgroup=str(index),
            showlegend=False,
            hovertemplate="mean p = %{x:.4f}<extra></extra>",
        )
    everything = np.concatenate([values for entry in found.values() for values in entry.values()])
    upper = min(max(float(everything.max()) * 1.08, 0.02), 1.02)
    made.update_xaxes(range=[-0.03 * upper, upper], zeroline=False)
    made.update_yaxes(
        tickvals=list(range(len(found))),
        ticktext=[label(row, 20) for row in found],
        range=[len(found) - 0.5, -0.5],
        tickfont_color=INK,
        showgrid=False,
        zeroline=False,
    )
    for place in range(1, len(found)):
        made.add_hline(y=place - 0.5, line={"color": "#e4e8ed", "width": 1})
    # A row that is named after its only layer needs no legend.
    made.update_layout(showlegend=any(list(entry) != [row] for row, entry in found.items() if entry))
    return made


def against_initial(layers: Mapping[str, Series]) -> go.Figure:
    """Final against initial p: a flat line has forgotten where it started, one on the diagonal has not moved.

    Args:
        layers: layer name -> (initial, final) of each replica.
    """
    made = figure("Where p ends against where it starts", "Initial p", "p at the end of training", 420)
    found = {name: pair for name, raw in layers.items() if len((pair := series(raw))[0])}
    if not found:
        return note(made, "No dropout probabilities recorded")
    upper = 1.08 * max(0.1, *(float(values.max()) for pair in found.values() for values in pair))
    made.add_scatter(
        x=[0, upper],
        y=[0, upper],
        mode="lines",
        name="not moved",
        line={"color": MUTED, "width": 1.5, "dash": "dot"},
        hoverinfo="skip",
    )
    colours = list(PALETTE) if len(found) <= MAX_LEGEND else by_depth(len(found))
    for index, (name, (initial, final)) in enumerate(found.items()):
        starts = np.unique(initial)
        made.add_scatter(
            x=starts,
            y=np.round([final[initial == start].mean() for start in starts], 5),
            mode="lines",
            line={"color": colours[index], "width": 2, "dash": DASHES[index % len(DASHES)]},
            legendgroup=str(index),
            showlegend=False,
            hoverinfo="skip",
        )
        made.add_scatter(
            x=initial,
            y=np.round(final, 5),
            name=label(name, 28),
            mode="markers",
            marker={"color": colours[index], "size": 8, "symbol": SYMBOLS[index % len(SYMBOLS)]},
            legendgroup=str(index),
            hovertemplate=f"{_hover(name)}<br>from %{{x:.3f}} to %{{y:.3f}}<extra></extra>",
        )
    made.update_xaxes(range=[0, upper])
    made.update_yaxes(range=[0, upper])
    return made


def translucent_any(colour: str, alpha: float) -> str:
    """As ``theme.translucent``, also for the ``rgb(r, g, b)`` of colour scales."""
    return translucent(colour, alpha) if colour.startswith("#") else f"rgba({colour[4:-1]},{alpha:g})"


def _aligned(runs: Sequence[Series]) -> tuple[Floats, Floats]:
    """Shared steps (S,) and the values of all replicas at them (R, S)."""
    pairs = [pair for raw in runs if len((pair := series(raw))[0])]
    if not pairs:
        return np.empty(0), np.empty((0, 0))
    tables = [dict(zip(steps.tolist(), values.tolist(), strict=True)) for steps, values in pairs]
    shared = sorted(set.intersection(*(set(table) for table in tables)))
    return np.array(shared, dtype=np.float64), np.array([[table[step] for step in shared] for table in tables])


def _finite(values: Iterable[Any]) -> Floats:
    found = numbers(values)
    return found[np.isfinite(found)]


def _hover(name: str) -> str:
    # Plotly would fill in a placeholder that a name brings along.
    return label(name, 60).replace("%", "&#37;")


def _from_zero(made: go.Figure, values: Floats) -> None:
    made.update_yaxes(range=[0, min(max(float(values.max()) * 1.08, 0.05), 1.02)], rangemode="tozero")
