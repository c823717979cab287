"""The section on the cart-pole: reward by episode, when the paper's was reached, p and uncertainty as data come in."""

from __future__ import annotations

from collections.abc import Iterable

from concrete_dropout.report.record import finite
from concrete_dropout.report.statistics import summarise
from concrete_dropout.report.text import MISSING, number, plus_minus, probability

from .agent_figures import agent_figures
from .agent_runs import agents
from .cells import Row
from .collect import FINISHED
from .experiments import EPISODE, Experiment
from .parts import NOT_RUN, Part, by_kind, foot, head, said
from .published import Published
from .tables import Group, code, converged_words, dropout_words, groups, layers_of, score_words, span, table


def agent_part(experiment: Experiment, rows: list[Row], published: Published) -> Part:
    """The section."""
    paper = published.find(experiment.name, "reward")
    goal = finite(paper.value) if paper is not None else None
    name = paper.text if paper is not None else "the paper's reward"
    what = f"reward of the last episode; seeds that reached {name} in any"
    shown = paper.text if paper is not None else MISSING
    lines = head(experiment, rows) + said(experiment.name, published)
    if not rows:
        return Part([*lines, f"**{NOT_RUN.capitalize()}.**", ""], (what, shown, NOT_RUN, "", "", "", ""))
    lines += [
        "The reward of an episode is a mean over starts in the true world. The best one of a run is the largest of "
        "its episodes, chosen by that same reward. The ratio is epistemic uncertainty to error on held-out episodes, "
        "a geometric mean over the state's components, one step ahead; without dropout there is no such uncertainty. "
        "p is judged by the last fit alone.",
        "",
    ]
    found = groups(experiment, rows)
    lines += _by_kind(found, goal, name)
    lines += ["Single runs:", "", *_by_run(rows, goal, name)]
    figures = {}
    for alt, (file, svg) in agent_figures(experiment, found).items():
        figures[file] = svg
        lines += [f"![{alt}](results/{file})", ""]
    cells = by_kind(found, lambda group: f"{_last(group)}; {_reached(group, goal)}")
    seeds = span(len(agents(group.rows)) for group in found)
    told = converged_words(row for group in found for row in group.rows)
    return Part([*lines, *foot(rows)], (what, shown, *cells, seeds, told), figures)


def _by_kind(found: list[Group], goal: float | None, name: str) -> list[str]:
    header = ["dropout", "settings", "seeds", "episodes", f"reached {name}", "first episode with it", "best reward"]
    header += ["last reward", "last ratio", "within a factor of two", "p, first → last episode", "p converged"]
    lines = []
    for group in found:
        runs = agents(group.rows)
        honest = [run.honest for run in runs]
        lines.append(
            [
                dropout_words(group.values),
                code(group.values["settings"]),
                str(len(runs)),
                span(len(run.rows) for run in runs),
                _reached(group, goal),
                ", ".join(run.first_with(goal) for run in runs),
                score_words(summarise(_bests(group))),
                _last(group),
                score_words(summarise(run.value("honesty") for run in runs)) if group.kind != "none" else MISSING,
                f"{sum(a for a, _ in honest)} of {sum(b for _, b in honest)}" if group.kind != "none" else MISSING,
                _course([run.rows[0] for run in runs], [run.rows[-1] for run in runs]),
                converged_words(group.rows),
            ]
        )
    return table(header, lines)


def _by_run(rows: list[Row], goal: float | None, name: str) -> list[str]:
    header = ["dropout", "settings", "seed", "episodes", f"first with {name}", "best (episode)"]
    header += ["last (± std over starts)", "starts"]
    header += ["last ratio", "p, first → last episode", "state"]
    lines = []
    for run in agents(rows):
        last = run.rows[-1]
        lines.append(
            [
                dropout_words(last),
                code(last["settings"]),
                last["seed"],
                str(len(run.rows)),
                run.first_with(goal),
                f"{plus_minus(run.value('reward', run.best))} ({run.best[EPISODE]})",
                plus_minus(run.value("reward"), run.value("reward_std")),
                last["starts"],
                number(run.value("honesty"), 2) if last["dropout"] != "none" else MISSING,
                _course(run.rows[:1], run.rows[-1:]),
                "" if last["state"] == FINISHED else f"{last['state']}, not in the means",
            ]
        )
    return table(header, lines)


def _bests(group: Group) -> list[float | None]:
    return [run.value("reward", run.best) for run in agents(group.rows)]


def _last(group: Group) -> str:
    return score_words(summarise(run.value("reward") for run in agents(group.rows)))


def _reached(group: Group, goal: float | None) -> str:
    """How many seeds had that reward in any of their episodes."""
    firsts = [run.first_with(goal) for run in agents(group.rows)]
    return f"{sum(first != MISSING for first in firsts)} of {len(firsts)}"


def _course(firsts: Iterable[Row], lasts: Iterable[Row]) -> str:
    """Mean p over layers and runs in the first episode, and in the last."""
    means = [summarise(p for row in rows for p in layers_of(row).values()) for rows in (firsts, lasts)]
    return " → ".join(probability(mean.mean) for mean in means if mean is not None) or MISSING
