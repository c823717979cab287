"""Agents: rewards and uncertainties over episodes, and predicted bundles of particles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from concrete_dropout.plots.arrays import Series, numbers, series
from concrete_dropout.plots.theme import DASHES, MUTED, PALETTE, colours, figure, label, note, translucent

BUNDLE_HEIGHT = 360


def over_episodes(
    lines: Mapping[str, Series], title: str, y: str, *, spread: Mapping[str, Sequence[Any]] | None = None
) -> go.Figure:
    """Lines over episodes, with a band of one standard deviation where there is one.

    Args:
        lines: name -> (episodes, values).
        title: of the figure.
        y: what is on the vertical axis.
        spread: name -> standard deviations, as many as the line has values.
    """
    made = figure(title, "Episode", y)
    found = {name: pair for name, given in lines.items() if len((pair := series(given))[0])}
    if not found:
        return note(made)
    for index, ((name, (x, values)), colour) in enumerate(zip(found.items(), colours(len(found)), strict=True)):
        width = numbers((spread or {}).get(name, ()))
        if len(width) == len(values):
            made.add_scatter(
                x=np.concatenate([x, x[::-1]]),
                y=np.concatenate([values + width, (values - width)[::-1]]),
                fill="toself",
                mode="none",
                fillcolor=translucent(colour, 0.18),
                hoverinfo="skip",
                showlegend=False,
            )
        made.add_scatter(
            x=x,
            y=values,
            name=label(name, 32),
            mode="lines+markers",
            line={"color": colour, "width": 2.4, "dash": DASHES[index % len(DASHES)]},
            hovertemplate="episode %{x}: %{y:.3g}<extra>%{fullData.name}</extra>",
        )
    return made


def phase(bundle: Mapping[str, Any], names: Sequence[str], axes: tuple[int, int], title: str) -> go.Figure:
    """Predicted paths of particles against what happened, one component of the state over another.

    Args:
        bundle: {"particles": (T + 1, K, S), "observed": (T + 1, S)} as nested lists.
        names: S names.
        axes: which components.
        title: of the figure.
    """
    horizontal, vertical = axes
    made = figure(title, names[horizontal], names[vertical], BUNDLE_HEIGHT)
    try:
        particles, observed = (np.asarray(bundle[key], float) for key in ("particles", "observed"))
        paths = particles[:, :, [horizontal, vertical]]  # (T + 1, K, 2)
        seen = observed[:, [horizontal, vertical]]
    except (KeyError, ValueError, IndexError):
        return note(made, "No prediction recorded")
    for k in range(paths.shape[1]):
        made.add_scatter(
            x=paths[:, k, 0],
            y=paths[:, k, 1],
            mode="lines",
            line={"color": translucent(PALETTE[0], 0.35), "width": 1.2},
            name="predicted, one function each",
            showlegend=k == 0,
            legendgroup="particles",
            hoverinfo="skip",
        )
    made.add_scatter(
        x=seen[:, 0],
        y=seen[:, 1],
        mode="lines+markers",
        line={"color": PALETTE[1], "width": 2.4},
        marker={"size": 4},
        name="what happened",
        hovertemplate="%{x:.2f}, %{y:.2f}<extra>what happened</extra>",
    )
    made.add_scatter(
        x=seen[:1, 0],
        y=seen[:1, 1],
        mode="markers",
        marker={"size": 10, "color": MUTED},
        name="start",
        hoverinfo="skip",
    )
    return made


def paths_over_time(bundle: Mapping[str, Any], names: Sequence[str], component: int) -> go.Figure:
    """One component of the state over time: particles, and what happened."""
    made = figure(f"{names[component]} over time", "Step", names[component], 260)
    try:
        particles, observed = (np.asarray(bundle[key], float) for key in ("particles", "observed"))
        paths, seen = particles[:, :, component], observed[:, component]
    except (KeyError, ValueError, IndexError):
        return note(made, "No prediction recorded")
    steps = np.arange(len(seen))
    for k in range(paths.shape[1]):
        line = {"color": translucent(PALETTE[0], 0.35), "width": 1.2}
        made.add_scatter(x=steps, y=paths[:, k], mode="lines", line=line, showlegend=False, hoverinfo="skip")
    made.add_scatter(
        x=steps, y=seen, mode="lines", line={"color": PALETTE[1], "width": 2.4}, name="what happened", showlegend=False
    )
    return made
