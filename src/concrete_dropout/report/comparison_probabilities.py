"""Learned probabilities of several runs: against what varies between them, by depth, and during training."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from concrete_dropout import plots
from concrete_dropout.plots import comparison as figures
from concrete_dropout.plots import overlays
from concrete_dropout.plots.comparison import Repeats
from concrete_dropout.plots.overlays import Curve
from concrete_dropout.plots.theme import PALETTE, label
from concrete_dropout.report.comparison import Comparison, Group, names_of
from concrete_dropout.report.components import Section, details, figure, grid, paragraph, table
from concrete_dropout.report.factors import Factor, number_of
from concrete_dropout.report.html import Html, join, tag
from concrete_dropout.report.layers import short_names
from concrete_dropout.report.replica_record import mean_points
from concrete_dropout.report.statistics import summarise
from concrete_dropout.report.text import count, probability

FEW_LAYERS = len(PALETTE)
MAX_FIGURES = 6
STEADY = 0.02  # the tolerance of convergence: less is no change


def probabilities(found: Comparison) -> Section:
    """All that the runs say about their p."""
    series = found.series()
    parts: list[object] = [
        paragraph(
            "p is the probability that a layer's input is dropped. Crosses and ",
            tag("span", "this colour", class_="flag"),
            " mark p that were still moving at the end of training: they are no results.",
        )
    ]
    if found.axis is not None:
        parts += [_along(found.axis, name, points) for name, points in series.items()]
    else:
        parts.append(_side_by_side(found))
    parts.append(_paths(found))
    return Section("probabilities", "Learned dropout probabilities", join(parts))


def trend(means: Sequence[float]) -> str:
    """How p changes along the axis, in words.

    >>> trend([0.4, 0.2, 0.1]), trend([0.1, 0.3, 0.2]), trend([0.1, 0.105]), trend([0.2])
    ('falls', 'rises, not at every step', 'about the same', '–')
    """
    if len(means) < 2:
        return "–"
    if max(means) - min(means) < STEADY:
        return "about the same"
    direction = 1 if means[-1] > means[0] else -1
    steady = all(direction * (after - before) > -STEADY / 4 for before, after in pairwise(means))
    return ("rises" if direction > 0 else "falls") + ("" if steady else ", not at every step")


def _along(axis: Factor, name: str, points: list[tuple[float, Group]]) -> Html | None:
    """P of every layer against the axis, as a figure and as a table."""
    names = names_of(group for _, group in points)
    if not names:
        return None
    ticks = {place: axis.word(value) for value in axis.values if (place := number_of(value)) is not None}
    lines = []
    for colour, (layer, short) in enumerate(zip(names, short_names(names), strict=True)):
        found = {place: group.probabilities(layer) for place, group in points}
        values = {place: [p for p, _ in entry] for place, entry in found.items()}
        still = {place: [converged is False for _, converged in entry] for place, entry in found.items()}
        lines.append(Repeats(short, values, still, colour))
    title = f"p at the end of training{f', {name}' if name else ''}"
    drawn = figures.against(title, axis.title, "Dropout probability p", lines, ticks, log=axis.is_wide, from_zero=True)
    caption = "p of every layer, from input to output. Open marks are single runs, lines go through their means."
    rows = []
    for layer in names:
        entries = [(group, summarise(p for p, _ in group.probabilities(layer))) for _, group in points]
        means = [summary.mean for _, summary in entries if summary is not None]
        rows.append([tag("code", layer), *(_cell(group, layer) for group, _ in entries), trend(means)])
    header = ["Layer", *(axis.word(group.values.get(axis.key)) for _, group in points), "Trend"]
    listing = table(
        header,
        rows,
        f"Mean p over runs, and the lowest and highest, by {axis.title}",
        numeric=range(1, len(points) + 1),
    )
    folded = listing if len(names) <= 2 * FEW_LAYERS else details(f"Table of all {count(len(names), 'layer')}", listing)
    return join([tag("h3", name) if name else None, figure(drawn, caption), folded])


def _side_by_side(found: Comparison) -> Html:
    """P of every layer for each group that learns it."""
    learned = [group for group in found.groups if group.learned]
    names = names_of(learned)
    if len(names) > FEW_LAYERS:
        pairs = zip(found.colours, found.groups, strict=True)
        curves = [_profile(group, names, colour) for colour, group in pairs if group.learned]
        still = [
            (float(place), p)
            for group in learned
            for place, layer in enumerate(names, start=1)
            for p, converged in group.probabilities(layer)
            if converged is False
        ]
        drawn = overlays.profiles(curves, still)
        caption = "Mean p over runs from input to output; the band holds all runs."
    else:
        shown = {
            group.label: {layer: [p for p, _ in group.probabilities(layer)] for layer in names} for group in learned
        }
        drawn = plots.replicas.strip(shown, "p at the end of training, layer by layer")
        caption = "One mark per run; black lines are means. Layers from input (top) to output within each group."
    rows = [[tag("code", layer), *(_cell(group, layer) for group in learned)] for layer in names]
    header = ["Layer", *(group.label for group in learned)]
    listing = table(header, rows, "Mean p over runs, and the lowest and highest", numeric=range(1, len(header)))
    folded = listing if len(names) <= 2 * FEW_LAYERS else details(f"Table of all {count(len(names), 'layer')}", listing)
    return join([figure(drawn, caption), folded])


def _profile(group: Group, names: list[str], colour: str) -> Curve:
    found = [summarise(p for p, _ in group.probabilities(layer)) for layer in names]
    means, lows, highs = ([getattr(s, end) if s else None for s in found] for end in ("mean", "low", "high"))
    places = range(1, len(names) + 1)
    return Curve(group.label, places, means, lows, highs, colour=colour)


def _cell(group: Group, layer: str) -> object:
    found = group.probabilities(layer)
    summary = summarise(p for p, _ in found)
    if summary is None:
        return "–"
    mean, low, high = (probability(value) for value in (summary.mean, summary.low, summary.high))
    text = tag("span", mean, class_="flag" if any(converged is False for _, converged in found) else None)
    return text if low == high else join([text, tag("br"), tag("small", f"{low}–{high}")], "")


def _paths(found: Comparison) -> Html | None:
    """The way of p through training: by layer along an axis, else by group."""
    learned = [group for group in found.groups if group.learned]
    names = names_of(learned)
    made = []
    if found.axis is not None and len(names) <= MAX_FIGURES:
        for layer, short in zip(names, short_names(names), strict=True):
            lines = {group.label: mean_points(_traces(group, layer)) for group in learned}
            drawn = plots.replicas.by_group(f"p of {short} during training", lines)
            made.append(figure(drawn, alt=f"p of {layer} during training, a line for each group of runs"))
        caption = "Means over repeated runs; dark to light in the order of the table."
    else:
        for group in learned[:MAX_FIGURES]:
            drawn = plots.replicas.spread({layer: _traces(group, layer) for layer in names})
            drawn.update_layout(title_text=label(group.label, 60))
            made.append(figure(drawn, alt=f"p of every layer during training: {group.label}"))
        caption = "Lines are means over repeated runs, bands hold all of them. Flat at the end: converged."
        if len(learned) > MAX_FIGURES:
            caption += f" {count(len(learned) - MAX_FIGURES, 'more group')} in the runs' own reports."
    shown = grid(made) if len(made) > 1 else join(made)
    return join([tag("h3", "During training"), paragraph(caption), shown]) if made else None


def _traces(group: Group, layer: str) -> list[tuple[list[float], list[float]]]:
    return [record.dropout[layer] for record in group.records if layer in record.dropout]
