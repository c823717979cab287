"""Studies and sweeps as the page lists them: what they are, how far they are, which of their runs is which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from concrete_dropout import runfolder
from concrete_dropout.dashboard.find import Place
from concrete_dropout.dashboard.links import link, shown
from concrete_dropout.dashboard.state import CRASHED, FINISHED, RUNNING, STOPPED
from concrete_dropout.report.record import UNREADABLE, dicts, mapping
from concrete_dropout.runfolder import RunFolder


def describe_groups(
    root: Path, out: Path, places: Sequence[Place], rows: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """One entry per study or sweep; the runs' rows get the labels that their study gives them."""
    members: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        members.setdefault(row["group"], []).append(row)
    return [_described(root, out, place, members.get(shown(place.path), [])) for place in places]


def _described(root: Path, out: Path, place: Place, rows: list[dict[str, Any]]) -> dict[str, Any]:
    problems: list[str] = []
    study = _read(root / place.path, runfolder.STUDY, problems)
    sweep = _read(root / place.path, runfolder.SWEEP, problems)
    labels = {str(run.get("folder")): str(run.get("label") or "")[:200] for run in dicts(study.get("runs"))}
    for row in rows:
        row["label"] = labels.get(str(PurePosixPath(row["path"]).relative_to(shown(place.path) or ".")), "")
    states = Counter(row["state"] for row in rows)
    has_report = runfolder.REPORT in place.files
    return {
        "key": shown(place.path),
        "path": shown(place.path or root.resolve().name),
        "kind": "sweep" if runfolder.SWEEP in place.files else "study",
        "experiment": str(study.get("experiment") or next((row["experiment"] for row in rows), ""))[:100],
        "state": _state(study, states),
        "states": dict(states),
        "planned": max(len(labels), len(rows)),
        "started": str(study.get("started") or sweep.get("started") or "")[:40],
        "report": link(out, root / place.path / runfolder.REPORT) if has_report else "",
        "problems": problems,
    }


def _state(study: dict[str, Any], states: Counter[str]) -> str:
    """A sweep has a record of its end only where it came to it; until then its runs tell."""
    if states[RUNNING]:
        return RUNNING
    recorded = {"finished": FINISHED, "failed": CRASHED, "interrupted": STOPPED}.get(str(study.get("state")))
    return recorded or (CRASHED if states[CRASHED] else STOPPED)


def _read(folder: Path, name: str, problems: list[str]) -> dict[str, Any]:
    try:
        return mapping(RunFolder(folder).read_json(name))
    except UNREADABLE as error:
        problems.append(f"{name} cannot be read ({type(error).__name__}: {str(error)[:200]}).")
        return {}
