"""Reports of sweeps and studies, made again from their files: also of a sweep that was killed before its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from concrete_dropout import runfolder
from concrete_dropout.dashboard.find import Place, find
from concrete_dropout.dashboard.flat import flat_config
from concrete_dropout.dashboard.state import CRASHED, DAMAGED, FINISHED, RUNNING, STOPPED, judge
from concrete_dropout.errors import UserError
from concrete_dropout.report.record import UNREADABLE, dicts, finite, mapping
from concrete_dropout.report.study import build_study_report
from concrete_dropout.report.text import plain
from concrete_dropout.runfolder import RunFolder

# How study.json calls the states of runs.
WORDS = {FINISHED: "finished", RUNNING: "running", STOPPED: "interrupted", CRASHED: "failed", DAMAGED: "failed"}
OF_THE_SWEEP = ("sweep", "resume")
CANDIDATE = "candidate"  # several settings under one name, see conf/sweep
GRID = "grid_vs_concrete"


def rebuild_report(folder: Path) -> Path:
    """Build the report of a sweep or study again; returns its path.

    The record of a sweep is brought up to date by its jobs first, because a sweep that was killed has left none.

    Raises:
        UserError: there is no sweep or study.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder: give the one of a sweep or study, as train.py printed it")
    if (folder / runfolder.SWEEP).is_file():
        RunFolder(folder).write_json(runfolder.STUDY, sweep_record(folder))
    elif not (folder / runfolder.STUDY).is_file():
        raise UserError(f"{folder} holds no sweep or study (neither {runfolder.SWEEP} nor {runfolder.STUDY})")
    return build_study_report(folder)


def sweep_record(folder: Path) -> dict[str, Any]:
    """study.json of a sweep's folder as its jobs stand now; what the sweep said itself is kept."""
    before, sweep = _read(folder, runfolder.STUDY), _read(folder, runfolder.SWEEP)
    listed = {str(run.get("folder")): run for run in dicts(before.get("runs"))}
    places = [place for place in find(folder) if not place.is_group and place.path and "/" not in place.path]
    jobs = [(place, _read(folder / place.path, runfolder.JOB)) for place in places]
    jobs.sort(key=lambda pair: (finite(pair[1].get("num")) or 0.0, pair[0].path))
    given = [_values(job, folder / place.path) for place, job in jobs]
    varied = {key for values in given for key in values if len({plain(entry.get(key)) for entry in given}) > 1}
    runs = [
        {**_described(folder, place, job, {key: value for key, value in values.items() if key in varied})}
        for (place, job), values in zip(jobs, given, strict=True)
    ]
    for run in runs:  # the sweep itself has read its overrides by Hydra's grammar
        known = mapping(listed.get(run["folder"]))
        run |= {key: known[key] for key in ("label", "values") if known.get(key)}
    arguments = sweep.get("arguments")
    records = [_read(folder / run["folder"], runfolder.RUN) for run in runs]
    experiments = {str(record["experiment"]) for record in records if record.get("experiment")}
    states = {run["state"] for run in runs}
    state = next((word for word in ("running", "failed", "interrupted") if word in states), "finished")
    return {
        "kind": GRID if isinstance(arguments, list) and f"sweep={GRID}" in arguments else "comparison",
        "experiment": experiments.pop() if len(experiments) == 1 else "sweep",
        "error": None,
        "started": sweep.get("started"),
        "ended": max((str(job["ended"]) for _, job in jobs if job.get("ended")), default=None),
        **{key: value for key, value in before.items() if key not in ("ended", "runs", "state")},
        "state": state if runs else "failed",
        "runs": runs,
    }


def _described(folder: Path, place: Place, job: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    recorded = _read(folder / place.path, runfolder.RUN)
    # A job's own word counts where its run never began.
    state, reason = judge(folder / place.path, recorded if recorded.get("state") else job, place.files)
    values = values or {"job": job.get("num", place.path)}
    return {
        "label": ", ".join(f"{key}={plain(value)}" for key, value in values.items()),
        "folder": place.path,
        "values": values,
        "state": WORDS[state],
        "error": str(job.get("error") or reason) or None,
    }


def _values(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    overrides = job.get("overrides")
    found: dict[str, Any] = {}
    for entry in overrides if isinstance(overrides, list) else []:
        key, sign, text = str(entry).lstrip("+~").partition("=")
        if sign and key not in OF_THE_SWEEP:
            try:
                found[key] = yaml.safe_load(text)
            except yaml.YAMLError:
                found[key] = text
    if found.pop(CANDIDATE, None) is not None:
        found |= _candidate(folder)
    return found


def _candidate(folder: Path) -> dict[str, Any]:
    try:
        config = flat_config(runfolder.own_file(folder, runfolder.CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    kind = config.get("dropout.kind", "")
    fixed = {"dropout.p": finite(config.get("dropout.p"))} if kind == "fixed" else {}
    return {"dropout.kind": kind, **fixed}


def _read(folder: Path, name: str) -> dict[str, Any]:
    try:
        return mapping(RunFolder(folder).read_json(name))
    except UNREADABLE:
        return {}
