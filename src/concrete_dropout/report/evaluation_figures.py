"""Sections of clean data: metrics against the number of samples, and calibration that was fitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from concrete_dropout.plots.calibration import coverage_curve
from concrete_dropout.plots.evaluation import Line, against_samples
from concrete_dropout.plots.metrics import title_of
from concrete_dropout.plots.reliability import reliability_curve
from concrete_dropout.report.components import Section, figure, grid, paragraph, table
from concrete_dropout.report.evaluation_rows import MAIN, NO_DROPOUT, SHORT, Row
from concrete_dropout.report.html import join
from concrete_dropout.report.text import number

COMPARED = ("nll", "ece", "brier", "accuracy", "crps", "calibration_rmse", "rmse")
MOST_CURVES = 2  # each of them before and after
OF_SAMPLES = ("mutual_information", "epistemic_std")  # one pass has none


def samples_section(results: Mapping[str, Any], rows: list[Row], kind: str) -> Section:
    """A figure of each metric against the number of samples; empty where there is one number only."""
    parts = results["plan"]["parts"]
    clean = [row for row in rows if not row.shift and row.part in parts]
    sampled = [row for row in clean if row.mask != NO_DROPOUT]
    if len({row.samples for row in sampled}) < 2:
        return Section("samples", "Number of samples", "")
    figures = []
    for metric in MAIN[kind]:
        lines, flat = _lines(clean, metric)
        if lines:
            made = against_samples(lines, flat, metric)
            figures.append(figure(made, alt=f"{title_of(metric)} against the number of stochastic passes"))
    text = (
        "All numbers of samples are the beginnings of one stream of passes, so that neighbouring points share most of "
        "their masks. Dotted lines are one pass without dropout."
    )
    return Section("samples", "Number of samples", join([paragraph(text), grid(figures)]))


def _lines(rows: list[Row], metric: str) -> tuple[list[Line], dict[str, tuple[float, int, int]]]:
    """Colours tell runs and masks apart, dashes the parts of the data."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if metric in row.metrics:
            found.setdefault((row.group, row.mask, row.part), []).append(row)
    several_groups = len({group for group, _, _ in found}) > 1
    pairs = list(dict.fromkeys((group, mask) for group, mask, _ in found if mask != NO_DROPOUT))
    parts = list(dict.fromkeys(part for _, _, part in found))
    groups = list(dict.fromkeys(group for group, _, _ in found))
    lines, flat = [], {}
    for (group, mask, part), own in found.items():
        words = [group] if several_groups else []
        dash = parts.index(part)
        if mask == NO_DROPOUT and metric in OF_SAMPLES:
            continue
        if mask == NO_DROPOUT:
            colour = len(pairs) + groups.index(group)
            flat[", ".join([*words, "no dropout", part])] = (own[0].metrics[metric].mean, colour, dash)
            continue
        own = sorted(own, key=lambda row: row.samples)
        estimates = [row.metrics[metric] for row in own]
        name = ", ".join([*words, mask, part])
        x, y, error = [row.samples for row in own], [e.mean for e in estimates], [e.error for e in estimates]
        lines.append(Line(name, x, y, error, pairs.index((group, mask)), dash))
    return lines, flat


def fitted_section(results: Mapping[str, Any], rows: list[Row], kind: str) -> Section:
    """What a fitted temperature, or scale, did on data that it was not fitted on."""
    fitted = [row for row in rows if row.fitted and row.part in results["plan"]["parts"]]
    if not fitted:
        return Section("temperature", "Calibration fitted on validation data", "")
    word = "Scale of stds" if kind == "regression" else "Temperature"
    names = [name for name in COMPARED if name in fitted[0].fitted[0]["before"]]
    header = [
        "Run",
        "Data",
        "Mask",
        "Samples",
        word,
        *(f"{SHORT[n]}, {w}" for n in names for w in ("before", "after")),
    ]
    body = [
        [row.group, row.part, row.mask, str(row.samples), number(entry["factor"], 4)]
        + [number(entry[when].get(name), 4) for name in names for when in ("before", "after")]
        for row in fitted
        for entry in row.fitted
    ]
    curves = {
        f"{row.group}, {row.mask} {when}" if len({r.group for r in fitted}) > 1 else f"{row.mask}, {when}": curve
        for row in fitted[:MOST_CURVES]
        for when, curve in row.fitted[0]["curves"].items()
    }
    drawn = (
        coverage_curve({name: (curve["expected"], curve["observed"]) for name, curve in curves.items()})
        if kind == "regression"
        else reliability_curve(curves)
    )
    text = (
        "One factor for all predictive standard deviations, chosen so that the Gaussian with the predictive mean and "
        "variance has the smallest NLL on validation data. The NLL here is that Gaussian's, not the mixture's."
        if kind == "regression"
        else "One temperature T, chosen so that softmax(log p / T) has the smallest NLL on validation data: of the "
        "logits without dropout, and of the mean probabilities over samples. The order of the classes stays."
    )
    return Section(
        "temperature",
        "Calibration fitted on validation data",
        join(
            [
                paragraph(text),
                table(header, body, "Before and after", numeric=range(3, len(header))),
                figure(drawn, alt="Calibration before and after"),
            ]
        ),
    )
