"""The sections on synthetic data and MNIST: groups of repeats, and p against what varies."""

from __future__ import annotations

from concrete_dropout.report.paper import finding
from concrete_dropout.report.text import MISSING

from .cells import Row
from .commands import changes
from .experiments import LONG, Experiment
from .parts import NOT_RUN, Part, as_commanded, by_kind, converged, foot, head, repeats, said
from .published import Published
from .study_figures import study_figures, x_of
from .tables import Group, code, comparison, depth_words, groups, score_words, title

SCORES = {
    "synthetic": ("epistemic_std", "aleatoric_std", "predictive_std", "log_likelihood", "calibration_rmse"),
    "mnist": ("accuracy", "accuracy_no_mc", "log_likelihood", "calibration_rmse"),
}
LENGTH_SCALE = ("accuracy", "log_likelihood", "elbo")


def study_part(experiment: Experiment, rows: list[Row], published: Published) -> Part:
    """The section of one experiment."""
    lines = head(experiment, rows) + said(experiment.name, published)
    # Of what varies, the paper has words and a figure rather than numbers.
    words = finding(experiment.name, next(iter(experiment.settings.values()), ""))
    lines += [f"- paper: {words}", ""] if words and not published.of(experiment.name) else []
    found = groups(experiment, rows)
    short = _short(experiment, found, published)
    if not rows:
        return Part([*lines, f"**{NOT_RUN.capitalize()}.**", ""], short)
    lines += comparison(experiment, rows, _scores(experiment))
    figures = {}
    for alt, (file, svg) in study_figures(experiment, found, published).items():
        figures[file] = svg
        lines += [f"![{alt}](results/{file})", ""]
    return Part([*lines, *foot(rows)], short, figures, also=_long(experiment, found, published))


def _scores(experiment: Experiment) -> tuple[str, ...]:
    if experiment.name == "mnist_length_scale":
        return LENGTH_SCALE
    return SCORES["synthetic" if experiment.name == "synthetic" else "mnist"]


def _short(experiment: Experiment, found: list[Group], published: Published) -> tuple[str, ...]:
    """The line of the short version."""
    axis = next(iter(experiment.settings), "")
    numeric = [group for group in found if axis and x_of(group, axis) is not None]
    ends = sorted({x for group in numeric if (x := x_of(group, axis)) is not None})
    shown = found
    if experiment.name == "synthetic":
        what, metric = "aleatoric std at the largest N", "aleatoric_std"
        shown = as_commanded(group for group in numeric if x_of(group, axis) == ends[-1])
        cells = by_kind(shown, lambda group: score_words(group.score(metric)))
    elif experiment.name == "mnist":
        what, metric = title("accuracy"), "accuracy"
        shown = as_commanded(found)
        cells = by_kind(shown, lambda group: score_words(group.score(metric)))
    elif experiment.name == "mnist_length_scale":
        what, metric = "l with the best test log-likelihood", "length_scale"
        shown = _of_one_setting(numeric, axis)
        best = max(shown, key=_likelihood, default=None)
        cells = (best.values[axis] if best is not None else MISSING, MISSING, MISSING)
    else:
        what, metric = f"learned p by depth, fewest to most {title(axis)}", ""
        shown = _of_one_setting(numeric, axis)
        texts = [depth_words(group) for group in shown]
        cells = (" → ".join([*texts[:1], *texts[1:][-1:]]) or MISSING, MISSING, MISSING)
    number = published.find(experiment.name, metric)
    paper = number.text if number is not None else MISSING
    if not found:
        return (what, paper, NOT_RUN, "", "", "", "")
    return (what, paper, *cells, repeats(shown), converged(shown))


def _long(experiment: Experiment, found: list[Group], published: Published) -> tuple[tuple[str, ...], ...]:
    """A further line of the short version: MNIST with a long schedule, where it was run."""
    own = [group for group in found if group.values["settings"] == changes(LONG, {}, ())]
    if experiment.name != "mnist" or not own:
        return ()
    cells = by_kind(own, lambda group: score_words(group.score("accuracy")))
    number = published.find(experiment.name, "accuracy")
    paper = number.text if number is not None else MISSING
    what = f"{title('accuracy')}, long schedule: {code(own[0].values['settings'])}"
    return ((what, paper, *cells, repeats(own), converged(own)),)


def _of_one_setting(found: list[Group], axis: str) -> list[Group]:
    """Concrete runs that differ in nothing but what varies, in its order.

    Of several settings those with the most values of it, of equally many those with the most runs.
    """
    by_setting: dict[str, list[Group]] = {}
    for group in found:
        if group.kind == "concrete":
            by_setting.setdefault(group.values["settings"], []).append(group)
    most = max(by_setting.values(), key=lambda own: (len(own), sum(len(g.rows) for g in own)), default=[])
    return sorted(most, key=lambda group: x_of(group, axis) or 0.0)


def _likelihood(group: Group) -> float:
    found = group.score("log_likelihood")
    return found.mean if found is not None else float("-inf")
