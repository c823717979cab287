"""Metrics over training steps."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go

from concrete_dropout.plots.arrays import Series, moving_mean, series, thin
from concrete_dropout.plots.theme import DASHES, PALETTE, colours, figure, label, note, translucent

SMOOTHED_FROM = 60
ENTROPIES = {"predictive_entropy", "expected_entropy", "mutual_information"}
NATS = {"nll", "kl", "loss", "elbo", "log_likelihood", "entropy", *ENTROPIES}
TARGET_UNITS = {"rmse", "mae", "crps", "sharpness", "epistemic_std", "aleatoric_std", "predictive_std", "noise_std"}
PROBABILITIES = {"accuracy", "class_accuracy", "calibration_rmse", "ece", "mce", "miou"}
NO_MC = "_no_mc"  # of a metric of one pass without dropout
IOU = "iou/"  # in front of the name of a class
WORDS = {
    "nll": "Negative log-likelihood",
    "kl": "KL / N",
    "elbo": "Evidence lower bound",
    "loss": "Loss",
    "log_likelihood": "Log-likelihood",
    "rmse": "RMSE",
    "mae": "MAE",
    "crps": "CRPS",
    "sharpness": "Mean predictive std",
    "calibration_rmse": "Calibration RMSE",
    "ece": "ECE",
    "mce": "MCE",
    "miou": "mIoU",
    "iou": "IoU of every class",
    "brier": "Brier score",
    "class_accuracy": "Mean class accuracy",
    "predictive_entropy": "Predictive entropy",
}


def base_of(metric: str) -> str:
    """A metric's name without its stage, "iou" for those of single classes.

    >>> base_of("val/nll"), base_of("iou/road"), base_of("test/iou/a/b"), base_of("test/ece_no_mc")
    ('nll', 'iou', 'iou', 'ece_no_mc')
    """
    if metric.startswith(IOU) or f"/{IOU}" in metric:
        return "iou"
    return metric.rsplit("/", 1)[-1]


def title_of(metric: str) -> str:
    """A metric's name in words: "val/nll" and "nll" are both the negative log-likelihood.

    >>> title_of("val/miou"), title_of("iou/road"), title_of("ece_no_mc")
    ('mIoU', 'IoU of road', 'ECE, no MC')
    """
    if IOU in metric and base_of(metric) == "iou":
        return f"IoU of {metric.split(IOU, 1)[1]}"
    name = base_of(metric)
    if name.endswith(NO_MC):
        return f"{title_of(name.removesuffix(NO_MC))}, no MC"
    plain = name.replace("_", " ")
    return WORDS.get(name, plain[:1].upper() + plain[1:])


def unit_of(metric: str) -> str:
    """Unit of a metric by its name, "" where it is not known.

    >>> unit_of("val/nll"), unit_of("test/rmse"), unit_of("lr")
    ('nats', 'target units', '')
    """
    name = base_of(metric).removesuffix(NO_MC)
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
    made.update_yaxes(exponentformat="power")  # a KL per pixel of -8µ nats is hard to read
    return made
