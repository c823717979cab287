"""A sign of life in a run folder: a run that was killed cannot say so, but its process is gone and its heart still.

The process of a run writes ``heartbeat.json`` (who it is), renews the file's time while it lives, and removes it when
it ends. What is left behind by a kill tells a reader on the same machine that the process is gone, and one on another
machine how long ago it was last seen.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from concrete_dropout.runfolder import HEARTBEAT, RunFolder

EVERY = 10.0  # seconds
# A machine under load, or a file system that shows changes late, delays a beat; it does not lose six of them.
MISSED = 6
AHEAD = 600.0  # seconds by which clocks of two machines may differ; a beat from later than that is of before a jump
_PROC = Path("/proc")


@contextmanager
def beating(folder: Path | str, every: float = EVERY) -> Iterator[None]:
    """Keep the sign of life of this process in a run folder; a folder that cannot be written to has none."""
    target = Path(folder) / HEARTBEAT
    done = threading.Event()
    with suppress(OSError):
        RunFolder(folder).write_json(HEARTBEAT, {**identity(os.getpid()), "every": every})
    # Its own thread: validation, tests and single steps may take longer than any interval.
    thread = threading.Thread(target=_beat, args=(target, every, done), name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        with suppress(OSError):
            target.unlink()


def identity(pid: int) -> dict[str, Any]:
    """Who a process is, so that nobody else is taken for it: numbers of processes are used again after a while."""
    return {"machine": machine(), "pid": pid, "born": born(pid)}


def machine() -> str:
    """This machine since it was started; a container is one of its own where it numbers processes by itself."""
    boot = ""
    with suppress(OSError):
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    with suppress(OSError):
        boot += os.readlink(_PROC / "self/ns/pid").removeprefix("pid:")
    return f"{socket.gethostname()} {boot}".rstrip()


def born(pid: int) -> str | None:
    """When a process was started, in the kernel's ticks; None where there is no such process, or no /proc."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name before it is in brackets, and may hold anything; a zombie (Z) has ended already.
    fields = stat.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] != "Z" else None


def is_alive(heart: dict[str, Any], last_beat: float, now: float | None = None) -> bool:
    """Whether the process that left a heartbeat lives.

    Args:
        heart: content of its file.
        last_beat: time of its file, in seconds since 1970.
        now: the same of the question; None for the clock's.
    """
    pid, every = heart.get("pid"), heart.get("every")
    if heart.get("machine") == machine() and isinstance(pid, int) and heart.get("born") is not None:
        return born(pid) == heart["born"]
    interval = float(every) if isinstance(every, (int, float)) and 0 < every < 3600 else EVERY
    silence = (time.time() if now is None else now) - last_beat
    return -AHEAD < silence < MISSED * interval


def _beat(target: Path, every: float, done: threading.Event) -> None:
    while not done.wait(every):
        with suppress(OSError):
            os.utime(target)
