"""How a run stands: finished, running, stopped, crashed, or too damaged to say. A crash is not always recorded."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from concrete_dropout import runfolder
from concrete_dropout.heartbeat import is_alive
from concrete_dropout.report.record import UNREADABLE, mapping
from concrete_dropout.runfolder import RunFolder

FINISHED, RUNNING, STOPPED, CRASHED, DAMAGED = STATES = ("finished", "running", "stopped", "crashed", "damaged")
# Runs of earlier versions have no heartbeat; their tables grow while they train.
SILENT_AFTER = 600.0
TRACES = (runfolder.RUN, runfolder.METRICS, runfolder.DROPOUT, runfolder.CONFIG, runfolder.JOB)
RECORDED = {"finished": FINISHED, "failed": CRASHED, "interrupted": STOPPED}
NO_MESSAGE = {CRASHED: "no message was recorded", STOPPED: "interrupted"}


def judge(
    folder: Path,
    recorded: Mapping[str, Any],
    files: Mapping[str, tuple[int, int]],
    problem: str = "",
    now: float | None = None,
) -> tuple[str, str]:
    """State of a run and the reason for it, "" where there is nothing to say.

    Args:
        folder: of the run.
        recorded: "state" and "error" of run.json, or of job.json where a job never came to that.
        files: name -> (time in ns, size) of its files.
        problem: why run.json cannot be read; "" where it can.
        now: in seconds since 1970; None for the clock's.
    """
    state = RECORDED.get(str(recorded.get("state") or ""))
    if state is not None:
        lines = str(recorded.get("error") or "").strip().splitlines() or [NO_MESSAGE.get(state, "")]
        return state, lines[0] if state != FINISHED else ""
    if problem:
        return DAMAGED, problem
    moment = time.time() if now is None else now
    if runfolder.HEARTBEAT in files:
        beat = files[runfolder.HEARTBEAT][0] / 1e9
        if is_alive(_heart(folder), beat, moment):
            return RUNNING, ""
        return CRASHED, f"its process is gone without a word (killed, or out of memory); last seen {told(beat)}"
    seen = max((files[name][0] / 1e9 for name in TRACES if name in files), default=0.0)
    if abs(moment - seen) < SILENT_AFTER:  # files from the future are of before the clock was put back
        return RUNNING, ""
    if recorded.get("state") == "running":
        return CRASHED, f"no sign of life since {told(seen)}"
    return DAMAGED, f"{runfolder.RUN} does not say how the run ended"


def told(seconds: float) -> str:
    """A time since 1970 as a date, in UTC.

    >>> told(0)
    '1970-01-01 00:00 UTC'
    """
    return f"{datetime.fromtimestamp(seconds, tz=timezone.utc):%Y-%m-%d %H:%M} UTC"


def _heart(folder: Path) -> dict[str, Any]:
    try:
        return mapping(RunFolder(folder).read_json(runfolder.HEARTBEAT))
    except UNREADABLE:
        return {}
