"""What the dashboard keeps of one run: a row for the table, details for figures and comparisons, pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from concrete_dropout import runfolder
from concrete_dropout.dashboard.flat import flat_config, rounded, thinned
from concrete_dropout.dashboard.gallery import media_of, pictures_of
from concrete_dropout.errors import UserError
from concrete_dropout.plots.metrics import IOU
from concrete_dropout.report.layers import Layer, layers_of
from concrete_dropout.report.record import STAGES, UNREADABLE, Record, finite, mapping, read_record
from concrete_dropout.report.replica_record import Replicas, is_replicated, read_replicas
from concrete_dropout.report.statistics import summarise
from concrete_dropout.report.text import plain
from concrete_dropout.runfolder import RunFolder

MAX_POINTS = 100  # of a line
MAX_TEXT = 300
FACTS = ("command", "commit", "hardware", "started", "ended", "num_parameters", "num_train", "kl_weight", "replicas")
ESSENTIAL = ("experiment", "dropout", "state", "error", "started", "ended")
CURVES = (("expected", "observed"), ("confidence", "frequency"))
TRAINING = ("train/nll", "train/kl", "train/loss", "train/elbo")
NOT_SETTINGS = ("paths.", "logger", "hydra")  # where things are, not what was done


@dataclass(frozen=True)
class Entry:
    """One run; all plain values.

    Args:
        row: what the table of all runs needs.
        detail: what is looked at for a few runs at a time.
        pictures: the run's pictures with their captions; empty where it has none.
    """

    row: dict[str, Any]
    detail: dict[str, Any]
    pictures: dict[str, Any]


def read_entry(folder: Path) -> Entry:
    """Read a run folder, whatever state it is in."""
    try:
        replicas = read_replicas(folder) if is_replicated(folder) else None
        record = replicas.record if replicas else read_record(folder, with_pictures=True, with_predictions=False)
    except UserError:  # a job that failed before its run began
        replicas, record = None, Record(name=folder.name)
    layers = list(replicas.layers) if replicas else layers_of(record)
    job = _job(folder, record.problems)
    config = _config(record)
    try:
        return _entry(folder, record, replicas, layers, job, config)
    except Exception as error:  # a file of an unforeseen shape costs one run's numbers, not the dashboard
        record.problems.append(f"it could not be read ({type(error).__name__}: {str(error)[:200]})")
        known = {key: str(record.run[key]) for key in ESSENTIAL if record.run.get(key) is not None}
        bare = Record(name=record.name, run=known, problems=record.problems)
        return _entry(folder, bare, None, [], job, {})


def _entry(
    folder: Path,
    record: Record,
    replicas: Replicas | None,
    layers: list[Layer],
    job: dict[str, Any],
    config: dict[str, str],
) -> Entry:
    run = record.run
    pictures = pictures_of(record)
    calibration = {stage: curve for stage in record.calibration if (curve := _curve(record, stage))}
    row = {
        "experiment": _text(run.get("experiment") or config.get("name")),
        "dropout": _text(run.get("dropout") or config.get("dropout.kind")),
        "seed": _text(plain(run["seed"])) if run.get("seed") is not None else "",
        "task": "control" if record.control else record.kind if record.run else "",
        "started": _text(run.get("started") or job.get("started")),
        "ended": _text(run.get("ended") or job.get("ended")),
        "step": rounded(record.step, 9),
        "steps": rounded(finite(run.get("max_steps")), 9),
        "settings": _settings(record, job),
        "metrics": _metrics(record, replicas),
        "layers": [layer.name for layer in layers],
        "initial": [rounded(layer.initial) for layer in layers],
        "final": [rounded(layer.final) for layer in layers],
        "converged": [layer.converged for layer in layers],
        "learned": any(layer.learned for layer in layers),
        "problems": [problem[:MAX_TEXT] for problem in record.problems[:5]],
        "has": [
            *(["p"] if record.dropout else []),
            *(["calibration"] if calibration else []),
            *(["band"] if record.band else []),
            *(["pictures"] if pictures else []),
        ],
        "curves": [f"{curve['kind']}_{stage}" for stage, curve in calibration.items() if stage in STAGES],
        "media": media_of(record),
        # The judgement about these is made anew in every build.
        "recorded": {key: _text((run or job).get(key)) for key in ("state", "error")},
        "unreadable": _why_unreadable(record, job),
    }
    detail = {
        "facts": {key: _text(plain(run[key]), 2000) for key in FACTS if run.get(key) is not None},
        "error": _text(run.get("error") or job.get("error"), 8000),
        "problems": [problem[:1000] for problem in record.problems],
        "config": config,
        "p": {name: thinned(record.dropout[name], MAX_POINTS) for name in record.dropout},
        "curves": {name: thinned(points, MAX_POINTS) for name, points in record.metrics.items() if _is_shown(name)},
        "calibration": calibration,
        "band": _band(record),
    }
    return Entry(row, detail, pictures)


def _why_unreadable(record: Record, job: dict[str, Any]) -> str:
    if record.run:
        return ""
    said = next((text for text in record.problems if text.startswith(runfolder.RUN)), "")
    # Without run.json a job's record will do, and a run that has just begun needs none yet.
    return said or ("" if job or not record.problems else record.problems[0])


def _metrics(record: Record, replicas: Replicas | None) -> dict[str, float]:
    """The final value of every metric of validation and test; of replicas their means."""
    if replicas is not None:
        names = dict.fromkeys(name for row in replicas.rows for name in row.scalars)
        means = {name: summarise(row.scalars.get(name) for row in replicas.rows) for name in names}
        found = {name: rounded(mean.mean) for name, mean in means.items() if mean is not None}
    else:
        known = dict.fromkeys([*mapping(record.summary.get("metrics")), *record.metrics])
        scored = [name for name in known if name.startswith(("val/", "test/")) and f"/{IOU}" not in name]
        found = {name: rounded(record.metric(*name.split("/", 1))) for name in scored}
    return {name: value for name, value in found.items() if value is not None}


def _settings(record: Record, job: dict[str, Any]) -> list[str]:
    """What differs from the experiment's defaults, as key=value."""
    changes = [entry for entry in record.config_diff or [] if not str(entry.get("key")).startswith(NOT_SETTINGS)]
    if changes or not job:
        return [_text(f"{entry.get('key')}={plain(entry.get('value'))}", 80) for entry in changes[:20]]
    overrides = job.get("overrides")
    return [_text(entry, 80) for entry in overrides[:20]] if isinstance(overrides, list) else []


