"""What happens to commands: signals, a second process, a clock that jumps, a helper that is gone."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.faults.processes import Command
from tests.faults.scenarios import Scenario

SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "int": signal.SIGINT}
FAKETIME = Path(os.environ.get("FAKETIME_LIB", "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"))
JUMPS = ("+1h", "-1h", "+40d", "-40d", "+15", "-15")  # as libfaketime reads them
CLOCK = "clock"


def clock_environment(place: Path) -> dict[str, str]:
    """Of a process whose clock is what the file ``clock`` says; durations are not changed by it, as in a real jump."""
    set_clock(place, "+0")
    return {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(place / CLOCK),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def set_clock(place: Path, offset: str) -> None:
    (place / f"{CLOCK}.new").write_text(f"{offset}\n")
    (place / f"{CLOCK}.new").replace(place / CLOCK)  # a reader never sees half of it


def victims(command: Command, whom: str) -> list[int]:
    """The processes that are meant, of those that there are."""
    if whom == "rank":
        return command.members("concrete_dropout.cli.rank")
    if whom == "worker":
        return command.members("popen_loky_posix")
    if whom == "wandb":
        return command.members("wandb-core")
    return [command.pid]


def hurt(command: Command, scenario: Scenario, fault: str, draw: random.Random) -> str:
    """Let a fault happen to a running command; returns what was done, "" where there was nothing to do it to."""
    words = fault.split()
    if fault == "clock":
        jumps = draw.sample(JUMPS, 2)
        for jump in jumps:
            set_clock(command.place, jump)
            time.sleep(draw.uniform(0.1, 1.0))
        return f"the clock jumped by {' and '.join(jumps)}"
    if fault == "wandb":
        found = victims(command, "wandb")
        for pid in found:
            _send(pid, signal.SIGKILL)
        return f"SIGKILL to W&B's process {found}" if found else ""
    number = SIGNALS[words[-1]]
    if words[0] in ("rank", "worker"):
        found = victims(command, words[0])
        if not found:
            return ""
        victim = draw.choice(found)
        _send(victim, number)
        return f"{number.name} to {words[0]} {found.index(victim)} of {len(found)}"
    command.send(number, to_group=words[0] == "group")
    return f"{number.name} to the {'group' if words[0] == 'group' else 'command'}"


def ready_for(command: Command, fault: str) -> Callable[[], bool]:
    """Whether there is somebody to be hurt."""
    whom = fault.split()[0]
    least = {"rank": 2, "worker": 1, "wandb": 1}.get(whom, 0)
    return lambda: len(victims(command, whom)) >= least


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
