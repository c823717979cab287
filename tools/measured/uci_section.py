"""The section on UCI sets: both tables of appendix D, our means beside them, and average ranks."""

from __future__ import annotations

from dataclasses import replace

from concrete_dropout.report.paper import PaperRow, Value
from concrete_dropout.report.record import Record, finite
from concrete_dropout.report.replica_record import Replica, Replicas
from concrete_dropout.report.statistics import summarise
from concrete_dropout.report.study_record import Member
from concrete_dropout.report.text import MISSING
from concrete_dropout.report.uci import LOG_LIKELIHOOD, METRICS, OURS, Entry, Metric, cells_of, ranks

from .cells import Row
from .commands import words
from .controls_section import NAMES, control_lines, control_short, pairs, without_outdated
from .experiments import Experiment
from .parts import NOT_RUN, Part, converged, foot, head, repeats
from .published import Published
from .tables import Group, code, converged_words, depth_words, dropout_words, groups, score_whole, score_words, table
from .uci_figure import learned_figure

RANK = "average rank"
WITHIN = 1.0  # standard errors of the difference: as good as the paper, as far as these splits can tell
SETTINGS = {
    "length_scale": "l",
    "noise": "noise",
    "min_noise": "smallest noise",
    "kl_weight": "KL weight",
    "train_samples": "masks per step",
}
TYPED = {"data.batch_size": "batch size", "optim.lr": "learning rate", "optim.hold": "hold"}  # where it is not uci's


def uci_part(experiment: Experiment, rows: list[Row], published: Published) -> Part:
    """The section."""
    found = without_outdated(groups(experiment, rows))
    lines = head(experiment, rows)
    if not rows:
        lines += [f"**{NOT_RUN.capitalize()}.** The paper's numbers:", ""]
    else:
        lines += [
            "Mean ± standard error over the published splits, each a mean over its seeds; bold is the best of a row "
            "among the paper's and our Concrete at the paper's decimals. The verdict is ours against the better of the "
            "paper's two dropout columns, with the difference in standard errors.",
            "",
        ]
    for metric in METRICS:
        better = "higher" if metric.higher_is_better else "lower"
        lines += [f"### {metric.title} ({metric.unit}, {better} is better)", ""]
        lines += _table(metric, found, published)
    figures = learned_figure(f"{experiment.name}_p.svg", found, sets_of(published))
    if rows:
        shown = [line for name in figures for line in (f"![p of every layer by set](results/{name})", "")]
        lines += [*control_lines(pairs(found)), "### Learned p", "", *shown, *_learned(found), *foot(rows)]
    first, *more = (_short(metric, found, published) for metric in METRICS)
    return Part(lines, first, figures, (*more, *control_short(pairs(found))))


def sets_of(published: Published) -> list[str]:
    """The paper's sets, in its order."""
    return list(dict.fromkeys(number.setting for number in published.of("uci") if number.setting != RANK))


def entries(found: list[Group], published: Published) -> list[Entry]:
    """The paper's sets in its order with our Concrete runs, then what else there is; a line for each setting."""
    made = []
    learned = [group for group in found if group.kind == "concrete"]
    names = sets_of(published)
    for name in dict.fromkeys([*names, *(g.values["set"] for g in learned)]):
        row = _paper_row(name, published) if name in names else None
        own = [group for group in learned if group.values["set"] == name]
        made += [Entry(name, row, _member(group)) for group in own] or [Entry(name, row, None)]
    return made


def with_controls_alone(learned: list[Entry], found: list[Group]) -> list[Entry]:
    """Below the entries of a set one for each setting that only its controls have, which nothing is compared with."""
    known = {(entry.name, _settings(entry)) for entry in learned if entry.member is not None}
    made: list[Entry] = []
    for name in dict.fromkeys(entry.name for entry in learned):
        own = [entry for entry in learned if entry.name == name]
        rest = dict.fromkeys(g.values["settings"] for g in found if g.values["set"] == name)
        alone = [settings for settings in rest if settings and (name, settings) not in known]
        made += [*own, *(Entry(name, own[0].paper, _without_runs(name, settings)) for settings in alone)]
    return made


def firsts(found: list[Entry]) -> list[Entry]:
    """One for each set: of several settings the first counts."""
    first = {entry.name: entry for entry in reversed(found)}
    return [entry for entry in found if entry is first[entry.name]]


