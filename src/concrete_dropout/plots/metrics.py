"""Metrics over training steps."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go

from concrete_dropout.plots.arrays import Series, moving_mean, series, thin
from concrete_dropout.plots.theme import DASHES, PALETTE, colours, figure, label, note, translucent

SMOOTHED_FROM = 60
NATS = {"nll", "kl", "loss", "log_likelihood", "entropy"}
TARGET_UNITS = {"rmse", "mae", "crps", "sharpness", "epistemic_std", "aleatoric_std", "predictive_std", "noise_std"}
PROBABILITIES = {"accuracy", "calibration_rmse", "ece", "mce", "miou"}
WORDS = {
    "nll": "Negative log-likelihood",
    "kl": "KL / N",
    "loss": "Loss",
    "log_likelihood": "Log-likelihood",
    "rmse": "RMSE",
    "mae": "MAE",
    "crps": "CRPS",
    "sharpness": "Mean predictive std",
    "calibration_rmse": "Calibration RMSE",
    "ece": "ECE",
    "miou": "mIoU",
}


def title_of(metric: str) -> str:
    """A metric's name in words: "val/nll" and "nll" are both the negative log-likelihood."""
    name = metric.rsplit("/", 1)[-1]
    plain = name.replace("_", " ")
    return WORDS.get(name, plain[:1].upper() + plain[1:])


def unit_of(metric: str) -> str:
    """Unit of a metric by its name, "" where it is not known.

    >>> unit_of("val/nll"), unit_of("test/rmse"), unit_of("lr")
    ('nats', 'target units', '')
    """
    name = metric.rsplit("/", 1)[-1]
    for unit, names in (("nats", NATS), ("target units", TARGET_UNITS), ("probability", PROBABILITIES)):
        if name in names:
            return unit
    return ""


def curves(values: Mapping[str, Series], title: str = "Training curves", height: int = 340) -> go.Figure:
    """Metrics over steps, one line each.

    Args:
        values: metric name -> (steps, values). Long noisy lines are drawn faint under their moving mean.
        title: of the figure.
        height: in pixels.
    """
    units = {unit_of(name) for name in values}
    unit = units.pop() if len(units) == 1 else ""
    made = figure(title, "Training step", unit[:1].upper() + unit[1:] or "Value", height)
    lines = {name: found for name, pair in values.items() if len((found := series(pair))[0])}
    if not lines:
        return note(made)
    for index, (name, colour) in enumerate(zip(lines, colours(len(lines)), strict=True)):
        steps, raw = lines[name]
        style = {"color": colour, "width": 2.2, "dash": DASHES[index // len(PALETTE) % len(DASHES)]}
        shown = raw
        if len(raw) >= SMOOTHED_FROM:
            shown = moving_mean(raw, max(5, len(raw) // 40))
            faint_steps, faint = thin(steps, raw)
            made.add_scatter(
                x=faint_steps,
                y=faint,
                mode="lines",
                line={"color": translucent(colour, 0.28), "width": 1},
                legendgroup=str(index),
                showlegend=False,
                hoverinfo="skip",
            )
        steps, shown = thin(steps, shown)
        made.add_scatter(
            x=steps,
            y=shown,
            name=label(name, 28),
            mode="lines+markers" if len(steps) <= 12 else "lines",
            line=style,
            legendgroup=str(index),
            showlegend=True,
            hovertemplate="step %{x}: %{y:.4g}<extra>%{fullData.name}</extra>",
        )
    return made
