"""The section on the likelihood in training: the log of a mean over several masks, against a single mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from concrete_dropout.report.record import finite
from concrete_dropout.report.statistics import Summary, summarise
from concrete_dropout.report.text import MISSING

from .cells import Row
from .collect import FINISHED
from .experiments import REPEATS, TRAIN_SAMPLES, Experiment
from .parts import NOT_RUN, Part, to_be_made
from .plan import commands_of
from .store import in_order
from .tables import (
    Group,
    code,
    converged_words,
    depth_words,
    differences,
    dropout_words,
    provenance,
    score_words,
    span,
    table,
    title,
)

TITLE = "Beyond the paper: several masks in training"
NAME = "train_samples"
KEY = TRAIN_SAMPLES[NAME]
SCORES = ("log_likelihood", "rmse", "accuracy", "aleatoric_std", "epistemic_std")
WHAT = "settings where the test log-likelihood with the most masks per step is better than with the fewest, worse"
CLEAR = 2.0  # standard errors
PAIRS = 2  # fewer have no standard error, and tell nothing


@dataclass(frozen=True)
class Comparison:
    """Runs that differ in the number of masks alone.

    Args:
        values: what they share.
        groups: number of masks -> its repeats, the fewest first.
    """

    values: dict[str, str]
    groups: dict[str, Group]

    def gain(self, masks: str) -> Summary | None:
        """Log-likelihood with so many masks less that with the fewest, of pairs with the same seed and split."""
        first = next(iter(self.groups.values()))
        return summarise(differences(self.groups[masks], first, "log_likelihood"))

    @property
    def verdict(self) -> int | None:
        """1 where the most masks are clearly better than the fewest, -1 where worse; None with too few pairs."""
        found = self.gain(list(self.groups)[-1])
        if found is None or found.count < PAIRS:
            return None
        error = CLEAR * (found.se or 0.0)
        return (found.mean > error) - (found.mean < -error)


def has(experiment: Experiment) -> bool:
    """Whether rows of an experiment know the number of masks."""
    return NAME in experiment.facts


def train_samples_part(rows: Sequence[tuple[Experiment, list[Row]]]) -> Part:
    """The section, from rows of experiments that differ in the number of masks alone."""
    found = [(experiment, made) for experiment, own in rows if (made := comparisons(experiment, own))]
    used = [row for _, made in found for one in made for group in one.groups.values() for row in group.rows]
    lines = [
        "With one mask per step the aleatoric part takes in what is epistemic; the likelihood of a mean over several "
        "masks is a tighter bound. Runs with other numbers of masks stand beside those of the experiments. "
        + to_be_made(commands_of(NAME), NAME, used, has_file=False),
        "",
    ]
    if not found:
        return Part([*lines, f"**{NOT_RUN.capitalize()}.**", ""], beyond=(WHAT, NOT_RUN, "", ""))
    lines[0] += (
        " The gain is that of log-likelihood over the fewest masks, of pairs with the same seed and split. A step with "
        "several masks is as much work as that many steps."
    )
    for experiment, made in found:
        lines += [f"### {TITLE}, {experiment.name}", "", *_table(experiment, made)]
    return Part([*lines, *provenance(used)], beyond=_short([one for _, made in found for one in made], used))


def comparisons(experiment: Experiment, rows: list[Row]) -> list[Comparison]:
    """Settings that were run with several numbers of masks."""
    columns = [column for column in experiment.keys if column not in REPEATS]
    found: dict[tuple[str, ...], dict[str, list[Row]]] = {}
    for row in _newest(rows, columns):
        masks = row.get(NAME) or _typed(row)
        # Without dropout there are no masks to take several of.
        if masks and row["state"] == FINISHED and row["dropout"] != "none":
            found.setdefault((_rest(row), *(row[c] for c in columns)), {}).setdefault(masks, []).append(row)
    made = []
    for key in sorted(found, key=lambda key: [in_order(v, c) for v, c in zip(key, ("", *columns), strict=True)]):
        if len(found[key]) > 1:
            values = dict(zip(("settings", *columns), key, strict=True))
            ordered = sorted(found[key], key=in_order)
            made.append(Comparison(values, {masks: Group(values, tuple(found[key][masks])) for masks in ordered}))
    return made


def _table(experiment: Experiment, found: list[Comparison]) -> list[str]:
    header = [*map(title, experiment.settings), "dropout", "settings", "masks per step", *map(title, SCORES)]
    header += ["gain", f"{experiment.repeat}s", "learned p by depth", "p converged"]
    body = []
    for one in found:
        for masks, group in one.groups.items():
            is_first = group is next(iter(one.groups.values()))
            body.append(
                [
                    *(one.values[column] for column in experiment.settings),
                    dropout_words(one.values),
                    code(one.values["settings"]),
                    masks,
                    *(score_words(group.score(name), 3 if name == "log_likelihood" else 2) for name in SCORES),
                    score_words(one.gain(masks), 3) if not is_first else MISSING,
                    group.size,
                    depth_words(group),
                    converged_words(group.rows),
                ]
            )
    return table(header, body)


def _short(found: list[Comparison], used: list[Row]) -> tuple[str, ...]:
    """Only differences of two standard errors count, and only where there is such an error."""
    verdicts = [one.verdict for one in found]
    told = [verdict for verdict in verdicts if verdict is not None]
    texts = [f"{told.count(1)}, {told.count(-1)} of {len(told)}"] if told else []
    texts += [f"too few seeds to tell: {verdicts.count(None)}"] if None in verdicts else []
    repeats = span(len(group.repeats) for one in found for group in one.groups.values())
    return (WHAT, "; ".join(texts), repeats, converged_words(used))


def _newest(rows: list[Row], columns: list[str]) -> list[Row]:
    """The default number of masks may have been typed as well: of two such runs of a seed the newer counts."""
    found: dict[tuple[str, ...], Row] = {}
    repeats = [column for column in REPEATS if column in rows[0]] if rows else []
    for row in sorted(rows, key=lambda row: row["started"]):
        masks = row.get(NAME) or _typed(row)
        key = (_rest(row), masks, row["state"], *(row[column] for column in (*columns, *repeats)))
        found[key] = row
    return list(found.values())


def _rest(row: Row) -> str:
    """Settings but for the number of masks."""
    return " ".join(word for word in row["settings"].split() if not word.startswith(f"{KEY}="))


def _typed(row: Row) -> str:
    """The number that a setting names; "" in rows of old files, which know no other."""
    word = next((word for word in row["settings"].split() if word.startswith(f"{KEY}=")), "")
    number = finite(word.partition("=")[2])
    return f"{number:.0f}" if number is not None else ""
