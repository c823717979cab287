"""Jobs that are still under way when a launcher has given up because of another one."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

from concrete_dropout.cli.jobs import RUNNING, read_jobs

EVERY = 0.5  # seconds
PAUSE = 5  # seconds without any job, after which none is to come


def is_alive(job: dict[str, Any]) -> bool | None:
    """Whether a job has a process of its own that is there; None where it is another machine's."""
    if job.get("host") != socket.gethostname():
        return None
    if job.get("pid") == os.getpid():  # which has come to the end of the sweep
        return False
    try:
        stat = Path(f"/proc/{job['pid']}/stat")
        if stat.parent.parent.joinpath("self").exists():
            return stat.read_text().rpartition(")")[2].split()[0] != "Z"
        os.kill(job["pid"], 0)
    except (OSError, KeyError):
        return False
    return True


def running(folder: Path) -> list[dict[str, Any]]:
    """The jobs of a sweep that have begun and not ended, each with whether it "alive"."""
    return [{**job, "alive": is_alive(job)} for job in read_jobs(folder) if job.get("state") == RUNNING]


def wait_for_survivors(folder: Path) -> None:
    """Wait until no job of a sweep is under way on this machine: those of submitit and Ray go on without a dead one."""
    if not running(folder):
        return
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < PAUSE:
        if any(job["alive"] for job in running(folder)):
            quiet_since = time.monotonic()
        time.sleep(EVERY)
