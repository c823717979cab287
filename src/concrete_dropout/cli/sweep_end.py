"""The end of a sweep, also of one whose jobs failed: a report that compares them, a summary, and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import OmegaConf

from concrete_dropout.cli.jobs import FAILED, FINISHED, JOB, RUNNING, SWEEP, JobRecords, read_jobs, told
from concrete_dropout.cli.paths import shortest
from concrete_dropout.cli.stopped import Stopped
from concrete_dropout.cli.study_plan import text
from concrete_dropout.cli.survivors import running, wait_for_survivors
from concrete_dropout.runfolder import CONFIG, RUN, STUDY, RunFolder
from concrete_dropout.signals import Terminated

CANDIDATE = "candidate"
KINDS = {"sweep=grid_vs_concrete": "grid_vs_concrete"}


def run_sweep(hydra_main: Callable[[], object]) -> int:
    """Make a sweep by Hydra, and close it; returns the exit code.

    Hydra raises the first job's error when all are done. That is in the summary already, and so are jobs whose process
    was killed, which the launcher reports in its own words. Any other error is raised.
    """
    JobRecords.sweep = None
    failed: list[dict[str, Any]] = []
    try:
        hydra_main()
    except (Stopped, Terminated, KeyboardInterrupt):
        folder = _begun()
        if folder is not None:
            close_sweep(folder, "interrupted")
        raise
    except Exception as error:
        folder = _begun()
        failed = [] if folder is None else _close_without(folder, error)
        if told(error) not in {job["error"] for job in failed} and not any(job.get("lost") for job in failed):
            if folder is None or not isinstance(error, BrokenExecutor):
                raise
            print(f"\nError: a process was gone before its job had begun: {first_line(error)}", file=sys.stderr)
            print(_resume(folder), file=sys.stderr)
            return 1
    else:
        folder = _begun()
        failed = [] if folder is None else close_sweep(folder)
    if failed and folder is not None:
        lines = [f"  {job['label']}: {job['error']}" for job in failed]
        print(f"\nError: {len(failed)} of {len(read_jobs(folder))} jobs failed:", *lines, file=sys.stderr, sep="\n")
        print(_resume(folder), file=sys.stderr)
    return 1 if failed else 0


def _close_without(folder: Path, error: Exception) -> list[dict[str, Any]]:
    """Close a sweep whose launcher has raised an error: that of a job, or one about a job whose process was killed."""
    wait_for_survivors(folder)
    for job in running(folder):
        told_how = "it is still under way on another machine" if job["alive"] is None else "its process is gone"
        said = f"{told_how}; the launcher said: {first_line(error)}"
        state = RUNNING if job["alive"] is None else FAILED
        RunFolder(folder / job["folder"]).update_json(JOB, state=state, error=said, lost=True)
    lost = [job for job in _described(folder) if job.get("lost") and job["state"] == RUNNING]
    return [*close_sweep(folder), *lost]


def first_line(error: BaseException) -> str:
    """What kind of error, and the first line of what it says."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}".rstrip(": ")


def _begun() -> Path | None:
    """The folder of the sweep that Hydra has begun; None where it never came to that."""
    return JobRecords.sweep


def close_sweep(folder: Path, state: str = "") -> list[dict[str, Any]]:
    """Write study.json and the report of a sweep's folder, and print the summary; returns the jobs that failed."""
    from concrete_dropout.cli.study_summary import print_study_summary  # plotly and torch take seconds to import
    from concrete_dropout.report.study import build_study_report

    jobs = _described(folder)
    failed = [job for job in jobs if job["state"] == FAILED]
    state = state or (FAILED if failed or not jobs else FINISHED)
    RunFolder(folder).write_json(STUDY, _study(folder, jobs, state))
    build_study_report(folder)
    print_study_summary(folder)
    return failed


def _described(folder: Path) -> list[dict[str, Any]]:
    """The jobs with "values", in which they differ, and a "label" of these."""
    jobs = read_jobs(folder)
    given = [_values(job, folder) for job in jobs]
    keys = list(dict.fromkeys(key for values in given for key in values))
    varied = [key for key in keys if len({text(values.get(key)) for values in given}) > 1]
    for job, values in zip(jobs, given, strict=True):
        job["values"] = {key: values[key] for key in varied if key in values} or {"job": job["num"]}
        job["label"] = ", ".join(f"{key}={text(value)}" for key, value in job["values"].items())
        job["state"] = job.get("state") or ""
    return jobs


def _values(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """{key: value} of a job's overrides."""
    parser = OverridesParser.create()
    found: dict[str, Any] = {}
    for entry in job.get("overrides", []):
        try:
            parsed = parser.parse_override(entry)
            found[parsed.key_or_group] = parsed.value()
        except HydraException:
            continue
    if found.pop(CANDIDATE, None) is not None:
        found |= _candidate(folder / job["folder"])
    return {key: value for key, value in found.items() if key not in ("sweep", "resume")}


def _candidate(place: Path) -> dict[str, Any]:
    try:
        dropout: Any = OmegaConf.to_container(OmegaConf.load(place / CONFIG))["dropout"]  # type: ignore[index,call-overload]
    except Exception:  # a job that never wrote it
        return {}
    return {"dropout.kind": dropout["kind"], **({"dropout.p": dropout["p"]} if dropout["kind"] == "fixed" else {})}


def _study(folder: Path, jobs: Sequence[dict[str, Any]], state: str) -> dict[str, Any]:
    from concrete_dropout.cli.facts import run_facts

    records = [RunFolder(folder / job["folder"]).read_json(RUN) or {} for job in jobs]
    experiments = {record["experiment"] for record in records if record.get("experiment")}
    arguments = (RunFolder(folder).read_json(SWEEP) or {}).get("arguments", [])
    kind = next((KINDS[entry] for entry in arguments if entry in KINDS), "comparison")
    seeds = {record.get("seed") for record in records}
    return {
        "kind": kind,
        "experiment": experiments.pop() if len(experiments) == 1 else "sweep",
        "state": state,
        "error": None,
        "seed": seeds.pop() if len(seeds) == 1 else None,
        **run_facts(),
        "started": (RunFolder(folder).read_json(SWEEP) or {}).get("started"),
        "ended": max((job["ended"] for job in jobs if job.get("ended")), default=None),
        "runs": [{key: job[key] for key in ("label", "folder", "values", "state", "error")} for job in jobs],
    }


def _resume(folder: Path) -> str:
    return (
        "Run what is missing or failed with the same command and resume=true"
        f" (its folder: {shortest(folder)}); run.log of a job's folder has the traceback."
    )
