"""Evaluations as rows: kinds of masks on clean data, and runs on shifted data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from concrete_dropout.errors import UserError
from concrete_dropout.report.evaluation_rows import NO_DROPOUT
from concrete_dropout.report.record import UNREADABLE, dicts, finite, mapping
from concrete_dropout.report.replica_record import SEED, SPLIT
from concrete_dropout.runfolder import EVALUATION, RunFolder

from .cells import Row, numbers, setting, text
from .collect import FINISHED, facts_of
from .commands import changes
from .experiments import experiment_of
from .folders import Run, runs_in
from .sheets import DETECTORS, MASKS, METRICS, SHIFT, OwnSheet
from .tuning import SET


@dataclass(frozen=True)
class Evaluated:
    """Rows of an evaluation by the file that they belong to, and a note on what is missing."""

    rows: dict[OwnSheet, list[Row]] = field(default_factory=dict)
    note: str = ""


def evaluations_in(path: Path) -> list[Path]:
    """The folder itself where it is one of evaluate.py, or those inside of it; none where it is of another kind."""
    if (path / EVALUATION).is_file():
        return [path]
    return sorted(found.parent for found in path.glob(f"*/{EVALUATION}"))


def evaluated(path: Path) -> Evaluated:
    """What the folder of an evaluation says."""
    try:
        results = mapping(RunFolder(path).read_json(EVALUATION))
    except UNREADABLE as error:
        return Evaluated(note=f"{path.name}: left out, {EVALUATION} cannot be read ({type(error).__name__})")
    if results.get("state") != FINISHED:
        return Evaluated(note=f"{path.name}: left out, it is {results.get('state') or 'not recorded as finished'}")
    subjects = dicts(results.get("subjects"))
    known = [subject for subject in subjects if experiment_of(str(subject.get("experiment") or "")) is not None]
    if not known:
        return Evaluated(note=f"{path.name}: left out, its runs are of none of the paper's experiments")
    found: dict[OwnSheet, list[Row]] = {MASKS: [], SHIFT: []}
    notes: list[str] = []
    plan = mapping(results.get("plan"))
    for subject in known:
        runs = _runs_of(subject, path)
        notes += [] if runs else [f"{path.name}: the runs are not where they were, so that their settings are unknown"]
        shared = {**_subject(subject, runs), **facts_of(results)}
        passes = [p for p in dicts(results.get("passes")) if p.get("subject") == subject.get("name")]
        if len(plan.get("masks") or ()) > 1 and subject.get("dropout") == "concrete":
            found[MASKS] += _mask_rows(passes, shared)
        if plan.get("corruptions") or plan.get("ood"):
            found[SHIFT] += _shift_rows(passes, shared, plan)
    if not any(found.values()):
        return Evaluated(note=f"{path.name}: left out, it compares no masks and has no shifted data")
    whole = {sheet: [_whole(row, sheet) for row in rows] for sheet, rows in found.items()}
    return Evaluated(whole, "\n".join(dict.fromkeys(notes)))


def _mask_rows(passes: Sequence[Mapping[str, Any]], shared: Row) -> Iterator[Row]:
    """A row for every kind of mask and number of samples on clean data; means over repeats."""
    found: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for entry in passes:
        for row in dicts(entry.get("rows")) if not entry.get("shift") else []:
            mask = str(entry.get("mask") or NO_DROPOUT)
            found.setdefault((str(entry.get("part")), mask, text(row.get("samples"))), []).append(row)
    for (part, mask, samples), rows in found.items():
        nll = _values(rows, "nll")
        yield {
            **shared,
            "part": part,
            "mask": mask,
            "samples": samples,
            "repeats": str(len(rows)),
            # Of a single evaluation: what the chance of the masks alone makes of it.
            "nll_std": text(stdev(nll)) if len(nll) > 1 else "",
            **_metrics(rows),
        }


def _shift_rows(passes: Sequence[Mapping[str, Any]], shared: Row, plan: Mapping[str, Any]) -> Iterator[Row]:
    """A row for every shift and severity, and one for clean data, with the masks and samples of the shifted ones."""
    sampled = any(entry.get("mask") for entry in passes)
    for entry in passes:
        if not entry.get("is_reference") or bool(entry.get("mask")) != sampled:
            continue
        for row in dicts(entry.get("rows")):
            if sampled and row.get("samples") != plan.get("shift_samples"):
                continue
            scores = mapping(row.get("detection"))
            yield {
                **shared,
                "part": text(entry.get("part")),
                "shift": text(entry.get("shift")),
                "severity": text(entry.get("severity")),
                "mask": str(entry.get("mask") or NO_DROPOUT),
                "samples": text(row.get("samples")),
                **_metrics([row]),
                **{column: text(mapping(scores.get(by)).get(name)) for column, (name, by) in DETECTORS.items()},
            }


def _metrics(rows: Sequence[Mapping[str, Any]]) -> Row:
    return {name: text(fmean(found)) if (found := _values(rows, name)) else "" for name in METRICS}


def _values(rows: Iterable[Mapping[str, Any]], name: str) -> list[float]:
    return [value for row in rows if (value := finite(mapping(row.get("metrics")).get(name))) is not None]


def _subject(subject: Mapping[str, Any], runs: Sequence[Run]) -> Row:
    """Whose predictions they are, with what the runs themselves know where they are still there."""
    members = str(subject.get("checkpoint") or "").count(", ") + 1
    experiment = experiment_of(str(subject.get("experiment") or ""))
    kind = str(subject.get("dropout") or "")
    labels = dict(part.split("=", 1) for part in str(subject.get("label") or "").split(", ") if "=" in part)
    own = {key: value for key, value in labels.items() if key not in (SEED, SPLIT, SET)}
    first = runs[0] if runs else None
    name = labels.get(SET, first.setting(SET) if first is not None else "")
    split = labels.get(SPLIT, first.setting(SPLIT) if first is not None else "")
    seeds = [text(run.record.run.get("seed")) for run in runs if run.record is not None]
    return {
        "experiment": experiment.name if experiment is not None else "",
        "set": setting(name),
        "dropout": kind,
        "members": str(members),
        "p": {"none": "0", "fixed": text(first.setting("dropout.p")) if first is not None else ""}.get(kind, ""),
        "split": text(split),
        "seed": numbers(seeds) if members > 1 else labels.get(SEED, text(subject.get("seed"))),
        "settings": _settings(first, own) if first is not None else "",
    }


def _settings(run: Run, labels: Mapping[str, Any]) -> str:
    """What the run changed; whether it was tested, and its validation data, are of no consequence here."""
    assert run.record is not None
    command = run.study or str(run.record.run.get("command") or "")
    return changes(command, {**run.values, **labels}, (SET, "test"))


def _runs_of(subject: Mapping[str, Any], evaluation: Path) -> list[Run]:
    """The runs whose checkpoints were evaluated; none where one of them is gone."""
    places = [Path(text) for text in str(subject.get("checkpoint") or "").split(", ")]
    found = [run for place in places if (run := _run_of(place, evaluation)) is not None]
    return found if len(found) == len(places) else []


def _run_of(checkpoint: Path, evaluation: Path) -> Run | None:
    """A relative path begins where evaluate.py was called: here, or in a folder that the evaluation is in."""
    for start in (Path(), *evaluation.resolve().parents):
        try:
            return runs_in((start / checkpoint).parents[1])[0]
        except (UserError, *UNREADABLE, IndexError):  # not here; or moved, or deleted since
            continue
    return None


def _whole(row: Row, sheet: OwnSheet) -> Row:
    return {column: row.get(column, "") for column in sheet.columns}
