"""Agents compared: a table with controls, rewards over episodes, and the paper's seven panels."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from concrete_dropout.plots.control import over_episodes
from concrete_dropout.report.components import Section, figure, grid, paragraph, table
from concrete_dropout.report.control_record import (
    best,
    component,
    component_names,
    episodes,
    is_agent,
    line,
    reward,
    rival,
)
from concrete_dropout.report.control_sections import RIVALS
from concrete_dropout.report.html import Html, join
from concrete_dropout.report.record import Record, dicts, finite, mapping
from concrete_dropout.report.statistics import Summary, summarise
from concrete_dropout.report.study_record import Study
from concrete_dropout.report.text import number, plus_minus

GOAL = 16.5  # the paper's reward of the cart-pole
EARLY = 5  # episodes in which data are scarce
SEED = "seed"
NAMES = {"none": "no dropout", "fixed": "fixed p", "concrete": "Concrete"}
COLUMNS = (
    "agents",
    "runs",
    f"reached {GOAL}",
    "first in episode",
    "best reward",
    "last reward",
    f"mean of first {EARLY}",
    "epistemic / error, first",
    "the same, last",
    "within a factor of 2",
)
Read = Callable[[dict[str, Any]], float | None]


@dataclass(frozen=True)
class Agents:
    """Runs that differ by their seed only."""

    label: str
    records: tuple[Record, ...]

    def over(self, read: Read) -> tuple[tuple[list[float], list[float]], list[float]]:
        """Mean of a value over runs at every episode, and its standard error (0 of a single run)."""
        values: dict[float, list[float]] = {}
        for record in self.records:
            for episode, value in zip(*line(record, read), strict=True):
                values.setdefault(episode, []).append(value)
        rows = [(episode, summarise(found)) for episode, found in sorted(values.items())]
        kept = [(episode, summary) for episode, summary in rows if summary is not None]
        return ([e for e, _ in kept], [s.mean for _, s in kept]), [s.se or 0.0 for _, s in kept]

    def summary(self, read: Callable[[Record], float | None]) -> Summary | None:
        """Of one number of every run."""
        return summarise(read(record) for record in self.records)


def agents_of(study: Study) -> list[Agents]:
    """The runs that have played at least one episode, by what they have in common."""
    groups: dict[str, list[Record]] = {}
    for member in study.members:
        values = {key: value for key, value in member.values.items() if key != SEED}
        label = ", ".join(NAMES.get(str(value), f"{key}={value}") for key, value in values.items()) or "all"
        if member.record is not None and is_agent(member.record):
            groups.setdefault(label, []).append(member.record)
    return [Agents(label, tuple(records)) for label, records in groups.items()]


def first_at_goal(record: Record) -> float | None:
    """The first episode whose mean reward is at least the paper's."""
    return next((float(e["episode"]) for e in episodes(record) if (reward(e) or 0.0) >= GOAL), None)


def early(record: Record) -> float | None:
    """Mean reward of the first episodes."""
    summary = summarise(reward(entry) for entry in episodes(record)[:EARLY])
    return None if summary is None else summary.mean


def cells(agents: Agents) -> list[str]:
    """A row of the table."""
    reached = [episode for record in agents.records if (episode := first_at_goal(record)) is not None]
    ratios = [agents.summary(partial(_honesty, index)) for index in (0, -1)]
    found = [
        agents.summary(lambda record: reward(best(record))),
        agents.summary(lambda record: reward(episodes(record)[-1])),
        agents.summary(early),
    ]
    return [
        agents.label,
        str(len(agents.records)),
        f"{len(reached)} of {len(agents.records)}",
        number(sum(reached) / len(reached)) if reached else "–",
        *(plus_minus(s.mean, s.se) if s is not None else "–" for s in (*found, *ratios)),
        _honest_share(agents),
    ]


def _honesty(index: int, record: Record) -> float | None:
    return finite(episodes(record)[index].get("honesty")) or None  # without dropout there is none


def _honest_share(agents: Agents) -> str:
    """In how many episodes of all runs the epistemic uncertainty was within a factor of 2 of the error."""
    ratios = [finite(entry.get("honesty")) for record in agents.records for entry in episodes(record)]
    known = [ratio for ratio in ratios if ratio]
    return f"{sum(1 / 2 <= ratio <= 2 for ratio in known)} of {len(known)}" if known else "–"


def control_lead(study: Study) -> str:
    """One sentence about the study."""
    found = agents_of(study)
    if not found:
        return "No agent has played an episode yet."
    parts = [f"{cells(agents)[2]} with {agents.label}" for agents in found]
    return f"Runs that reached a mean true reward of {GOAL}: {'; '.join(parts)}."


def control_sections(study: Study) -> list[tuple[Callable[[], Section], str, str]]:
    """Builder, key and heading of every section."""
    return [
        (partial(_results, study), "results", "Results"),
        (partial(_rewards, study), "learning", "Learning"),
        (partial(_panels, study), "panels", "The paper's panels"),
    ]


