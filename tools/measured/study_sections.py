"""The sections on synthetic data and MNIST: groups of repeats, and p against what varies."""

from __future__ import annotations

from concrete_dropout.report.paper import finding
from concrete_dropout.report.record import finite
from concrete_dropout.report.text import MISSING

from .collect import Row
from .experiments import Experiment
from .figures import Line, chart
from .parts import NOT_RUN, Part, by_kind, converged, foot, head, repeats, said
from .published import Published
from .tables import Group, comparison, groups, learned_words, score_words, title

SCORES = {
    "synthetic": ("epistemic_std", "aleatoric_std", "predictive_std", "log_likelihood", "calibration_rmse"),
    "mnist": ("accuracy", "accuracy_no_mc", "log_likelihood", "calibration_rmse"),
}
LENGTH_SCALE = ("accuracy", "log_likelihood", "elbo")


def study_part(experiment: Experiment, rows: list[Row], published: Published) -> Part:
    """The section of one experiment."""
    lines = head(experiment, rows) + said(experiment.name, published)
    # Of what varies, the paper has words and a figure rather than numbers.
    found = finding(experiment.name, next(iter(experiment.settings.values()), ""))
    lines += [f"- paper: {found}", ""] if found and not published.of(experiment.name) else []
    short = _short(experiment, groups(experiment, rows), published)
    if not rows:
        return Part([*lines, f"**{NOT_RUN.capitalize()}.**", ""], short)
    figures = _figures(experiment, groups(experiment, rows))
    lines += comparison(experiment, rows, _scores(experiment))
    lines += [line for name in figures for line in (f"![{_alt(name)}](results/{name})", "")]
    return Part([*lines, *foot(rows)], short, figures)


def _scores(experiment: Experiment) -> tuple[str, ...]:
    if experiment.name == "mnist_length_scale":
        return LENGTH_SCALE
    return SCORES["synthetic" if experiment.name == "synthetic" else "mnist"]


def _short(experiment: Experiment, found: list[Group], published: Published) -> tuple[str, ...]:
    """The line of the short version."""
    axis = next(iter(experiment.settings), "")
    numeric = [group for group in found if axis and _x(group, axis) is not None]
    ends = sorted({x for group in numeric if (x := _x(group, axis)) is not None})
    shown = found
    if experiment.name == "synthetic":
        what, metric = "aleatoric std at the largest N", "aleatoric_std"
        shown = [group for group in numeric if _x(group, axis) == ends[-1]]
        cells = by_kind(shown, lambda group: score_words(group.score(metric)))
    elif experiment.name == "mnist":
        what, metric = title("accuracy"), "accuracy"
        cells = by_kind(found, lambda group: score_words(group.score(metric)))
    elif experiment.name == "mnist_length_scale":
        what, metric = "l with the best test log-likelihood", "length_scale"
        best = max(numeric, key=_likelihood, default=None)
        cells = (best.values[axis] if best is not None else MISSING, MISSING, MISSING)
    else:
        what, metric = f"learned p by depth, fewest to most {title(axis)}", ""
        learned = [group for group in numeric if group.kind == "concrete"]
        texts = [learned_words(group) for end in ends for group in learned if _x(group, axis) == end]
        cells = (" → ".join([*texts[:1], *texts[1:][-1:]]) or MISSING, MISSING, MISSING)
    number = published.find(experiment.name, metric)
    paper = number.text if number is not None else MISSING
    if not found:
        return (what, paper, NOT_RUN, "", "", "", "")
    return (what, paper, *cells, repeats(shown), converged(shown))


def _figures(experiment: Experiment, found: list[Group]) -> dict[str, str]:
    """Learned p of every layer against what varies; on synthetic data both uncertainties too."""
    axis = next(iter(experiment.settings), "")
    learned = [group for group in found if axis and group.kind == "concrete" and _x(group, axis) is not None]
    # Of several settings the one with the most runs is drawn.
    counts = {group.values["settings"]: 0 for group in learned}
    for group in learned:
        counts[group.values["settings"]] += len(group.rows)
    drawn = [group for group in learned if group.values["settings"] == max(counts, key=lambda key: counts[key])]
    if len({_x(group, axis) for group in drawn}) < 2:
        return {}
    layers = list(dict.fromkeys(layer for group in drawn for layer in group.learned))
    lines = [
        Line(layer, tuple((_x(g, axis) or 0.0, g.learned[layer].mean) for g in drawn if layer in g.learned), colour)
        for colour, layer in enumerate(layers)
    ]
    made = {f"{experiment.name}_p.svg": chart("Learned p by layer", title(axis), "p", lines, log_x=True)}
    if experiment.name == "synthetic":
        kinds = ("epistemic_std", "aleatoric_std", "predictive_std")
        lines = [
            Line(title(kind), tuple((_x(g, axis) or 0.0, s.mean) for g in drawn if (s := g.score(kind))), colour)
            for colour, kind in enumerate(kinds)
        ]
        made[f"{experiment.name}_std.svg"] = chart("Uncertainty, Concrete dropout", title(axis), "std", lines, True)
    return made


def _x(group: Group, axis: str) -> float | None:
    text = group.values[axis]
    return finite(text.partition("x")[2] or text)


def _likelihood(group: Group) -> float:
    found = group.score("log_likelihood")
    return found.mean if found is not None and group.kind == "concrete" else float("-inf")


def _alt(name: str) -> str:
    return "p against what varies" if name.endswith("_p.svg") else "uncertainty against N"
