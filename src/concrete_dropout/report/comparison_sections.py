"""Sections of a study of runs: headline, scores of all groups, and scores against what varies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from concrete_dropout.plots import comparison as figures
from concrete_dropout.plots.comparison import Repeats
from concrete_dropout.report.comparison import Comparison, Group, Metric, moving
from concrete_dropout.report.comparison_curves import calibration, classes, has_calibration, has_classes, selective
from concrete_dropout.report.comparison_probabilities import probabilities
from concrete_dropout.report.components import Card, Section, bullets, cards, figure, grid, notice, paragraph, table
from concrete_dropout.report.factors import number_of
from concrete_dropout.report.html import Html, join, tag
from concrete_dropout.report.paper import finding
from concrete_dropout.report.record import NO_MC, STAGE_WORDS
from concrete_dropout.report.statistics import Summary
from concrete_dropout.report.text import count

MAX_COLUMNS = 5
CONVERGED = Metric("p", "p converged")
UNCERTAINTIES = ("mutual_information", "epistemic_std")
MAX_CARDS = 3
MAX_NAMED = 6
# What the words mean, where a reader might not know.
MEANINGS = {
    "elbo": "The bound on the evidence per training point at the end of training, without the constants of its KL. "
    "These depend on the length scale and on the sizes of network and training set, hence no best value is marked.",
    "mutual_information": "Epistemic uncertainty: how much the sampled networks disagree.",
    "epistemic_std": "Epistemic uncertainty: how far the sampled networks lie apart.",
}
Builder = tuple[Callable[[], Section], str, str]


def comparison_lead(found: Comparison) -> str:
    """One or two sentences about the study."""
    members = found.study.members
    done = sum(member.state == "finished" for member in members)
    amount = f"{count(len(members), 'run')}, {'all' if done == len(members) else done} finished."
    varied = [f"{_lower(factor.title)} ({len(factor.values)} values)" for factor in found.factors]
    repeats = sorted({len(group.members) for group in found.groups})
    each = " to ".join(str(n) for n in dict.fromkeys((repeats[0], repeats[-1]))) if repeats else "0"
    if not varied:
        return f"{amount} The same experiment, repeated."
    return f"{amount} They differ in {' and '.join(varied)}, with {each} {'run' if each == '1' else 'runs'} for each."


def comparison_sections(found: Comparison, ours: list[Builder] | None = None) -> list[Builder]:
    """Builders of the sections that a study has numbers for, with key and heading for one that fails.

    Args:
        found: the study.
        ours: sections in place of the results.
    """
    made: list[Builder] = [*(ours or [(partial(_results, found), "results", "Results")])]
    if found.axis is not None and found.metrics:
        made.append((partial(_against, found), "against", f"Against {_lower(found.axis.title)}"))
    if found.layer_names:
        made.append((partial(probabilities, found), "probabilities", "Learned dropout probabilities"))
    if has_calibration(found):
        made.append((partial(calibration, found), "calibration", "Calibration"))
    if any(record.selective for group in found.groups for record in group.records):
        made.append((partial(selective, found), "selective", "Does uncertainty find errors?"))
    if has_classes(found):
        made.append((partial(classes, found), "classes", "IoU by class"))
    return made


def comparison_notices(found: Comparison) -> list[Html]:
    """What a reader must know before the numbers."""
    still = moving(member for group in found.groups for member in group.done)
    made = []
    if still:
        rest = len(still) - MAX_NAMED
        lines = [member.label for member in still[:MAX_NAMED]]
        lines += [f"and {count(rest, 'more run')}"] if rest > 0 else []
        why = "A p that is still moving is not a result: train longer or raise optim.p_lr. These runs are marked:"
        title = f"In {count(len(still), 'run')} some dropout probability had not converged."
        made.append(notice("warning", title, join([tag("p", why), bullets(lines)])))
    single = [group for group in found.groups if len(group.done) == 1]
    if len(single) > 1 and len(single) == sum(bool(group.done) for group in found.groups):
        text = "Nobody knows which differences are chance: add '++study.grid={seed:[0,1,2]}' to the command."
        made.append(notice("info", "One finished run for each setting.", tag("p", text)))
    return made


def variants(found: Comparison, group: Group) -> list[tuple[str, str]]:
    """(in words, suffix of its metrics) of the ways in which a group's runs were tested."""
    if not found.has_no_mc or not group.done:
        return [("–", "")]
    both = any(group.score(found.stage, metric, NO_MC) is not None for metric in found.metrics)
    return [("MC samples", ""), ("one pass", NO_MC)] if both else [("one pass", "")]


def score_rows(found: Comparison, metrics: tuple[Metric, ...]) -> list[tuple[Group, str, list[Summary | None]]]:
    """(group, how it was tested, score of every metric) for the table of groups."""
    return [
        (group, words, [group.score(found.stage, metric, suffix) for metric in metrics])
        for group in found.groups
        for words, suffix in variants(found, group)
    ]


def table_metrics(found: Comparison) -> tuple[Metric, ...]:
    """The metrics that there is room for; uncertainties, which are no scores, are for the figures."""
    return tuple(metric for metric in found.metrics if metric.key not in UNCERTAINTIES)[:MAX_COLUMNS]


