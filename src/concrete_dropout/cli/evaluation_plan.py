"""From a request to the plan of an evaluation, with the runs' own settings where nothing was asked for."""

from __future__ import annotations

from typing import Any

from concrete_dropout.cli.evaluation_request import Request
from concrete_dropout.cli.typecheck import closest
from concrete_dropout.data.shifts import corruption_names
from concrete_dropout.errors import UserError
from concrete_dropout.evaluation import Plan, Store, Subject, Unit, Wanted


def plan_of(request: Request, subjects: list[Subject]) -> Plan:
    """What is asked for, with the runs' own settings where nothing is."""
    first = subjects[0].task
    parts: Any = request.split or (("test",) if "test" in subjects[0].parts() else ("val",))
    needed: Any = tuple({*parts, *(["val"] if request.temperature_scaling else [])})
    for subject in subjects:
        for part in needed:
            if part not in subject.parts():
                _refuse_part(part, parts, subject)
        subject.check_same_data(needed)
    own: tuple[int, ...] = (0, first.test_samples)
    counts = tuple(sorted({*(request.mc_samples or own), *([0] if request.temperature_scaling else [])}))
    _check_members(counts, subjects)
    masks: Any = request.mask or (first.mask,)
    shift_samples = max(counts) if request.shift_samples is None else request.shift_samples
    if shift_samples not in counts:
        raise UserError(f"shift_samples={shift_samples} must be one of mc_samples={','.join(map(str, counts))}")
    return Plan(
        counts=counts,
        masks=masks,
        parts=tuple(parts),
        repeats=request.repeats,
        seed=request.seed,
        temperature_scaling=request.temperature_scaling,
        corruptions=_corruptions(request, subjects),
        severities=request.severities,
        ood=request.ood,
        shift_samples=shift_samples,
    )


def wanted_of(unit: Unit, plan: Plan, store: Store) -> dict[int, Wanted]:
    """What each number of samples of a pass is to find."""
    found = {}
    for count in unit.counts:
        told = plan.has_shifts and unit.is_reference and unit.part == plan.shift_part
        told = told and count == store.shift_count(unit, plan)
        if unit.shift:
            clean = Unit(unit.subject, unit.part, unit.mask, 0, ())
            found[count] = Wanted(count, clean=store.scores(clean, count), metrics=unit.severity > 0)
            continue
        fits = plan.temperature_scaling and unit.repeat == 0 and count in (0, plan.counts[-1])
        factor = store.factor(unit, count) if fits and unit.part != "val" else None
        found[count] = Wanted(count, scores=told, fit=fits and unit.part == "val", factor=factor)
    return found


def _corruptions(request: Request, subjects: list[Subject]) -> tuple[str, ...]:
    names = corruption_names(subjects[0].members[0].data)
    if isinstance(request.corruptions, bool):
        return names if request.corruptions else ()
    for name in request.corruptions:
        if name not in names:
            raise UserError(f"corruptions={name} is none of these data. {closest(name, names)}")
    return request.corruptions


def _refuse_part(part: str, asked: tuple[str, ...], subject: Subject) -> None:
    there = ", ".join(name for name in subject.parts() if name != "train") or "none but training data"
    why = f"split={part}" if part in asked else "temperature_scaling=true fits on validation data, and"
    raise UserError(
        f"{why}: {subject.name} has no {part} part, there is: {there}. Hold some out in training with "
        "data.val_fraction, data.val_size or data.num_val"
    )


def _check_members(counts: tuple[int, ...], subjects: list[Subject]) -> None:
    for subject in subjects:
        few = [count for count in counts if 0 < count < len(subject.members)]
        if few:
            raise UserError(
                f"mc_samples={few[0]} is less than one sample for each of {len(subject.members)} members of the "
                "ensemble: take 0 or more"
            )
