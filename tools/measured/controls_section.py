"""What is to be credited to learned p on UCI sets: Concrete less its controls, on the same splits."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from concrete_dropout.report.statistics import summarise
from concrete_dropout.report.text import MISSING
from concrete_dropout.report.uci import METRICS, Metric

from .experiments import CHOSEN, TRAIN_SAMPLES
from .parts import KIND_WORDS, NOT_RUN
from .tables import Group, code, differences, dropout_words, score_words, span, table

CLEAR = 2.0  # standard errors
NAMES = {"log_likelihood": "log-likelihood", "rmse": "RMSE"}
CONTROLS = ("none", "fixed")
ALIKE = (*TRAIN_SAMPLES, *CHOSEN, "steps")  # what the table of all sets may have had otherwise when a control was run


@dataclass(frozen=True)
class Pair:
    """A Concrete group and a control with the same set and settings."""

    learned: Group
    control: Group

    @property
    def is_fair(self) -> bool:
        """Whether both had the same of what the command of all sets has for this one."""
        own, other = ({tuple(row.get(c, "") for c in ALIKE) for row in g.rows} for g in (self.learned, self.control))
        return own == other

    def gaps(self, metric: Metric) -> list[float]:
        """Concrete less the control, one for each split."""
        return differences(self.learned, self.control, metric.key)

    def by_mean(self, metric: Metric) -> int:
        """1 where Concrete is better by more than two standard errors, -1 where worse, 0 where nothing can be said."""
        found = summarise(self.gaps(metric))
        if found is None or found.se is None:
            return 0
        return _sign(metric, found.mean, CLEAR * found.se)

    def by_splits(self, metric: Metric) -> int:
        """1 where Concrete is better on most splits, -1 where worse on most."""
        signs = self.signs(metric)
        return (signs.count(1) > len(signs) / 2) - (signs.count(-1) > len(signs) / 2)

    def signs(self, metric: Metric) -> list[int]:
        """1 for every split on which Concrete is better, -1 for every one on which it is worse."""
        return [_sign(metric, gap) for gap in self.gaps(metric)]


def pairs(found: Sequence[Group]) -> list[Pair]:
    """Every Concrete group beside its controls, the sets in their order."""
    learned = [group for group in found if group.kind == "concrete"]
    return [
        Pair(group, control)
        for group in learned
        for control in found
        if control.kind in CONTROLS and all(control.values[key] == group.values[key] for key in ("set", "settings"))
    ]


def without_outdated(found: Sequence[Group]) -> list[Group]:
    """All groups but controls with a fixed p that a set no longer has, where there is one with its present settings."""
    everything = pairs(found)
    renewed = {(id(pair.learned), pair.control.kind) for pair in everything if pair.is_fair}
    outdated = {
        id(pair.control) for pair in everything if not pair.is_fair and (id(pair.learned), pair.control.kind) in renewed
    }
    return [group for group in found if id(group) not in outdated]


def control_lines(everything: list[Pair]) -> list[str]:
    """The part of the section."""
    if not everything:
        return []
    found = [pair for pair in everything if pair.is_fair]
    others = [f"{p.learned.values['set']} ({dropout_words(p.control.values)})" for p in everything if not p.is_fair]
    left = [f"Left out, as the control had other settings of the set: {', '.join(others)}.", ""] if others else []
    text = (
        "Differences of the same split and seed, Concrete less the control with the same settings: more than 0 speaks "
        "for Concrete in log-likelihood, less than 0 in RMSE. One bad split spoils a mean and its standard error, and "
        "leaves the median and the number of splits with the better score as they are."
    )
    header = ["set", "settings", "against"]
    header += [words for name in NAMES.values() for words in (name, f"{name}, median", f"{name} better on")]
    body = [
        [
            pair.learned.values["set"],
            code(pair.learned.values["settings"]),
            dropout_words(pair.control.values),
            *(cell for metric in METRICS for cell in _cells(pair, metric)),
        ]
        for pair in found
    ]
    shown = [*table(header, body), *_verdicts(found)] if found else []
    return ["### Concrete less its controls, on the same splits", "", text, "", *shown, *left]


def control_short(everything: list[Pair]) -> tuple[tuple[str, ...], ...]:
    """Lines of the short version, one for each score; none where there is nothing to compare."""
    found = [pair for pair in everything if pair.is_fair]
    if not found:
        return ()
    splits = span(len(pair.gaps(METRICS[0])) for pair in found)
    lines = []
    for metric in METRICS:
        what = f"{NAMES[metric.key]}: sets where Concrete differs from this control by two standard errors"
        counted = {kind: _by_set(found, kind) for kind in CONTROLS}
        cells = [
            f"better on {_counts(own, _mean(metric), ', worse on ')} of {len(own)}" if own else NOT_RUN
            for own in counted.values()
        ]
        lines.append((what, MISSING, MISSING, *cells, splits, ""))
    return tuple(lines)


def _cells(pair: Pair, metric: Metric) -> list[str]:
    gaps = pair.gaps(metric)
    middle = summarise([statistics.median(gaps)]) if gaps else None
    return [
        score_words(summarise(gaps), 3),
        score_words(middle, 3),
        f"{pair.signs(metric).count(1)} of {len(gaps)}" if gaps else MISSING,
    ]


def _verdicts(found: list[Pair]) -> list[str]:
    """Which is better, by kind of control; of several settings of a set the first counts."""
    lines = []
    for kind in CONTROLS:
        sets = _by_set(found, kind)
        told = [
            f"the mean {NAMES[m.key]} is better by two standard errors on {_counts(sets, _mean(m), ', worse on ')} of "
            f"{len(sets)} sets; most splits are better on {_counts(sets, _splits(m), ', worse on ')}"
            for m in METRICS
        ]
        lines += [f"- Against {KIND_WORDS[kind]}: {'. '.join(told).replace('. the', '. The')}."] if sets else []
    return [*lines, ""]


def _by_set(found: list[Pair], kind: str) -> list[list[Pair]]:
    """Pairs of each set with its first settings; several where there are several fixed p."""
    sets: dict[str, list[Pair]] = {}
    for pair in found:
        if pair.control.kind == kind:
            own = sets.setdefault(pair.learned.values["set"], [])
            if not own or own[0].learned.values["settings"] == pair.learned.values["settings"]:
                own.append(pair)
    return list(sets.values())


def _counts(sets: list[list[Pair]], verdict: Callable[[Pair], int], between: str) -> str:
    """On how many sets Concrete is better than all of the controls, and on how many worse than one of them."""
    found = [min(map(verdict, own)) for own in sets]
    return f"{found.count(1)}{between}{found.count(-1)}"


def _mean(metric: Metric) -> Callable[[Pair], int]:
    return lambda pair: pair.by_mean(metric)


def _splits(metric: Metric) -> Callable[[Pair], int]:
    return lambda pair: pair.by_splits(metric)


def _sign(metric: Metric, gap: float, margin: float = 0.0) -> int:
    """1 for a gap in favour of Concrete, -1 for one against it, 0 within the margin."""
    gain = gap if metric.higher_is_better else -gap
    return (gain > margin) - (gain < -margin)
