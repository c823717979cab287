"""A run that was stopped before its end, and how it goes on."""

from __future__ import annotations

import re
import shlex
import signal
from pathlib import Path

from concrete_dropout.cli.paths import shortest
from concrete_dropout.runfolder import REPORT, RUN, STUDY, SWEEP, RunFolder
from concrete_dropout.signals import Terminated


class Stopped(SystemExit):
    """Ends the program, and the other jobs of a sweep with it; the exit code is the shell's, 128 + signal.

    Args:
        signal_number: SIGINT, SIGTERM, or one by which a cluster announces the end of a job.
        folder: of the run.
    """

    def __init__(self, signal_number: signal.Signals, folder: Path) -> None:
        self.exit_code = 128 + signal_number
        super().__init__(self.exit_code)
        self.signal_number = signal_number
        self.folder = folder

    def __str__(self) -> str:
        return "by Ctrl-C" if self.signal_number == signal.SIGINT else f"by {self.signal_number.name}"


def has_failed(folder: Path, error: BaseException) -> bool:
    """Whether a run had begun when this error ended it; otherwise it was refused."""
    record = RunFolder(folder).read_json(RUN) or {}
    return record.get("state") == "failed" and record.get("error") == str(error)


def of_several(folder: Path) -> str:
    """What a run's folder belongs to: "sweep", "study", or nothing."""
    return next((kind for kind in ("sweep", "study") if (folder.parent / f"{kind}.json").is_file()), "")


def by_what(stop: BaseException) -> str:
    """The signal behind an exception, in words."""
    return "by SIGTERM" if isinstance(stop, Terminated) else "by Ctrl-C"


def how_to_begin(folder: Path | None) -> str:
    """Sentences for the user, where a command was stopped while none of its runs was under way."""
    if folder is not None and (folder / SWEEP).is_file():
        return "Go on with the sweep by the same command and resume=true"
    if folder is not None and (folder / STUDY).is_file():
        return f"Go on with the study by the same command and hydra.run.dir={shortest(folder)}"
    if folder is not None and (folder / RUN).is_file():
        return how_to_continue(folder)
    return "Nothing had begun: start again."


def how_to_continue(folder: Path) -> str:
    """Sentences for the user: the command that goes on, and where the report is."""
    kind = of_several(folder)
    if kind == "sweep":
        return "Go on with the sweep by the same command and resume=true"
    if kind == "study":
        place = shortest(folder.parent)
        return f"Go on with the study by the same command and hydra.run.dir={place}"
    record = RunFolder(folder).read_json(RUN) or {}
    last = (record.get("checkpoints") or {}).get("last")
    lines = [f"It had come to step {record.get('step', 0)}."]
    if last and (folder / last).is_file():
        lines += ["Continue from its last checkpoint, in its folder, with", f"  {continue_command(folder / last)}"]
    else:
        lines += ["There was no checkpoint yet: start again."]
    if (folder / REPORT).is_file():
        lines += [f"What it has so far: {shortest(folder / REPORT)}"]
    return "\n".join(lines)


def continue_command(checkpoint: Path) -> str:
    """What to type to go on from a checkpoint: quoted for Hydra and for the shell where that is needed."""
    path = shortest(checkpoint)
    plain = re.fullmatch(r"[\w./-]+", path) is not None
    return f"python train.py ckpt_path={path}" if plain else f"python train.py {shlex.quote(f'ckpt_path={path!r}')}"
