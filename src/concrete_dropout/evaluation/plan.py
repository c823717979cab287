"""Which passes over data an evaluation takes: as few as give all of the combinations that were asked for.

One pass gives all numbers of samples at once. A pass without dropout has neither masks nor repeats. Validation comes
before test data, whose tempered scores need what was fitted there, and clean data before shifted ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from concrete_dropout.data import Part
from concrete_dropout.dropout.streams import Mask
from concrete_dropout.evaluation.subjects import Subject

CLEAN = ""


@dataclass(frozen=True)
class Plan:
    """What was asked for.

    Attributes:
        counts: numbers of samples, rising; 0 for a pass without dropout.
        masks: of Concrete layers.
        parts: of the data.
        repeats: seeds of the masks.
        seed: of masks and shifts; None for each run's own.
        temperature_scaling: fit on validation data, score on the others.
        corruptions: by name.
        severities: of them.
        ood: other data, by name.
        shift_samples: number of samples on shifted data, one of ``counts``.
    """

    counts: tuple[int, ...]
    masks: tuple[Mask, ...] = ("concrete",)
    parts: tuple[Part, ...] = ("test",)
    repeats: int = 1
    seed: int | None = None
    temperature_scaling: bool = False
    corruptions: tuple[str, ...] = ()
    severities: tuple[int, ...] = (1, 2, 3, 4, 5)
    ood: tuple[str, ...] = ()
    shift_samples: int = 0

    @property
    def sampled(self) -> tuple[int, ...]:
        """The numbers of samples above 0."""
        return tuple(count for count in self.counts if count > 0)

    @property
    def shift_part(self) -> Part:
        """The part that is corrupted, and that other data are told from."""
        return "test" if "test" in self.parts else self.parts[0]

    @property
    def has_shifts(self) -> bool:
        """Whether there are shifted data."""
        return bool(self.corruptions or self.ood)


@dataclass(frozen=True)
class Unit:
    """One pass over data, of which a row comes for each number of samples.

    Attributes:
        subject: its name.
        part: of the data.
        mask: None without dropout.
        repeat: number of the seed.
        counts: numbers of samples.
        shift: name of a corruption or of other data; "" for clean data.
        severity: of a corruption; 0 for anything else.
        is_reference: whether it has the masks and the seed that temperatures are fitted and shifts are told with.
    """

    subject: str
    part: Part
    mask: Mask | None
    repeat: int
    counts: tuple[int, ...]
    shift: str = CLEAN
    severity: int = 0
    is_reference: bool = True

    @property
    def key(self) -> str:
        """What it is, but for the numbers of samples."""
        return "|".join(
            map(str, (self.subject, self.part, self.mask or "none", self.repeat, self.shift, self.severity))
        )

    @property
    def label(self) -> str:
        """The same for people."""
        shift = f", {self.shift}{f' {self.severity}' if self.severity else ''}" if self.shift else ""
        passes = f"{self.mask} masks, {max(self.counts)} samples" if self.mask else "no dropout"
        repeat = f", repeat {self.repeat}" if self.repeat else ""
        return f"{self.subject}, {self.part}{shift}, {passes}{repeat}"

    def fields(self) -> dict[str, Any]:
        """Plain values for a file."""
        return {**asdict(self), "counts": list(self.counts)}


def planned_units(plan: Plan, subjects: Sequence[Subject]) -> list[Unit]:
    """All passes in their order."""
    return [unit for subject in subjects for unit in _units(plan, subject)]


def _units(plan: Plan, subject: Subject) -> Iterator[Unit]:
    extra: tuple[Part, ...] = ("val",) if plan.temperature_scaling else ()
    for part in dict.fromkeys((*extra, *sorted(plan.parts, key="train val test".split().index))):
        only_fitted = part not in plan.parts
        for unit in _passes(plan, subject, part):
            if not only_fitted or unit.repeat == 0:
                yield unit
    for shift, severity in _shifts(plan):
        yield from _passes(plan, subject, plan.shift_part, shift, severity)


def _shifts(plan: Plan) -> Iterator[tuple[str, int]]:
    yield from ((name, severity) for name in plan.corruptions for severity in plan.severities)
    yield from ((name, 0) for name in plan.ood)


def _passes(plan: Plan, subject: Subject, part: Part, shift: str = CLEAN, severity: int = 0) -> Iterator[Unit]:
    clean = shift == CLEAN
    if 0 in plan.counts or not subject.is_stochastic:
        yield Unit(subject.name, part, None, 0, (0,), shift, severity)
    if not subject.is_stochastic or not plan.sampled:
        return
    counts = plan.sampled if clean else (plan.shift_samples,)
    masks: tuple[Mask, ...] = plan.masks if subject.has_concrete else ("bernoulli",)
    for mask in masks if clean else masks[:1]:
        for repeat in range(plan.repeats if clean else 1):
            if counts[0] > 0:
                is_reference = mask == masks[0] and repeat == 0
                yield Unit(subject.name, part, mask, repeat, counts, shift, severity, is_reference)
