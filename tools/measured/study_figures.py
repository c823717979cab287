"""Figures of the sections on synthetic data and MNIST: uncertainties and p of every layer against what varies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from concrete_dropout.report.record import finite
from concrete_dropout.report.statistics import Summary

from .axes import Axis
from .experiments import Experiment
from .figures import Line, Panel, figure
from .published import Published
from .series import Series, depth_name, series
from .tables import Group, title

STDS = ("epistemic_std", "aleatoric_std", "predictive_std")  # the paper's plots on synthetic data, beside that of p
GREY = "#495057"
PANEL = (300, 180)


def study_figures(experiment: Experiment, found: Iterable[Group], published: Published) -> dict[str, tuple[str, str]]:
    """What a figure shows in words -> name of its file and SVG; nothing where nothing varies."""
    axis = next(iter(experiment.settings), "")
    lines = [line for line in series(g for g in found if x_of(g, axis) is not None) if len(line.groups) > 1]
    made = {}
    if experiment.name == "synthetic" and lines:
        for column in STDS:
            panel = Panel("", Axis(title(axis), log=True), Axis("std"), _scores(lines, axis, column, published))
            if not panel.has_points:
                continue
            name = f"{experiment.name}_{column.removesuffix('_std')}.svg"
            heading = f"{title(column).capitalize()}: mean and standard error over {experiment.repeat}s"
            made[f"{title(column)} against {title(axis)}"] = (name, figure(heading, [panel]))
    learned = [line for line in lines if line.groups[0].kind == "concrete"]
    panels = [Panel(line.name, Axis(title(axis), log=True), Axis("p"), _layers(line, axis)) for line in learned]
    panels = [panel for panel in panels if panel.has_points]
    if panels:
        several = len(panels) > 1
        size = PANEL if several else None
        panels = panels if several else [replace(panels[0], title="")]  # the figure's own title says enough
        heading = f"Learned p by layer: mean and standard error over {experiment.repeat}s"
        svg = figure(heading, panels, columns=2, size=size)
        made[f"p of every layer against {title(axis)}"] = (f"{experiment.name}_p.svg", svg)
    return made


def x_of(group: Group, axis: str) -> float | None:
    """The number that varies; of layers of one width that width."""
    text = group.values.get(axis, "")
    return finite(text.partition("x")[2] or text)


def _scores(lines: list[Series], axis: str, column: str, published: Published) -> list[Line]:
    made = [
        _line(line.name, line.colour, [(x_of(group, axis), group.score(column)) for group in line.groups])
        for line in lines
    ]
    ends = [x for line in made for x, _ in line.points]
    paper = published.find("synthetic", column)
    if paper is not None and ends and (level := finite(paper.value)) is not None:
        made.append(Line(f"paper: tends to {paper.text}", ((min(ends), level), (max(ends), level)), GREY, dashed=True))
    return [line for line in made if line.points]


def _layers(line: Series, axis: str) -> list[Line]:
    layers = list(dict.fromkeys(layer for group in line.groups for layer in group.learned))
    return [
        _line(depth_name(i), i, [(x_of(group, axis), group.learned.get(layer)) for group in line.groups])
        for i, layer in enumerate(layers)
    ]


def _line(name: str, colour: int, entries: list[tuple[float | None, Summary | None]]) -> Line:
    known = sorted((x, found.mean, found.se or 0.0) for x, found in entries if x is not None and found is not None)
    points, errors = tuple((x, mean) for x, mean, _ in known), tuple(se for _, _, se in known)
    return Line(name, points, colour, errors=errors, dots=True)