def _curve(record: Record, stage: str) -> dict[str, Any]:
    entry = mapping(record.calibration.get(stage))
    for x, y in CURVES:
        if isinstance(entry.get(x), list) and isinstance(entry.get(y), list):
            pairs = [(finite(a), finite(b)) for a, b in zip(entry[x], entry[y], strict=False)]
            whole = [(a, b) for a, b in pairs if a is not None and b is not None]
            columns = thinned([[a for a, _ in whole], [b for _, b in whole]], MAX_POINTS)
            curve: dict[str, Any] = {"kind": "coverage" if x == "expected" else "reliability"}
            share = entry.get("share")
            if isinstance(share, list) and len(share) == len(columns[0]) == len(pairs):
                curve["share"] = [rounded(finite(value), 3) for value in share]
            return {**curve, "x": columns[0], "y": columns[1]}
    return {}


def _band(record: Record) -> dict[str, Any]:
    names = ("x", "mean", "epistemic_std", "predictive_std")
    lists = [value if isinstance(value := record.band.get(name), list) else [] for name in names]
    columns = [[finite(value) for value in column] for column in lists]
    if not columns[0] or any(len(column) != len(columns[0]) or None in column for column in columns):
        return {}
    thin = thinned([[value or 0.0 for value in column] for column in columns], MAX_POINTS)
    labels = {key: _text(record.band.get(key), 60) for key in ("feature", "target")}
    return {**dict(zip(names, thin, strict=True)), **labels}


def _is_shown(name: str) -> bool:
    return name in TRAINING or (name.startswith("val/") and f"/{IOU}" not in name)


def _config(record: Record) -> dict[str, str]:
    if not record.config:
        return {}
    try:
        return flat_config(record.config)
    except (ValueError, RecursionError) as error:
        record.problems.append(f"{runfolder.CONFIG} cannot be read ({str(error)[:200]}); it was left out.")
        return {}


def _job(folder: Path, problems: list[str]) -> dict[str, Any]:
    try:
        return mapping(RunFolder(folder).read_json(runfolder.JOB))
    except UNREADABLE as error:
        problems.append(f"{runfolder.JOB} cannot be read ({type(error).__name__}: {str(error)[:200]}).")
        return {}


def _text(value: Any, limit: int = MAX_TEXT) -> str:
    return "" if value is None else str(value)[:limit]
