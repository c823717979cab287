"""The section on UCI sets: both tables of appendix D, our means beside them, and average ranks."""

from __future__ import annotations

from dataclasses import replace

from concrete_dropout.report.paper import PaperRow, Value
from concrete_dropout.report.record import Record, finite
from concrete_dropout.report.replica_record import Replica, Replicas
from concrete_dropout.report.study_record import Member
from concrete_dropout.report.text import MISSING
from concrete_dropout.report.uci import LOG_LIKELIHOOD, METRICS, OURS, Entry, Metric, cells_of, ranks

from .collect import Row
from .experiments import Experiment
from .parts import NOT_RUN, Part, converged, foot, head, repeats
from .published import Published
from .tables import Group, code, converged_words, dropout_words, groups, learned_words, score_whole, score_words, table
from .uci_figure import learned_figure

RANK = "average rank"
SETTINGS = {"length_scale": "l", "noise": "noise", "kl_weight": "KL weight", "train_samples": "masks per step"}


def uci_part(experiment: Experiment, rows: list[Row], published: Published) -> Part:
    """The section."""
    found = groups(experiment, rows)
    lines = head(experiment, rows)
    if not rows:
        lines += [f"**{NOT_RUN.capitalize()}.** The paper's numbers:", ""]
    else:
        lines += [
            "Mean ± standard error over the published splits; bold is the best of a row among the paper's and our "
            "Concrete at the paper's decimals. The verdict is ours against the better of the paper's two dropout "
            "columns, with the difference in standard errors.",
            "",
        ]
    for metric in METRICS:
        better = "higher" if metric.higher_is_better else "lower"
        lines += [f"### {metric.title} ({metric.unit}, {better} is better)", ""]
        lines += _table(metric, found, published)
    figures = learned_figure(found, sets_of(published))
    if rows:
        shown = [line for name in figures for line in (f"![p of every layer by set](results/{name})", "")]
        lines += ["### Learned p", "", *shown, *_learned(found), *foot(rows)]
    return Part(lines, _short(found, published), figures)


def sets_of(published: Published) -> list[str]:
    """The paper's sets, in its order."""
    return list(dict.fromkeys(number.setting for number in published.of("uci") if number.setting != RANK))


def entries(found: list[Group], published: Published) -> list[Entry]:
    """The paper's sets in its order with our Concrete runs, then what else there is; a line for each setting."""
    made = []
    learned = [group for group in found if group.kind == "concrete"]
    names = sets_of(published)
    for name in [*names, *(g.values["set"] for g in learned if g.values["set"] not in names)]:
        row = _paper_row(name, published) if name in names else None
        own = [group for group in learned if group.values["set"] == name]
        made += [Entry(name, row, _member(group)) for group in own] or [Entry(name, row, None)]
    return made


def _table(metric: Metric, found: list[Group], published: Published) -> list[str]:
    header = ["set", "settings", *(f"{name} (paper)" for name in metric.columns), "ours, Concrete"]
    header += ["ours, p = 0", "ours, fixed p", "splits", "Concrete against the paper", "p converged"]
    all_entries = entries(found, published)
    lines = [_line(entry, metric, found) for entry in all_entries]
    first = {entry.name: entry for entry in reversed(all_entries)}  # of several settings of a set, the first counts
    averages = ranks([entry for entry in all_entries if entry is first[entry.name]], metric)
    if averages:
        shown = [score_words(averages[name]) for name in (*metric.columns, OURS)]
        lines.append([f"{RANK} of these four", "", *shown, "", "", f"{averages[OURS].count} sets", "", ""])
    printed = [published.find("uci", metric.key, name, RANK) for name in metric.columns]
    texts = [number.text if number is not None else MISSING for number in printed]
    if any(text != MISSING for text in texts):
        lines.append([f"{RANK} as printed, of the paper's own four", "", *texts, *[""] * 6])
    return table(header, lines)


def _line(entry: Entry, metric: Metric, found: list[Group]) -> list[str]:
    settings = _settings(entry)
    own = [g for g in found if g.values["set"] == entry.name and g.values["settings"] == settings]
    best, compared, ours = entry.best(metric), entry.compare(metric), entry.ours(metric.key)
    cells = [f"**{text}**" if name in best else text for name, text in cells_of(entry, metric).items()]
    control = {
        kind: "; ".join(
            f"{dropout_words(g.values)}: {score_words(g.score(metric.key))}" for g in own if g.kind == kind
        ).replace("none (p = 0): ", "")
        for kind in ("none", "fixed")
    }
    verdict = f"{compared.verdict} ({compared.se:+.1f} SE)".replace("-", "−") if compared is not None else NOT_RUN
    count = f"{ours.count} of {entry.splits}" if ours is not None else ""
    told = converged_words(row for g in own if g.kind == "concrete" for row in g.rows)
    return [entry.name, code(settings), *cells, control["none"], control["fixed"], count, verdict, told]


def _learned(found: list[Group]) -> list[str]:
    """Mean p of every set, and the settings that the command of the table has for it."""
    lines = [
        [
            g.values["set"],
            code(g.values["settings"]),
            learned_words(g),
            converged_words(g.rows),
            str(len(g.rows)),
            *(", ".join(dict.fromkeys(row.get(column, "") for row in g.rows)) for column in SETTINGS),
            score_whole(g.score("steps")),
        ]
        for g in found
        if g.kind == "concrete"
    ]
    return table(["set", "settings", "mean p by depth", "p converged", "splits", *SETTINGS.values(), "steps"], lines)


def _short(found: list[Group], published: Published) -> tuple[str, ...]:
    """Log-likelihood and RMSE in one line: on how many sets ours is no worse than the paper's better dropout."""
    what = "sets where the log-likelihood, the RMSE is no worse than the better dropout's of the paper"
    if not found:
        return (what, MISSING, NOT_RUN, "", "", "", "")
    cells = []
    for kind in ("concrete", "none", "fixed"):
        as_ours = [
            replace(group, values={**group.values, "dropout": "concrete"}) for group in found if group.kind == kind
        ]
        verdicts = [[e.compare(metric) for e in entries(as_ours, published)] for metric in METRICS]
        told = [[v.verdict for v in column if v is not None] for column in verdicts]
        texts = [f"{sum(v != 'worse' for v in column)} of {len(column)}" for column in told]
        cells.append(", ".join(texts) if told[0] else NOT_RUN)
    learned = [group for group in found if group.kind == "concrete"]
    return (what, MISSING, *cells, repeats(learned or found), converged(found))


def _paper_row(name: str, published: Published) -> PaperRow:
    def values(metric: str) -> dict[str, Value]:
        numbers = [n for n in published.of("uci") if (n.setting, n.metric) == (name, metric)]
        return {number.method: (float(number.value), float(number.error)) for number in numbers}

    return PaperRow(name, 0, 0, values(LOG_LIKELIHOOD.key), values("rmse"))


def _member(group: Group) -> Member:
    """Our rows as the report's own reader would have them, so that its comparisons and ranks are used."""
    replicas = tuple(
        Replica(
            index,
            {"data.split": row["split"]},
            {f"test/{m.key}": value for m in METRICS if (value := finite(row[m.key])) is not None},
        )
        for index, row in enumerate(group.rows)
    )
    record = Record(name=group.values["settings"])
    return Member(
        group.values["set"], "finished", record=record, replicas=Replicas(record, (), replicas, (), {}, len(replicas))
    )


def _settings(entry: Entry) -> str:
    return entry.member.record.name if entry.member is not None and entry.member.record is not None else ""
