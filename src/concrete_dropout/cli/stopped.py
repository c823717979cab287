"""A run that was stopped before its end, and how it goes on."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path

from concrete_dropout.cli.jobs import saved_overrides
from concrete_dropout.cli.overrides import override
from concrete_dropout.cli.paths import shortest
from concrete_dropout.cli.trust import OVERRIDES, must_be_repeated
from concrete_dropout.runfolder import CHECKPOINTS, REPORT, RUN, STUDY, SWEEP, RunFolder
from concrete_dropout.signals import Terminated

failed: set[Path] = set()  # folders of runs that failed in this process: a full disk takes no record of that


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
    if folder.absolute() in failed:
        return True
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
        return f"Go on with the study by the same command and {_same_folder(folder)}"
    if folder is not None and (folder / RUN).is_file():
        return how_to_continue(folder)
    return "Nothing had begun: start again."


def how_to_continue(folder: Path) -> str:
    """Sentences for the user: the command that goes on, and where the report is."""
    kind = of_several(folder)
    if kind == "sweep":
        return "Go on with the sweep by the same command and resume=true"
    if kind == "study":
        return f"Go on with the study by the same command and {_same_folder(folder.parent)}"
    record = RunFolder(folder).read_json(RUN) or {}
    # One that a signal has left in the first epoch is not in the record.
    last = (record.get("checkpoints") or {}).get("last") or f"{CHECKPOINTS}/last.ckpt"
    lines = [f"It had come to step {record.get('step', 0)}."]
    if (folder / last).is_file():
        lines += ["Continue from its last checkpoint, in its folder, with", f"  {_whole_command(folder / last)}"]
    else:
        lines += ["There was no checkpoint yet: start again."]
    if (folder / REPORT).is_file():
        lines += [f"What it has so far: {shortest(folder / REPORT)}"]
    return "\n".join(lines)


def _same_folder(folder: Path) -> str:
    return shlex.quote(override("hydra.run.dir", shortest(folder)))


def way_on(folder: Path) -> str:
    """Behind the error that ended a run: how it goes on once that is mended; nothing where it has no checkpoint."""
    last = folder / CHECKPOINTS / "last.ckpt"
    alone = not of_several(folder) and last.is_file()
    return f"\nOnce that is mended, go on with\n  {_whole_command(last)}" if alone else ""


def _whole_command(checkpoint: Path) -> str:
    """The command that goes on, with settings of the run that its folder alone does not stand for."""
    saved = checkpoint.parent.parent / OVERRIDES
    before = saved_overrides(saved) if saved.is_file() else []
    return " ".join([continue_command(checkpoint), *(shlex.quote(e) for e in before if must_be_repeated(e))])


def continue_command(checkpoint: Path) -> str:
    """What to type to go on from a checkpoint: quoted for Hydra and for the shell where that is needed."""
    return f"python train.py {shlex.quote(override('ckpt_path', shortest(checkpoint)))}"
