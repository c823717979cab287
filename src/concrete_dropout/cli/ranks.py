"""A run on several devices of this machine: one process per device, started and watched by torch's elastic launcher.

Lightning would start the others by repeating the command line, which is the whole sweep where there is one, and would
stay a part of the run itself: after a failure its process could not go on with the next job. Here all processes of a
run are children (``cli.rank``) that get the finished config of their job. When one fails, the others are ended, and
nothing of them is left in the process that makes the sweep.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytorch_lightning as pl
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from omegaconf import DictConfig
from pytorch_lightning.strategies.launchers import _SubprocessScriptLauncher
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, SubprocessContext
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from concrete_dropout.callbacks.stopping import ANNOUNCED
from concrete_dropout.cli.compose import plain
from concrete_dropout.cli.run_log import FILE_ONLY, run_log
from concrete_dropout.cli.stopped import Stopped
from concrete_dropout.errors import RunFailedError, UserError
from concrete_dropout.runfolder import RUN, RunFolder

JOB = "CONCRETE_DROPOUT_JOB"  # in the environment of a rank: the file that says what to run
GRACE = 30  # seconds for a checkpoint before a process that was asked to end is killed
FAILED_GRACE = 15  # the same when another one has failed: there is nothing to save that can be saved
KEEP_ALIVE = 10**7  # seconds: the launcher waits for machines by the clock, which may jump, and here is one machine
STOPPED = {128 + number: number for number in (signal.SIGINT, signal.SIGTERM, *ANNOUNCED)}


def is_rank() -> bool:
    """Whether this process is one of several that ``run_on_ranks`` has started."""
    return JOB in os.environ


def processes_to_start(trainer: pl.Trainer) -> int:
    """How many processes a run needs that nobody else has started; 1 for none but this."""
    launcher = trainer.strategy.launcher
    if not isinstance(launcher, _SubprocessScriptLauncher) or trainer.num_nodes > 1:
        return 1
    return 1 if launcher.cluster_environment.creates_processes_externally else trainer.num_devices


def run_on_ranks(cfg: DictConfig, folder: Path, conf_dir: Path, processes: int) -> None:
    """Make a run in ``processes`` processes, and wait for its end.

    Raises:
        UserError: what a process has refused.
        RunFailedError: a process failed; the first of them, in one line. Its traceback is in run.log.
        Stopped: by Ctrl-C or SIGTERM, after the processes have written their checkpoint.
    """
    came: list[signal.Signals] = []
    before = RunFolder(folder).read_json(RUN)
    place = Path(tempfile.mkdtemp(prefix="concrete_dropout_"))
    job = place / "job.json"
    job.write_text(
        json.dumps(
            {
                "config": plain(cfg),
                "folder": str(folder),
                "conf_dir": str(conf_dir),
                "argv": sys.argv,
                "parent": os.getpid(),
            }
        )
    )
    settings = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",  # any free port: several jobs may run at the same time
        rdzv_configs={"keep_alive_interval": KEEP_ALIVE},
        local_addr="localhost",
        max_restarts=0,
        monitor_interval=0.1,
        logs_specs=DefaultLogsSpecs(log_dir=str(place / "logs")),
        shutdown_timeout=GRACE,
        signals_to_handle="SIGTERM",
    )
    try:
        with _environment(JOB, str(job)), _quiet("torch.distributed.elastic"), _in_time(), _signals(came):
            elastic_launch(settings, sys.executable)("-m", "concrete_dropout.cli.rank")
    except SignalException as stopped:
        number = came[0] if came else signal.Signals(stopped.sigval)
        raise Stopped(number, folder) from stopped
    except ChildFailedError as failed:
        raise _error(failed, place, folder, before) from None
    finally:
        shutil.rmtree(place, ignore_errors=True)


def tell(error: BaseException) -> None:
    """In a rank: leave the error for the process that has started it."""
    note = {
        "time": time.monotonic(),  # the same for all processes of a machine, and no clock that is set
        "refused": isinstance(error, UserError),
        "message": str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}".rstrip(": "),
        "traceback": "".join(traceback.format_exception(error)),
    }
    (Path(os.environ[JOB]).parent / f"error_{os.environ['RANK']}.json").write_text(json.dumps(note))


def _error(failed: ChildFailedError, place: Path, folder: Path, before: dict[str, Any] | None) -> BaseException:
    """What the parent raises. The first failure counts: the others have followed from it.

    ``before`` is run.json as it was: where it is the same now, the run was refused, and its record stays as it is.
    """
    codes = [failure.exitcode for failure in failed.failures.values()]
    stopped = [STOPPED[code] for code in codes if code in STOPPED]
    # Beside one that has failed, the others were stopped by the launcher.
    if stopped and all(code in STOPPED or code == -signal.SIGTERM for code in codes):
        return Stopped(stopped[0], folder)
    rank, note = _first(failed, place)
    message = str(note["message"])
    error = UserError(message) if note.get("refused") else RunFailedError(f"rank {rank} failed: {message}")
    files = RunFolder(folder)
    if files.read_json(RUN) != before:  # where rank 0 may have recorded what followed
        files.update_json(RUN, state="failed", error=str(error))
    if not note.get("refused"):
        run_log.error("%s\n%s", error, note.get("traceback", ""), extra={FILE_ONLY: True})
    return error


def _first(failed: ChildFailedError, place: Path) -> tuple[int, dict[str, Any]]:
    """The rank that failed first, and its note; one that was killed could leave none.

    The launcher ends the others by SIGTERM, and after a while by SIGKILL: then the note is older than that.
    """
    notes = {int(path.stem.partition("_")[2]): json.loads(path.read_text()) for path in place.glob("error_*.json")}
    first = min(notes.items(), key=lambda entry: entry[1]["time"], default=None)
    codes = {rank: failure.exitcode for rank, failure in sorted(failed.failures.items())}
    killed = [rank for rank, code in codes.items() if code < 0 and code != -signal.SIGTERM]
    waited = first is not None and time.monotonic() - first[1]["time"] > FAILED_GRACE - 1
    if first is not None and (not killed or waited):
        return first
    rank = killed[0] if killed else next(iter(codes))
    how = f"by {signal.Signals(-codes[rank]).name}" if codes[rank] < 0 else f"with exit code {codes[rank]}"
    return rank, {"message": f"it was ended {how}"}


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """A variable for the children, who also find what this process finds; and nothing of it afterwards."""
    before = dict(os.environ)
    os.environ |= {name: value, "PYTHONPATH": os.pathsep.join(filter(None, [*sys.path, before.get("PYTHONPATH")]))}
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun has it, without its warning
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _in_time() -> Iterator[None]:
    """When a process fails, the launcher gives the others less time to end than it has as its default.

    One that waits for the failed one, or is in the middle of a long test, does not end by being asked to.
    """
    before = SubprocessContext.close

    def close(self: SubprocessContext, death_sig: signal.Signals | None = None, timeout: int = FAILED_GRACE) -> None:
        before(self, death_sig, timeout)

    SubprocessContext.close = close  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        SubprocessContext.close = before  # type: ignore[method-assign]


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Without the words of a logger and those under it: what they are about is said once, by us."""
    known = [logging.getLogger(entry) for entry in list(logging.root.manager.loggerDict) if entry.startswith(name)]
    before = {logger: logger.disabled for logger in known}
    for logger in known:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in before.items():
            logger.disabled = disabled


@contextmanager
def _signals(came: list[signal.Signals]) -> Iterator[None]:
    """Ctrl-C, a terminal that is closed, and what announces the end of a cluster's job; ``came`` gets those.

    They reach the processes as SIGTERM: these stop together between two steps, or at once and without a word while
    they still start. Afterwards all handlers are as before; the launcher sets some, and leaves them.
    """
    if threading.current_thread() is not threading.main_thread():  # where nobody can set any
        yield
        return

    def pass_on(number: int, frame: FrameType | None) -> None:
        came.append(signal.Signals(number))
        raise SignalException(f"got {came[-1].name}", sigval=signal.SIGTERM)

    passed_on = (signal.SIGINT, signal.SIGHUP, *(ANNOUNCED if SLURMEnvironment.detect() else ()))
    before: dict[signal.Signals, Any] = {n: signal.getsignal(n) for n in (signal.SIGTERM, *passed_on)}
    for number in passed_on:
        if before[number] != signal.SIG_IGN:  # as it is after nohup, and in the background of a script
            signal.signal(number, pass_on)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
