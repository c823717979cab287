"""Figures of whole studies: quantities against the amount of data, and results against published ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from concrete_dropout.plots.arrays import Floats, number, numbers
from concrete_dropout.plots.replicas import MAX_LEGEND, SYMBOLS
from concrete_dropout.plots.theme import DASHES, INK, MUTED, PALETTE, by_depth, figure, label, note

MAX_SHOWN_SE = 10.0
TICK_GAP = 0.2  # decades between ticks that have room for their numbers on a phone


def against_size(
    title: str,
    y: str,
    lines: Mapping[str, Mapping[float, Iterable[Any]]],
    reference: float | None = None,
    reference_name: str = "",
) -> go.Figure:
    """A quantity against the number of training points, on a logarithmic axis; one dot per repeat, a line for means.

    Args:
        title: of the figure.
        y: label of the axis.
        lines: name -> number of points -> value of each repeat.
        reference: a value that is known, drawn as a dotted line.
        reference_name: its name in the legend.
    """
    made = figure(title, "Training points N (logarithmic)", y, 360)
    found = {name: points for name, sizes in lines.items() if (points := _by_size(sizes))}
    if not found:
        return note(made, "No values recorded")
    everything = sorted({size for points in found.values() for size in points})
    if reference is not None:
        made.add_scatter(
            x=[everything[0], everything[-1]],
            y=[reference, reference],
            mode="lines",
            name=label(reference_name, 28),
            line={"color": MUTED, "width": 1.5, "dash": "dot"},
            hoverinfo="skip",
        )
    colours = list(PALETTE) if len(found) <= MAX_LEGEND else by_depth(len(found))
    for index, (name, points) in enumerate(found.items()):
        hover = label(name, 60).replace("%", "&#37;")
        symbol = SYMBOLS[index % len(SYMBOLS)]
        pairs = [(size, float(value)) for size, values in points.items() for value in values]
        made.add_scatter(
            x=[size for size, _ in pairs],
            y=[value for _, value in pairs],
            mode="markers",
            marker={"color": colours[index], "size": 6, "opacity": 0.5, "symbol": f"{symbol}-open"},
            legendgroup=str(index),
            showlegend=False,
            hovertemplate=f"{hover}<br>one repeat, N = %{{x:,}}: %{{y:.4g}}<extra></extra>",
        )
        made.add_scatter(
            x=list(points),
            y=[float(values.mean()) for values in points.values()],
            name=label(name, 28),
            mode="lines+markers",
            marker={"symbol": symbol, "size": 7},
            line={"color": colours[index], "width": 2.2, "dash": DASHES[index % len(DASHES)]},
            legendgroup=str(index),
            showlegend=len(found) > 1 or reference is not None,
            hovertemplate=f"{hover}<br>mean at N = %{{x:,}}: %{{y:.4g}}<extra></extra>",
        )
    made.update_xaxes(type="log", tickvals=everything, ticktext=_size_labels(everything), minor={"ticks": ""})
    made.update_yaxes(rangemode="tozero")
    return made


def differences(rows: Mapping[str, Mapping[str, Any]], title: str = "Ours against the paper's dropout") -> go.Figure:
    """How many standard errors better (right) or worse (left) every set is.

    Args:
        rows: set -> metric -> difference in standard errors, positive where ours is better. Bars end at ±10; the
            number beside a bar is never cut.
        title: of the figure.
    """
    metrics = list(dict.fromkeys(metric for entry in rows.values() for metric in entry))
    made = figure(title, "Standard errors (right: ours is better)", "", 110 + 54 * max(len(rows), 2))
    if not metrics:
        return note(made, "No results yet")
    places = np.arange(len(rows), dtype=np.float64)
    for index, metric in enumerate(metrics):
        values = np.array([number(entry.get(metric)) for entry in rows.values()])
        shown = np.clip(values, -MAX_SHOWN_SE, MAX_SHOWN_SE)
        made.add_bar(
            x=shown,
            y=places,
            orientation="h",
            name=label(metric, 28),
            marker={
                "color": PALETTE[index % len(PALETTE)],
                "pattern": {"shape": ("", "/")[index % 2], "fillmode": "overlay", "fgcolor": "white", "size": 6},
            },
            text=["" if np.isnan(value) else f"{value:+.1f}".replace("-", "−") for value in values],
            textposition="outside",
            textfont={"size": 12, "color": INK},
            cliponaxis=False,
            customdata=[label(name, 40) for name in rows],
            hovertemplate=f"%{{customdata}}, {label(metric, 28).replace('%', '&#37;')}: %{{text}} SE<extra></extra>",
        )
    made.update_layout(bargap=0.25, showlegend=True)
    made.update_xaxes(range=[-1.25 * MAX_SHOWN_SE, 1.25 * MAX_SHOWN_SE], zeroline=True, zerolinecolor=INK)
    made.update_yaxes(
        tickvals=places,
        ticktext=[label(name, 20) for name in rows],
        range=[len(rows) - 0.4, -0.6],
        tickfont_color=INK,
        showgrid=False,
    )
    return made


def _by_size(sizes: Mapping[float, Iterable[Any]]) -> dict[float, Floats]:
    found: dict[float, Floats] = {}
    for size, raw in sizes.items():
        values = numbers(raw)
        values = values[np.isfinite(values)]
        if size > 0 and np.isfinite(size) and len(values):
            found[float(size)] = values
    return dict(sorted(found.items()))


def _size_labels(sizes: list[float]) -> list[str]:
    """Numbers for the ticks: the powers of ten first, others where they do not run into their neighbours."""
    kept: list[float] = []
    for size in sorted(sizes, key=lambda size: (np.log10(size) % 1 != 0, size)):
        if all(abs(np.log10(size / other)) >= TICK_GAP for other in kept):
            kept.append(size)
    return [_short(size) if size in kept else "" for size in sizes]


def _short(size: float) -> str:
    return f"{size / 1000:g}k" if size >= 1000 else f"{size:g}"
