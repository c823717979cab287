"""A study of runs, ready to be compared: groups of repeats, their scores, and the probabilities that they learned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from concrete_dropout.plots import theme
from concrete_dropout.report.factors import Factor, factors_of, number_of
from concrete_dropout.report.layers import Layer, layers_of
from concrete_dropout.report.record import NO_MC, STAGES, Record
from concrete_dropout.report.statistics import Summary, summarise
from concrete_dropout.report.study_record import Member, Study
from concrete_dropout.report.text import MISSING, plain, plus_minus


@dataclass(frozen=True)
class Metric:
    """A score that runs are compared by.

    Args:
        key: its name in metrics.csv, without the stage.
        title: in words.
        unit: beside the title; "%" for a share that is shown in per cent.
        higher_is_better: None where neither is.
        stage: where that is not the data that were scored.
    """

    key: str
    title: str
    unit: str = ""
    higher_is_better: bool | None = False
    stage: str = ""

    @property
    def column(self) -> str:
        """Its name in tables for other programs."""
        return f"{self.key}_percent" if self.unit == "%" else self.key

    @property
    def header(self) -> str:
        """Title and unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def text(self, summary: Summary | None, decimals: int = 2) -> str:
        """Mean ± standard error; a dash for none."""
        if summary is None:
            return MISSING
        # Equal values differ by their rounding, which is no error.
        rounding = summary.se is not None and summary.se < 1e-9 * abs(summary.mean)
        return plus_minus(summary.mean, 0.0 if rounding else summary.se, decimals)


METRICS = (
    Metric("reward", "Reward", "", True),
    Metric("miou", "mIoU", "%", True),
    Metric("accuracy", "Accuracy", "%", True),
    Metric("log_likelihood", "Log-likelihood", "nats", True),
    Metric("rmse", "RMSE", "target units"),
    Metric("calibration_rmse", "Calibration RMSE", "%"),
    Metric("elbo", "ELBO", "nats", None, stage="train"),
    Metric("crps", "CRPS", "target units"),
    Metric("ece", "ECE", "%"),
    Metric("brier", "Brier score"),
    Metric("class_accuracy", "Class accuracy", "%", True),
    Metric("mutual_information", "Mutual information", "nats", None),
    Metric("epistemic_std", "Epistemic std", "target units", None),
)


@dataclass(frozen=True)
class Group:
    """Runs that repeat one experiment.

    Args:
        label: its values of the factors, in words.
        values: key -> value of the factors.
        members: its runs, in whatever state.
    """

    label: str
    values: dict[str, Any]
    members: tuple[Member, ...]

    @cached_property
    def done(self) -> tuple[Member, ...]:
        """The runs whose numbers count: before its end, a run's are on their way."""
        return tuple(m for m in self.members if m.record is not None and m.state in ("finished", ""))

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """Of the runs that count."""
        return tuple(member.record for member in self.done if member.record is not None)

    @cached_property
    def layers(self) -> tuple[list[Layer], ...]:
        """The dropout layers of the runs that count."""
        return tuple(_layers(member) for member in self.done)

    @property
    def learned(self) -> bool:
        """Whether p is learned."""
        return any(layer.learned and layer.final is not None for layers in self.layers for layer in layers)

    @property
    def samples(self) -> bool:
        """Whether there is dropout to sample from: without it, predictions come from one network."""
        return any(layer.final for layers in self.layers for layer in layers)

    def score(self, stage: str, metric: Metric, suffix: str = "") -> Summary | None:
        """Mean over the repeats."""
        return summarise(self.scores(stage, metric, suffix))

    def scores(self, stage: str, metric: Metric, suffix: str = "") -> list[float | None]:
        """Of every repeat: a run, or each of its replicas where these differ in nothing else."""
        return [value for member in self.done for value in _repeats(member, stage, metric, suffix)]

    def probabilities(self, name: str) -> list[tuple[float, bool | None]]:
        """(p, whether it has converged) of a layer at the end of every repeat that has it."""
        found = (layer for layers in self.layers for layer in layers if layer.name == name)
        return [(layer.final, layer.converged) for layer in found if layer.final is not None]