def table_csv(study: Study) -> str:
    """Reward, promise and uncertainty of every run and episode: what the figures are made of."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    rest = ("model_reward", "acted_return", "scout_acted", "scout_chosen", "honesty", "seconds")
    layers = list(dict.fromkeys(name for agents in agents_of(study) for r in agents.records for name in _p_names(r)))
    rewards = ("reward", "reward_std", *(f"reward_{name}" for name in RIVALS))
    writer.writerow(["run", "episode", "num_train", *rewards, *rest, *(f"p {layer}" for layer in layers)])
    for member in study.members:
        for entry in episodes(member.record) if member.record is not None else ():
            seen = [reward(entry), reward(entry, "std"), *(rival(entry, name) for name in RIVALS)]
            p = [mapping(entry.get("p")).get(layer) for layer in layers]
            row = [entry["episode"], entry.get("num_train"), *seen, *(entry.get(key) for key in rest), *p]
            writer.writerow([member.label, *row])
    return text.getvalue()


def table_md(study: Study) -> str:
    """The table of the report in Markdown."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(cells(agents)) + " |" for agents in agents_of(study)]
    return (
        "\n".join([*lines, "", "Mean ± standard error over runs; rewards are means over starts in the true world."])
        + "\n"
    )


def _results(study: Study) -> Section:
    rows = [cells(agents) for agents in agents_of(study)]
    intro = paragraph(
        f"The paper reports {GOAL} for both of its agents. Learned p has to be compared with p = 0 and a fixed p under "
        "the same budget; without these, nothing can be credited to it."
    )
    caption = "Mean ± standard error over runs; the last column counts episodes of all runs"
    return Section("results", "Results", join([intro, table(COLUMNS, rows, caption, numeric=range(1, len(COLUMNS)))]))


def _rewards(study: Study) -> Section:
    parts = [
        _lines(study, reward, "True reward over episodes", "Reward of an episode"),
        _lines(study, lambda e: finite(e.get("model_reward")), "Reward inside of the model", "Promised reward"),
        *(
            _lines(study, partial(rival, name=name), f"{label.capitalize()}: true reward", "Reward of an episode")
            for name, label in RIVALS.items()
        ),
    ]
    caption = paragraph("Means over runs; bands are one standard error.")
    return Section("learning", "Learning", join([caption, grid(parts)]))


def _panels(study: Study) -> Section:
    """Probabilities of every layer, and the epistemic standard deviation of every component."""
    records = [record for agents in agents_of(study) for record in agents.records]
    active = {name for record in records for e in episodes(record) for name in mapping(e.get("p"))}
    layers = sorted(active | {name for record in records for name in _layers(record)}, key=_in_order)
    names = list(dict.fromkeys(name for record in records for name in component_names(record)))
    parts = [
        _lines(
            study,
            partial(_p, layer),
            f"p of {layer}" if layer in active else f"p of {layer}: drops nothing",
            "Dropout probability",
        )
        for layer in layers
    ]
    parts += [
        _lines(study, partial(_epistemic, name), f"{name}: epistemic std", "Units of the state, one step ahead")
        for name in names
    ]
    intro = paragraph(
        "As in the paper's figure: dropout probabilities of the layers, then the epistemic standard deviation of each "
        "component of the state, over episodes. It is measured on whole episodes that were never trained on."
    )
    return Section("panels", "The paper's panels", join([intro, grid(parts)]))


def _p_names(record: Record) -> list[str]:
    return [str(name) for entry in episodes(record) for name in mapping(entry.get("p"))]


def _layers(record: Record) -> list[str]:
    """The layers of a run with dropout, also those that drop nothing: the paper has a panel of the inputs' as well."""
    layers = [layer for layer in dicts(record.run.get("layers")) if layer.get("name")]
    return [str(layer["name"]) for layer in layers] if any(layer.get("kind") != "none" for layer in layers) else []


def _in_order(name: str) -> list[tuple[int, str]]:
    """Layers by their numbers: layers.3 before layers.12."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in name.split(".")]


def _p(layer: str, entry: dict[str, Any]) -> float | None:
    """Probability of a layer: 0 where it drops nothing beside others that do. Without any dropout there is none."""
    found = mapping(entry.get("p"))
    return finite(found.get(layer, 0.0)) if found else None


def _epistemic(name: str, entry: dict[str, Any]) -> float | None:
    found = component(entry, name, "epistemic")
    return found if found else None  # without dropout there is none


def _lines(study: Study, read: Read, title: str, y: str) -> Html:
    found = {agents.label: agents.over(read) for agents in agents_of(study)}
    lines = {label: points for label, (points, _) in found.items() if points[0]}
    made = over_episodes(lines, title, y, spread={label: band for label, (_, band) in found.items()})
    made.update_yaxes(rangemode="tozero")
    return figure(made, alt=title)