def _table(metric: Metric, found: list[Group], published: Published) -> list[str]:
    header = ["set", "settings", *(f"{name} (paper)" for name in metric.columns), "ours, Concrete"]
    header += ["ours, p = 0", "ours, fixed p", "splits", "Concrete against the paper", "p converged"]
    all_entries = entries(found, published)
    lines = [_line(entry, metric, found) for entry in with_controls_alone(all_entries, found)]
    averages = ranks(firsts(all_entries), metric)
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
    texts = {**cells_of(entry, metric), OURS: score_words(ours)}
    cells = [f"**{text}**" if name in best else text for name, text in texts.items()]
    control = {
        kind: "; ".join(
            f"{dropout_words(g.values)}: {score_words(g.score(metric.key))}" for g in own if g.kind == kind
        ).replace("none (p = 0): ", "")
        for kind in ("none", "fixed")
    }
    verdict = f"{compared.verdict} ({compared.se:+.1f} SE)".replace("-", "−") if compared is not None else NOT_RUN
    verdict = MISSING if compared is None and settings else verdict
    learned = [g for g in own if g.kind == "concrete"]
    count = f"{ours.count} of {entry.splits}{learned[0].seeds}" if ours is not None else ""
    told = converged_words(row for g in learned for row in g.rows)
    return [entry.name, code(settings), *cells, control["none"], control["fixed"], count, verdict, told]


def _learned(found: list[Group]) -> list[str]:
    """Mean p of every set, and the settings that the command of the table has for it."""
    lines = [
        [
            g.values["set"],
            code(g.values["settings"]),
            depth_words(g),
            converged_words(g.rows),
            g.size,
            *(", ".join(dict.fromkeys(row.get(column, "") for row in g.rows)) for column in SETTINGS),
            *(", ".join(dict.fromkeys(_typed(row, key) for row in g.rows)) for key in TYPED),
            score_whole(g.score("steps")),
        ]
        for g in found
        if g.kind == "concrete"
    ]
    header = ["set", "settings", "mean p by depth", "p converged", "splits", *SETTINGS.values(), *TYPED.values()]
    note = f"A dash below {', '.join(TYPED.values())} is what `experiment=uci` has."
    return [*table([*header, "steps"], lines), note, ""]


def _typed(row: Row, key: str) -> str:
    """What a run's command sets; a dash where the experiment's own value stands."""
    return next((word.partition("=")[2] for word in words(row["command"]) if word.startswith(f"{key}=")), MISSING)


def _short(metric: Metric, found: list[Group], published: Published) -> tuple[str, ...]:
    """On how many sets ours is no worse than the paper's better dropout."""
    what = f"{NAMES[metric.key]}: sets no worse than the better of the paper's two dropout columns"
    if not found:
        return (what, MISSING, NOT_RUN, "", "", "", "")
    cells = []
    for kind in ("concrete", "none", "fixed"):
        as_ours = [
            replace(group, values={**group.values, "dropout": "concrete"}) for group in found if group.kind == kind
        ]
        own = firsts(entries(as_ours, published))
        cells.append(_no_worse(own, metric, as_ours if kind == "concrete" else []) or NOT_RUN)
    learned = list({g.values["set"]: g for g in reversed(found) if g.kind == "concrete"}.values())
    return (what, MISSING, *cells, repeats(learned or found), converged(learned))


def _no_worse(own: list[Entry], metric: Metric, learned: list[Group]) -> str:
    """On how many sets, on how many within an error, and on how many of these p has converged, where it is learned."""
    compared = {entry.name: found for entry in own if (found := entry.compare(metric)) is not None}
    if not compared:
        return ""
    good = [name for name, found in compared.items() if found.verdict != "worse"]
    near = [name for name, found in compared.items() if name in good or found.se >= -WITHIN]
    first = {group.values["set"]: group for group in reversed(learned)}
    settled = f", p converged on {sum(_has_settled(first[name]) for name in near)} of these" if learned else ""
    return f"{len(good)} of {len(compared)}; {len(near)} within one SE{settled}"


def _has_settled(group: Group) -> bool:
    """Whether p has converged in most runs that tell."""
    told = [row["converged"] == "true" for row in group.rows if row["converged"]]
    return sum(told) > len(told) / 2


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
            {"data.split": rows[0]["split"]},
            {f"test/{m.key}": mean.mean for m in METRICS if (mean := summarise(finite(r[m.key]) for r in rows))},
        )
        for index, rows in enumerate(group.repeats)
    )
    record = Record(name=group.values["settings"])
    return Member(
        group.values["set"], "finished", record=record, replicas=Replicas(record, (), replicas, (), {}, len(replicas))
    )


def _without_runs(name: str, settings: str) -> Member:
    return Member(name, "finished", record=Record(name=settings))


def _settings(entry: Entry) -> str:
    return entry.member.record.name if entry.member is not None and entry.member.record is not None else ""
