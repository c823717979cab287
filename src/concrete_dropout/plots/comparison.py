"""Several runs in one figure: quantities against what varies between the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import plotly.graph_objects as go

from concrete_dropout.plots.arrays import numbers
from concrete_dropout.plots.replicas import MAX_LEGEND, SYMBOLS
from concrete_dropout.plots.theme import DASHES, PALETTE, by_depth, figure, label, note

FLAG = "#9a3412"  # the colour of warnings in reports
TICK_GAP = 0.11  # of the axis, between ticks that have room for their numbers on a phone


@dataclass(frozen=True)
class Repeats:
    """Values of repeated runs at several places of an axis.

    Args:
        name: in the legend.
        values: place -> value of each repeat; what is no number is left out.
        moving: place -> whether each repeat's value was still changing when training ended.
        colour: index of the colour.
        dashed: for what was measured without Monte Carlo dropout.
    """

    name: str
    values: Mapping[float, Sequence[Any]]
    moving: Mapping[float, Sequence[bool]] = field(default_factory=dict)
    colour: int = 0
    dashed: bool = False


def against(
    title: str, x: str, y: str, lines: Sequence[Repeats], ticks: Mapping[float, str], *, log: bool, from_zero: bool
) -> go.Figure:
    """A quantity against a setting: an open mark per run, a line through the means.

    Args:
        title: of the figure.
        x: label of the axis.
        y: label of the other axis.
        lines: what is drawn. More lines than colours are coloured from dark to light in their order.
        ticks: place -> its text.
        log: whether the axis is logarithmic.
        from_zero: whether the other axis begins at 0.
    """
    made = figure(title, f"{x} (logarithmic)" if log else x, y, 360)
    found = [(line, points) for line in lines if (points := _points(line))]
    if not found:
        return note(made, "No values yet")
    many = len({line.colour for line, _ in found}) > MAX_LEGEND
    shades = by_depth(max(line.colour for line, _ in found) + 1) if many else list(PALETTE)
    flagged: list[tuple[float, float]] = []
    for index, (line, points) in enumerate(found):
        colour = shades[line.colour % len(shades)]
        symbol = SYMBOLS[line.colour % len(SYMBOLS)]
        hover = label(line.name, 60).replace("%", "&#37;") or label(y, 60)
        still = {place: list(flags) for place, flags in line.moving.items()}
        pairs = [(place, value, i) for place, values in points.items() for i, value in values]
        flagged += [(place, value) for place, value, i in pairs if i < len(still.get(place, [])) and still[place][i]]
        made.add_scatter(
            x=[place for place, _, _ in pairs],
            y=[value for _, value, _ in pairs],
            mode="markers",
            marker={"color": colour, "size": 6, "opacity": 0.55, "symbol": f"{symbol}-open"},
            legendgroup=str(index),
            showlegend=False,
            hovertemplate=f"{hover}<br>one run at %{{x:,}}: %{{y:.4g}}<extra></extra>",
        )
        dash = "dash" if line.dashed else "solid" if many else DASHES[line.colour % len(DASHES)]
        made.add_scatter(
            x=list(points),
            y=[float(np.mean([value for _, value in values])) for values in points.values()],
            name=label(line.name, 28),
            mode="lines+markers",
            marker={"symbol": symbol, "size": 7},
            line={"color": colour, "width": 1.6 if many or line.dashed else 2.2, "dash": dash},
            legendgroup=str(index),
            showlegend=len(found) > 1 and not many,
            hovertemplate=f"{hover}<br>mean at %{{x:,}}: %{{y:.4g}}<extra></extra>",
        )
    if flagged:
        add_flags(made, flagged)
    drawn = {place for _, points in found for place in points}
    _ticks(made, {place: text for place, text in ticks.items() if place in drawn}, log)
    made.update_yaxes(rangemode="tozero" if from_zero else "normal")
    return made


def add_flags(made: go.Figure, points: Sequence[tuple[float, float]]) -> None:
    """Cross out what had not converged."""
    made.add_scatter(
        x=[x for x, _ in points],
        y=[y for _, y in points],
        mode="markers",
        name="had not converged",
        marker={"symbol": "x-thin", "size": 9, "line": {"color": FLAG, "width": 2}},
        showlegend=True,
        hoverinfo="skip",
    )


def _points(line: Repeats) -> dict[float, list[tuple[int, float]]]:
    """Place -> (number of the repeat, its value), in the order of places; places without a value are left out."""
    found = {}
    for place, raw in sorted(line.values.items()):
        values = [(i, float(value)) for i, value in enumerate(numbers(raw)) if np.isfinite(value)]
        if values:
            found[float(place)] = values
    return found


def _ticks(made: go.Figure, ticks: Mapping[float, str], log: bool) -> None:
    """A tick for every value; those whose texts would run into others have none, the ends always do."""
    places = sorted(ticks)
    if log:
        made.update_xaxes(type="log", minor={"ticks": ""})
    scale = np.log10(places) if log else np.array(places, dtype=np.float64)
    reach = max(float(scale[-1] - scale[0]), 1e-12) if len(places) else 1.0
    kept: list[int] = []
    for index in dict.fromkeys([len(places) - 1, *range(len(places))]):
        if all(abs(scale[index] - scale[other]) >= TICK_GAP * reach for other in kept):
            kept.append(index)
    texts = [label(ticks[place], 12) if index in kept else "" for index, place in enumerate(places)]
    made.update_xaxes(tickvals=places, ticktext=texts)
