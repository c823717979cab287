"""Runs the commands behind the page one after the other; what is finished is left alone, what was stopped goes on."""

from __future__ import annotations

import signal
import subprocess  # nosec B404 # this project's own programs, by a list of words
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from concrete_dropout.runfolder import CHECKPOINTS, EVALUATION, RUN, STUDY, SWEEP, RunFolder

from .collect import FINISHED
from .commands import words
from .plan import Step
from .tables import time_words

STOPPED = (130, 143, -signal.SIGINT, -signal.SIGTERM)  # by the user: nothing else is begun then


def run_steps(
    steps: Sequence[Step], root: Path, after: Callable[[Step, bool], None]
) -> tuple[list[Step], list[str], bool]:
    """Run commands.

    Args:
        steps: in their order.
        root: of the project, in which commands and folders are.
        after: called with every step whose command has ended, in whatever way, and whether it did so just now.

    Returns:
        Steps that are finished, a line for each that failed, and whether the user stopped it all.
    """
    done: list[Step] = []
    failed: list[str] = []
    for number, step in enumerate(steps, start=1):
        label = f"{number} of {len(steps)}, {step.name}: {step.command}"
        if state_of(root / step.folder) == FINISHED:
            print(f"=== {label}: finished already", flush=True)
            done.append(step)
            after(step, False)
            continue
        print(f"=== {label}\n    in {step.folder}", flush=True)
        began = time.monotonic()
        code = _call(arguments(step, root), root)
        took = time_words(time.monotonic() - began)
        after(step, True)
        if code == 0:
            print(f"=== {number} of {len(steps)} took {took}", flush=True)
            done.append(step)
        elif code in STOPPED:
            return done, failed, True
        else:
            failed.append(f"{step.command} (exit code {code} after {took}; {step.folder})")
            print(f"=== {number} of {len(steps)} failed; the others go on", file=sys.stderr, flush=True)
    return done, failed, False


def state_of(folder: Path) -> str:
    """What the folder of a study, a sweep, a run or an evaluation says of itself; "" where it says nothing."""
    for name in (STUDY, RUN, EVALUATION):
        found = RunFolder(folder).read_record(name)
        if found:
            return str(found.get("state") or "")
    return ""


def arguments(step: Step, root: Path) -> list[str]:
    """The words of the command that makes a step, or goes on with it."""
    python, script, *given = words(step.command)
    folder = root / step.folder
    program = [sys.executable if python == "python" else python, script]
    if Path(script).name == "evaluate.py":  # takes an earlier evaluation up by itself
        return [*program, *given, f"out={step.folder}"]
    if "-m" in given:
        again = ["resume=true"] if RunFolder(folder).read_record(SWEEP) else []
        return [*program, *given, f"hydra.sweep.dir={step.folder}", *again]
    last = f"{step.folder}/{CHECKPOINTS}/last.ckpt"
    if RunFolder(folder).read_record(RUN) and (root / last).is_file():
        return [*program, f"ckpt_path={last}"]
    return [*program, *given, f"hydra.run.dir={step.folder}"]  # a study takes itself up


def _call(command: list[str], root: Path) -> int:
    """The exit code; a stop is passed on, and waited for, since runs save a checkpoint then."""
    process = subprocess.Popen(command, cwd=root)  # nosec B603 # words of the plan, and no shell
    with _passing_on(process):
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # the terminal has sent it to the command as well
                continue


@contextmanager
def _passing_on(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Send a SIGTERM on to the process."""
    before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