def best_of(metric: Metric, summaries: list[Summary | None]) -> float | None:
    """The best mean among several; None where there is nothing to choose from."""
    means = {summary.mean for summary in summaries if summary is not None}
    if metric.higher_is_better is None or len(means) < 2:
        return None
    return max(means) if metric.higher_is_better else min(means)


def narrow(metric: Metric) -> Html:
    """The header of a column on two lines: the numbers below are short."""
    words = [*metric.title.split(), *([f"({metric.unit})"] if metric.unit else [])]
    lines = [" ".join(words[:1]), " ".join(words[1:])]
    return join([lines[0], tag("br"), lines[1]], "") if lines[1] else join(lines[:1])


def _results(found: Comparison) -> Section:
    metrics = table_metrics(found)
    rows = score_rows(found, metrics)
    if not metrics:
        return Section("results", "Results", paragraph("No run has come to its end yet."))
    best = [best_of(metric, [row[2][i] for row in rows]) for i, metric in enumerate(metrics)]
    body = [_row(found, row, best) for row in rows]
    with_mc = found.has_no_mc
    header = [" · ".join(factor.title for factor in found.factors) or "Runs", *(["Prediction"] if with_mc else [])]
    header += [*map(narrow, metrics), "Runs", *([narrow(CONVERGED)] if found.layer_names else [])]
    first = 2 if with_mc else 1
    caption = f"Mean ± standard error over runs, on {STAGE_WORDS[found.stage]} data. Bold: the best mean of a column"
    listing = table(header, body, caption, numeric=range(first, len(header)))
    return Section("results", "Results", join([_cards(found, metrics), _intro(found), listing]))


def _intro(found: Comparison) -> Html:
    text = "Differences within about two standard errors are what another seed would change as well."
    if found.has_no_mc:
        text += " One pass: dropout inactive (weight scaling). MC samples: the mean over sampled networks."
    shown = [finding(str(found.study.record.run.get("experiment") or ""), factor.key) for factor in found.factors]
    return join([paragraph(text), *(paragraph(f"The paper: {claim}") for claim in shown if claim)])


def _row(found: Comparison, row: tuple[Group, str, list[Summary | None]], best: list[float | None]) -> list[object]:
    group, words, summaries = row
    cells: list[object] = []
    for metric, summary, top in zip(table_metrics(found), summaries, best, strict=True):
        text = metric.text(summary)
        cells.append(tag("strong", text) if summary is not None and summary.mean == top else text)
    done, expected = len(group.done), len(group.members)
    runs: object = str(done) if done == expected else tag("span", f"{done} of {expected}", class_="flag")
    return [
        group.label,
        *([words] if found.has_no_mc else []),
        *cells,
        runs,
        *([convergence(group)] if found.layer_names else []),
    ]


def convergence(group: Group) -> object:
    """How many runs of a group have stopped changing their p."""
    if not group.learned:
        return "–"
    judged = [layer.converged for layers in group.layers for layer in layers if layer.learned]
    if None in judged:
        return "not judged"
    settled = len(group.done) - len(moving(group.done))
    text = f"{settled} of {len(group.done)}"
    return text if settled == len(group.done) else tag("span", text, class_="flag")


def _cards(found: Comparison, metrics: tuple[Metric, ...]) -> Html | None:
    """The best mean of the first metrics, and whose it is."""
    rows = score_rows(found, metrics)
    names = " · ".join(factor.title for factor in found.factors)
    made: list[Card] = []
    for index, metric in enumerate(metrics):
        top = best_of(metric, [summaries[index] for _, _, summaries in rows])
        for group, words, summaries in rows:
            summary = summaries[index]
            if summary is not None and summary.mean == top:
                way = f", {words}" if found.has_no_mc else ""
                repeats = f", mean of {count(summary.count, 'run')}" if summary.count > 1 else ""
                meaning = f"{names}: {group.label}{way}{repeats}."
                made.append(Card(f"Best {_lower(metric.title)}", metric.text(summary), metric.unit, meaning))
                break
    return cards(made[:MAX_CARDS]) if made else None


def _against(found: Comparison) -> Section:
    """One figure per metric, over the numeric key."""
    axis = found.axis
    assert axis is not None
    ticks = {place: axis.word(value) for value in axis.values if (place := number_of(value)) is not None}
    made = []
    for metric in found.metrics:
        lines = []
        for colour, (name, points) in enumerate(found.series().items()):
            for suffix, words in (("", "MC samples"), (NO_MC, "one pass")):
                values = {place: group.scores(found.stage, metric, suffix) for place, group in points}
                # Whether there are two ways to predict decides about the name of either.
                shown = words if found.has_no_mc and not metric.stage else ""
                label = ", ".join(filter(None, [name, shown]))
                if any(value is not None for entry in values.values() for value in entry):
                    lines.append(Repeats(label, values, colour=colour, dashed=bool(suffix)))
        drawn = figures.against(
            metric.title, axis.title, metric.unit or metric.title, lines, ticks, log=axis.is_wide, from_zero=False
        )
        made.append(figure(drawn, MEANINGS.get(metric.key, ""), alt=f"{metric.title} against {axis.title}"))
    intro = paragraph("Open marks are single runs, lines go through their means.")
    return Section("against", f"Against {_lower(axis.title)}", join([intro, grid(made)]))


def _lower(title: str) -> str:
    """A title within a sentence; abbreviations stay as they are."""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]
