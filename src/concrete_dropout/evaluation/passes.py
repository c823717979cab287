"""One pass over data, with everything that is wanted of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from concrete_dropout.evaluation.observers import Arrays, Fit, Fitted, ShiftScores, detections, new_metrics
from concrete_dropout.evaluation.plan import Unit
from concrete_dropout.evaluation.subjects import REPEAT_STREAM, Foreign, Subject

Tick = Callable[[int], None]


@dataclass(frozen=True)
class Wanted:
    """What a pass shall find besides its metrics, for one number of samples.

    Attributes:
        samples: this number.
        scores: keep scores, by which shifted data are told.
        clean: such scores of clean data, to compare with; None on clean data.
        fit: fit a temperature.
        factor: a fitted one, to score; None for none.
        metrics: whether the labels hold, so that there are metrics.
    """

    samples: int
    scores: bool = False
    clean: Arrays | None = None
    fit: bool = False
    factor: float | None = None
    metrics: bool = True


@dataclass(frozen=True)
class Outcome:
    """Of one pass.

    Attributes:
        record: plain values for a file: the unit's fields, "seconds", and "rows", one for each number of samples.
        arrays: scores by the number of samples.
    """

    record: dict[str, Any]
    arrays: dict[int, Arrays] = field(default_factory=dict)


@torch.no_grad()
def evaluate_unit(
    subject: Subject, unit: Unit, wanted: Mapping[int, Wanted], seed: int | None, foreign: Foreign, tick: Tick
) -> Outcome:
    """Make one pass.

    Args:
        subject: of the unit.
        unit: which pass.
        wanted: by the number of samples.
        seed: of masks and shifts; None for the run's own, which gives the masks of its own test.
        foreign: other data by name.
        tick: called after each batch with the number of samples that it took.
    """
    began = time.monotonic()
    base = subject.task.seed if seed is None else seed
    masks = base + unit.repeat * REPEAT_STREAM
    watchers = {count: _Watchers(subject, wanted.get(count, Wanted(count))) for count in unit.counts}
    batches = subject.batches(unit.part, unit.shift, unit.severity, base, foreign)
    for number, batch in enumerate(batches):
        for count, outputs in subject.evaluate_at(batch, unit.counts, unit.mask, masks + number).items():
            watchers[count].update(outputs)
        tick(max(unit.counts[-1], 1))
    rows = [watchers[count].row(count) for count in unit.counts]
    arrays = {count: found.scores.arrays() for count, found in watchers.items() if found.scores is not None}
    return Outcome({**unit.fields(), "key": unit.key, "seconds": time.monotonic() - began, "rows": rows}, arrays)


class _Watchers:
    """All that is kept for one number of samples."""

    def __init__(self, subject: Subject, wanted: Wanted) -> None:
        self.wanted = wanted
        self.metrics = new_metrics(subject).to(subject.task.device) if wanted.metrics else None
        keeps = wanted.scores or wanted.clean is not None
        has_epistemic = wanted.samples > 0 or subject.has_epistemic
        self.scores = ShiftScores(subject, has_epistemic) if keeps else None
        self.fit = Fit() if wanted.fit else None
        self.fitted = None if wanted.factor is None else Fitted(subject, wanted.factor)

    def update(self, outputs: Mapping[str, Any]) -> None:
        for watcher in (self.metrics, self.scores, self.fit, self.fitted):
            if watcher is not None:
                watcher.update(outputs)

    def row(self, samples: int) -> dict[str, Any]:
        row: dict[str, Any] = {"samples": samples}
        if self.metrics is not None:
            result = self.metrics.compute()
            row |= {"metrics": result.scalars, "curves": result.curves, "points": result.num_points}
        if self.scores is not None and self.wanted.clean is not None:
            row["detection"] = detections(self.wanted.clean, self.scores.arrays())
        if self.fit is not None:
            row["factor"] = self.fit.result()
        if self.fitted is not None:
            row["fitted"] = self.fitted.result()
        return row
