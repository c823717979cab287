"""Sections of the UCI study: headline, the two tables, average ranks, learned probabilities of all sets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from concrete_dropout import plots
from concrete_dropout.report import paper, uci
from concrete_dropout.report.components import Card, Section, cards, figure, paragraph, table
from concrete_dropout.report.html import Html, join, tag
from concrete_dropout.report.layers import short_names
from concrete_dropout.report.replica_record import Replicas
from concrete_dropout.report.statistics import Summary
from concrete_dropout.report.study_record import Study
from concrete_dropout.report.text import count, number, plus_minus, probability
from concrete_dropout.report.uci import METRICS, OURS, Comparison, Entry, Metric

MARKS = {"better": "▲ better", "equal": "= equal", "worse": "▼ worse"}


def uci_lead(study: Study) -> str:
    """One sentence about the study."""
    found = uci.entries(study)
    done = [entry for entry in found if entry.ours("log_likelihood") is not None]
    if not done:
        return "No set has results yet."
    goals = [
        f"{_reached(found, metric)} of {count(_compared(found, metric), 'set')} in {metric.title.split(' ', 1)[1]}"
        for metric in METRICS
    ]
    return (
        f"{count(len(done), 'set')} of {len(paper.UCI)} with results. "
        f"At least as good as the better one of the paper's dropout columns on {' and '.join(goals)}."
    )


def uci_sections(study: Study) -> list[tuple[Callable[[], Section], str, str]]:
    """Builders of the sections, with key and heading for one that fails."""
    found = uci.entries(study)
    return [
        (partial(_results, found), "results", "Results"),
        *((partial(_table, found, metric), metric.key, metric.title) for metric in METRICS),
        (partial(_ranks, found), "ranks", "Average ranks"),
        (partial(_probabilities, found), "probabilities", "Learned dropout probabilities"),
    ]


def _results(found: list[Entry]) -> Section:
    made = []
    for metric in METRICS:
        total = _compared(found, metric)
        if total:
            versus = " and ".join(metric.baselines)
            meaning = f"Sets at least as good as the better one of {versus}, at two decimals."
            made.append(Card(metric.title, f"{_reached(found, metric)} of {total}", "sets", meaning))
    for metric in METRICS:
        averages = uci.ranks(found, metric)
        if averages:
            others = ", ".join(f"{name} {number(averages[name].mean)}" for name in metric.columns)
            title = f"Average rank, {metric.title.split(' ', 1)[1]}"
            made.append(Card(title, number(averages[OURS].mean), "of 4", f"1 is best. {others}."))
    settled = [
        (replicas.num_converged, len(replicas.rows)) for entry in found if (replicas := _learned(entry)) is not None
    ]
    if settled:
        whole = sum(some == every for some, every in settled)
        done, total = (sum(column) for column in zip(*settled, strict=True))
        meaning = f"Sets whose p converged on every split ({done} of {total} models)."
        made.append(Card("p converged", f"{whole} of {len(settled)}", "sets", meaning))
    if not made:
        return Section("results", "Results", paragraph("No set has results yet. The paper's numbers are below."))
    rows = {
        entry.name: {metric.title: compared.se for metric in METRICS if (compared := entry.compare(metric)) is not None}
        for entry in found
    }
    drawn = plots.study.differences({name: row for name, row in rows.items() if row})
    caption = (
        "Ours against the better one of the paper's dropout columns, per set. Within about 2 standard errors the two "
        "cannot be told apart; bars end at 10."
    )
    return Section("results", "Results", join([cards(made), figure(drawn, caption)]))


def _table(found: list[Entry], metric: Metric) -> Section:
    direction = "Higher" if metric.higher_is_better else "Lower"
    versus = " and ".join(metric.baselines)
    # Ours comes first: on a phone the others are a swipe away.
    against = f"Against the better of {versus}"
    header = ["Set", OURS, against, *metric.columns, "Splits", "p converged", "N", "D"]
    rows = [_row(entry, metric) for entry in found]
    caption = f"Mean ± standard error over splits, in {metric.unit}. Bold: best of the row at two decimals"
    listing = table(header, rows, caption, numeric=(1, 3, 4, 5, 6, 7, 8, 9), words=(2,))
    intro = paragraph(
        f"{direction} is better. {', '.join(metric.columns)} are the paper's ({paper.SOURCE}). Verdicts compare at the "
        "paper's two decimals; differences are in standard errors of the difference, the paper's rounding included, "
        "and positive where ours is better."
    )
    before = [(entry.name, entry.ours("log_likelihood_before_m_step")) for entry in found]
    lines = [f"{name} {plus_minus(summary.mean, summary.se)}" for name, summary in before if summary is not None]
    note = f"Before the final M step (what the paper calls CDropout): {', '.join(lines)}."
    extra = paragraph(note) if lines and metric is uci.LOG_LIKELIHOOD else None
    return Section(metric.key, metric.title, join([intro, listing, extra]))


def _row(entry: Entry, metric: Metric) -> list[object]:
    best = entry.best(metric)
    texts = uci.cells_of(entry, metric)
    mean, *cells = (tag("strong", texts[name]) if name in best else texts[name] for name in (OURS, *metric.columns))
    size = [f"{entry.paper.points:,}", str(entry.paper.features)] if entry.paper is not None else ["–", "–"]
    ours, compared = entry.ours(metric.key), entry.compare(metric)
    if ours is None:
        flagged = entry.state in ("failed", "interrupted")
        state = tag("span", entry.state, class_="flag") if flagged else tag("em", entry.state)
        return [_name(entry), mean, state, *cells, "–", "–", *size]
    whole = ours.count >= entry.splits
    splits: object = str(ours.count) if whole else tag("span", f"{ours.count} of {entry.splits}", class_="flag")
    verdict: list[object] = [_verdict(compared) if compared is not None else "–"]
    if entry.state not in ("finished", "state unknown"):
        verdict.append(tag("span", entry.state, class_="flag"))
    return [_name(entry), mean, join(verdict, ", "), *cells, splits, _convergence(entry), *size]


def _verdict(compared: Comparison) -> Html:
    text = f"{MARKS[compared.verdict]}, {compared.se:+.1f} SE".replace("-", "−")
    return tag("strong", text) if compared.verdict == "better" else tag("span", text)


def _name(entry: Entry) -> object:
    linked = entry.member is not None and entry.member.link
    return tag("a", entry.name, href=entry.member.link) if entry.member is not None and linked else entry.name


def _convergence(entry: Entry) -> object:
    replicas = _learned(entry)
    if replicas is None:
        return "no learned p"
    text = f"{replicas.num_converged} of {len(replicas.rows)}"
    judged = any(row.converged is not None for row in replicas.rows)
    return "not judged" if not judged else tag("span", text, class_="flag") if replicas.num_moving else text


def _ranks(found: list[Entry]) -> Section:
    rows: list[list[object]] = []
    for metric in METRICS:
        averages = uci.ranks(found, metric)
        if averages:
            shown = {name: plus_minus(averages[name].mean, averages[name].se) for name in (*metric.columns, OURS)}
            least = min(summary.mean for summary in averages.values())
            cells = [tag("strong", text) if averages[name].mean == least else text for name, text in shown.items()]
            rows.append([metric.title, *cells, str(averages[OURS].count)])
    if not rows:
        return Section("ranks", "Average ranks", paragraph("Ranks need the results of at least one set."))
    header = ["Metric", "Dropout", "CDropoutM", "DGP", OURS, "Sets"]
    intro = paragraph(
        "Mean ± standard error of the rank over the sets that have results; 1 is best of 4. Equal means at two "
        "decimals share their places. CDropout and CDropoutM have the same RMSE."
    )
    return Section("ranks", "Average ranks", join([intro, table(header, rows, "Average ranks", numeric=range(1, 6))]))


def _probabilities(found: list[Entry]) -> Section:
    learned = {entry.name: replicas for entry in found if (replicas := _learned(entry)) is not None}
    heading = "Learned dropout probabilities"
    if not learned:
        return Section("probabilities", heading, paragraph("No set has learned probabilities yet."))
    layers = list(dict.fromkeys(layer.name for replicas in learned.values() for layer in replicas.layers))
    strips = {
        name: {layer.name: [row.p.get(layer.name) for row in replicas.rows] for layer in replicas.layers}
        for name, replicas in learned.items()
    }
    drawn = plots.replicas.strip(strips, "Converged p per set, layer and split")
    rows = []
    for entry in found:
        if (replicas := learned.get(entry.name)) is not None:
            means = [replicas.probability(layer) for layer in layers]
            rows.append(
                [
                    entry.name,
                    *(_reach(mean) for mean in means),
                    _convergence(entry),
                ]
            )
    header = ["Set", *(f"p {name}" for name in short_names(layers)), "Converged splits"]
    listing = table(header, rows, "Mean p over splits (lowest–highest)", numeric=range(1, len(header)))
    intro = paragraph(
        "Every split learns its own p. In the paper, p of the input layer goes to 0 on all sets. A p that was still "
        "moving at the end is not a result."
    )
    caption = "One dot per split; black lines are means over splits. Layers from input (top) to output within each set."
    return Section("probabilities", heading, join([intro, figure(drawn, caption), listing]))


def _reach(summary: Summary | None) -> str:
    if summary is None:
        return "–"
    mean, low, high = (probability(value) for value in (summary.mean, summary.low, summary.high))
    return mean if low == high else f"{mean} ({low}–{high})"


def _learned(entry: Entry) -> Replicas | None:
    replicas = entry.member.replicas if entry.member is not None else None
    # Before the end of a run its p are on their way.
    ended = entry.ours("log_likelihood") is not None
    return replicas if replicas is not None and replicas.learned and ended else None


def _reached(found: list[Entry], metric: Metric) -> int:
    verdicts = [compared.verdict for entry in found if (compared := entry.compare(metric)) is not None]
    return sum(verdict != "worse" for verdict in verdicts)


def _compared(found: list[Entry], metric: Metric) -> int:
    return sum(entry.compare(metric) is not None for entry in found)