@dataclass(frozen=True)
class Comparison:
    """All runs of a study in groups.

    Args:
        study: what its folder says.
        factors: keys that vary.
        groups: in the order of the factors' values.
        stage: the data that were scored: "test" where a run has come to that, else "val".
    """

    study: Study
    factors: tuple[Factor, ...]
    groups: tuple[Group, ...]
    stage: str

    @property
    def axis(self) -> Factor | None:
        """The factor that stands on the x axis of figures: of those in numbers, the one with the most values."""
        numeric = [factor for factor in self.factors if factor.is_numeric]
        return max(numeric, key=lambda factor: len(factor.values), default=None)

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """Those that some run has."""
        return tuple(m for m in METRICS if any(group.score(self.stage, m) is not None for group in self.groups))

    @property
    def colours(self) -> list[str]:
        """One for each group: from dark to light along an axis, else as different as can be."""
        ordered = len(self.factors) == 1 and self.axis is not None
        return theme.by_depth(len(self.groups)) if ordered else list(theme.colours(len(self.groups)))

    @property
    def has_no_mc(self) -> bool:
        """Whether predictions without Monte Carlo dropout were scored as well."""
        return any(
            group.score(self.stage, metric, NO_MC) is not None for group in self.groups for metric in self.metrics
        )

    @property
    def layer_names(self) -> list[str]:
        """Names of the layers with a learned p, from the input to the output."""
        return names_of(self.groups)

    def series(self) -> dict[str, list[tuple[float, Group]]]:
        """The groups along the axis, one line for each combination of the other factors; "" where there is no other."""
        axis = self.axis
        found: dict[str, list[tuple[float, Group]]] = {}
        for group in self.groups if axis is not None else ():
            place = number_of(group.values.get(axis.key)) if axis is not None else None
            if place is not None:
                others = [f for f in self.factors if f is not axis and f.key in group.values]
                name = ", ".join(_said(factor, group.values, len(others) > 1) for factor in others)
                found.setdefault(name, []).append((place, group))
        return {name: sorted(points, key=lambda point: point[0]) for name, points in found.items()}


def compare(study: Study) -> Comparison:
    """Sort the runs of a study."""
    factors = factors_of(member.values for member in study.members)
    found: dict[tuple[int, ...], list[Member]] = {}
    for member in study.members:
        found.setdefault(_place(member, factors), []).append(member)
    groups = tuple(_group(members, factors) for _, members in sorted(found.items()))
    scored = [member.record for group in groups for member in group.done if member.record is not None]
    tested = any(record.metric("test", name) is not None for record in scored for name in ("nll", "log_likelihood"))
    tested = tested or any(member.replicas is not None and member.replicas.stage == "test" for member in study.members)
    return Comparison(study, factors, groups, STAGES[0] if tested else STAGES[1])


def score(member: Member, stage: str, metric: Metric, suffix: str = "") -> float | None:
    """A run's score, in per cent where the metric is; of replicas, their mean."""
    stage, name = metric.stage or stage, f"{metric.key}{suffix}"
    found = _scalar(member, stage, name)
    if found is None and metric.key == "log_likelihood" and (nll := _scalar(member, stage, f"nll{suffix}")) is not None:
        found = -nll
    return 100 * found if found is not None and metric.unit == "%" else found


def _repeats(member: Member, stage: str, metric: Metric, suffix: str) -> list[float | None]:
    if member.replicas is None or member.replicas.group_keys:
        return [score(member, stage, metric, suffix)]
    singles = (replace(member, replicas=replace(member.replicas, rows=(row,))) for row in member.replicas.rows)
    return [score(single, stage, metric, suffix) for single in singles]


def moving(members: Iterable[Member]) -> list[Member]:
    """The runs of which some p had not converged: these p are no results."""
    return [member for member in members if any(layer.converged is False for layer in _layers(member))]


def names_of(groups: Iterable[Group]) -> list[str]:
    """Names of the layers with a learned p, from the input to the output."""
    layers = (layer for group in groups for found in group.layers for layer in found)
    return list(dict.fromkeys(layer.name for layer in layers if layer.learned and layer.final is not None))


def _scalar(member: Member, stage: str, name: str) -> float | None:
    if member.record is None:
        return None
    if member.replicas is not None:
        summary = summarise(row.scalars.get(f"{stage}/{name}") for row in member.replicas.rows)
        return summary.mean if summary is not None else None
    return member.record.metric(stage, name)


def _layers(member: Member) -> list[Layer]:
    if member.replicas is not None:
        return list(member.replicas.layers)
    return layers_of(member.record) if member.record is not None else []


def _place(member: Member, factors: tuple[Factor, ...]) -> tuple[int, ...]:
    """Where a run's values stand among those of the factors; -1 where it has none."""
    texts = [[plain(value) for value in factor.values] for factor in factors]
    own = [plain(member.values[factor.key]) if factor.key in member.values else None for factor in factors]
    return tuple(known.index(value) if value in known else -1 for known, value in zip(texts, own, strict=True))


def _group(members: list[Member], factors: tuple[Factor, ...]) -> Group:
    values = {f.key: members[0].values[f.key] for f in factors if f.key in members[0].values}
    said = [_said(factor, values, len(values) > 1) for factor in factors if factor.key in values]
    # Without factors all runs repeat one experiment.
    return Group(", ".join(said) or "all runs", values, tuple(members))


def _said(factor: Factor, values: dict[str, Any], named: bool) -> str:
    word = factor.word(values[factor.key])
    return f"{factor.short} = {word}" if named and factor.key != "dropout.kind" else word
