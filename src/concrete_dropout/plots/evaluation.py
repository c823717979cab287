"""Evaluations again: metrics against the number of samples and against the severity of a shift, AUROC of scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from concrete_dropout.plots.arrays import numbers
from concrete_dropout.plots.metrics import title_of, unit_of
from concrete_dropout.plots.theme import DASHES, MUTED, PALETTE, figure, label, note

SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "x", "star")
SHARES = {"accuracy", "miou", "class_accuracy"}


@dataclass(frozen=True)
class Line:
    """Points of one line, in the order of x.

    Attributes:
        name: in the legend.
        x: where.
        y: values.
        error: half lengths of error bars; None or NaN for none.
        colour: number of its colour; lines of one colour belong together.
        dash: number of its dash pattern and symbol.
    """

    name: str
    x: Iterable[Any]
    y: Iterable[Any]
    error: Sequence[float] | None = None
    colour: int = 0
    dash: int = 0


def against_samples(lines: Sequence[Line], flat: Mapping[str, tuple[float, int, int]], metric: str) -> go.Figure:
    """A metric against the number of samples, on a logarithmic scale; without dropout it is a horizontal line.

    Args:
        lines: one for each mask, run and part of the data.
        flat: name -> (value, colour, dash) of passes without dropout.
        metric: its name in files.
    """
    made = figure(title_of(metric), "Stochastic passes", _axis(metric), 360)
    _add(made, lines)
    places = [x for line in lines for x in numbers(line.x) if np.isfinite(x)]
    low, high = (min(places), max(places)) if places else (1.0, 10.0)
    ends = [low * 0.8, high * 1.25]
    for name, (value, colour, dash) in flat.items():
        made.add_scatter(
            x=ends,
            y=[value, value],
            name=label(name, 40),
            mode="lines",
            line={"color": PALETTE[colour % len(PALETTE)], "width": 1.4, "dash": DASHES[(dash + 2) % len(DASHES)]},
            hovertemplate="%{y:.4g}<extra>%{fullData.name}</extra>",
        )
    if not made.data:
        return note(made)
    ticks = sorted(set(places)) or [1.0]
    made.update_xaxes(type="log", tickvals=ticks, ticktext=[f"{tick:.0f}" for tick in ticks])
    return _formatted(made, metric)


def against_severity(lines: Sequence[Line], metric: str, title: str = "") -> go.Figure:
    """A metric against the severity of a corruption; 0 is clean data.

    Args:
        lines: one for each corruption, or one for each run with the mean over corruptions.
        metric: its name in files, or "auroc".
        title: instead of the metric's.
    """
    made = figure(title or title_of(metric), "Severity (0: clean)", _axis(metric), 360)
    _add(made, lines)
    if not made.data:
        return note(made)
    if metric == "auroc":
        made.add_hline(y=0.5, line={"color": MUTED, "width": 1.2, "dash": "dot"})
        made.update_xaxes(title_text="Severity")
    made.update_xaxes(dtick=1)
    return _formatted(made, metric)


def auroc_bars(values: Mapping[str, Mapping[str, float]]) -> go.Figure:
    """How well each score tells other data, one group of bars for each of them.

    Args:
        values: score -> {data: AUROC}.
    """
    made = figure("AUROC of telling other data from the run's own", "", "AUROC", 380)
    for index, (score, found) in enumerate(values.items()):
        made.add_bar(
            x=[label(name, 24) for name in found],
            y=list(found.values()),
            name=label(score, 40),
            marker={"color": PALETTE[index % len(PALETTE)]},
            hovertemplate="%{x}: %{y:.4f}<extra>%{fullData.name}</extra>",
        )
    if not made.data:
        return note(made)
    made.add_hline(y=0.5, line={"color": MUTED, "width": 1.2, "dash": "dot"})
    made.update_yaxes(range=[0, 1.02])
    if len(next(iter(values.values()))) < 3:  # a single group of bars would fill the page
        made.update_layout(bargap=0.7)
    return made


def _add(made: go.Figure, lines: Sequence[Line]) -> None:
    for line in lines:
        y = numbers(line.y)
        if not np.isfinite(y).any():
            continue
        errors = numbers(line.error) if line.error is not None else np.full(len(y), np.nan)
        made.add_scatter(
            x=numbers(line.x),
            y=y,
            error_y={
                "array": np.nan_to_num(errors),
                "thickness": 1.2,
                "width": 3,
                "visible": bool(np.isfinite(errors).any()),
            },
            name=label(line.name, 40),
            mode="lines+markers",
            line={"color": PALETTE[line.colour % len(PALETTE)], "width": 2.2, "dash": DASHES[line.dash % len(DASHES)]},
            marker={"size": 6, "symbol": SYMBOLS[line.dash % len(SYMBOLS)]},
            hovertemplate="%{x}: %{y:.4g}<extra>%{fullData.name}</extra>",
        )


def _axis(metric: str) -> str:
    """The unit: the title has the name."""
    unit = "AUROC" if metric == "auroc" else unit_of(metric)
    return f"{unit[:1].upper()}{unit[1:]}" if metric not in SHARES else ""


def _formatted(made: go.Figure, metric: str) -> go.Figure:
    made.update_yaxes(tickformat=".2~%" if metric in SHARES else None, exponentformat="power")
    made.update_layout(showlegend=True)
    return made
