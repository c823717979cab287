"""Figures of the section on the cart-pole, by episode: reward, p of every layer, uncertainty of every component."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from concrete_dropout.report.record import finite

from .agent_runs import agents
from .axes import Axis
from .cells import Row
from .experiments import COMPONENTS, EPISODE, Experiment
from .figures import Line, Panel, figure
from .series import series
from .tables import Group, layers_of

Read = Callable[[Row], float | None]
UNITS = {
    "x": "cart position (m)",
    "x_dot": "cart velocity (m/s)",
    "theta": "pole angle (rad)",
    "theta_dot": "pole angular velocity (rad/s)",
}
PANEL = (230, 150)


def agent_figures(experiment: Experiment, found: list[Group]) -> dict[str, tuple[str, str]]:
    """What a figure shows in words -> name of its file and SVG. Thin lines are single runs, thick ones their means."""
    learned = [group for group in found if group.kind == "concrete"]
    uncertain = [group for group in found if group.kind != "none"]
    made: dict[str, tuple[str, str]] = {}

    def add(words: str, file: str, title: str, panels: list[Panel], **layout: Any) -> None:
        drawn = [panel for panel in panels if panel.has_points]
        if drawn:
            made[words] = (f"{experiment.name}_{file}.svg", figure(title, drawn, **layout))

    def panel(y: str, lines: list[Line], heading: str = "", log: bool = False) -> Panel:
        return Panel(heading, Axis(EPISODE), Axis(y, log=log), lines)

    add("reward by episode", "reward", "Reward in the true world", [panel("reward", _by_kind(found, _cell("reward")))])
    add("p of every layer by episode", "p", "Learned p by layer", [panel("p", _by_layer(learned))])
    # Axes of ratios: the uncertainty falls by a factor, not by an amount.
    stds = [panel("std", _by_kind(uncertain, _cell(f"epistemic_{c}")), UNITS[c], log=True) for c in COMPONENTS]
    title = "Epistemic std of the state one step ahead, on held-out episodes"
    add("epistemic std of every component by episode", "epistemic", title, stds, columns=2, size=PANEL)
    ratios = [panel("ratio", _by_kind(uncertain, _cell("honesty")))]
    add("ratio of uncertainty to error by episode", "ratio", "Epistemic uncertainty / error", ratios)
    return made


def _by_kind(found: Iterable[Group], read: Read) -> list[Line]:
    """Lines of every kind of dropout."""
    return [line for one in series(found) for group in one.groups for line in _lines(one.name, one.colour, group, read)]


def _by_layer(found: list[Group]) -> list[Line]:
    """Lines of every layer; of several settings those with the most episodes."""
    group = max(found, key=lambda group: len(group.rows), default=None)
    if group is None:
        return []
    return [line for i, layer in enumerate(group.learned) for line in _lines(layer, i, group, _p_of(layer))]


def _lines(name: str, colour: int, group: Group, read: Read) -> list[Line]:
    """Single runs, and their mean."""
    made, by_episode = [], dict[float, list[float]]()
    for run in agents(group.rows):
        points = [(float(row[EPISODE]), value) for row in run.rows if (value := read(row)) is not None]
        for episode, value in points:
            by_episode.setdefault(episode, []).append(value)
        made += [Line("", tuple(points), colour, thin=True)] if points else []
    means = [(episode, sum(values) / len(values)) for episode, values in sorted(by_episode.items())]
    return [*made, Line(name, tuple(means), colour)] if means else []


def _cell(column: str) -> Read:
    return lambda row: finite(row[column])


def _p_of(layer: str) -> Read:
    return lambda row: layers_of(row).get(layer)
