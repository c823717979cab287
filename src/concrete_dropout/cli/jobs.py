"""What a sweep leaves about its jobs: job.json in each of their folders, sweep.json beside them. No torch here.

Jobs may run in other processes and on other machines. What became of them is read from these files alone.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig, OmegaConf

from concrete_dropout import runfolder
from concrete_dropout.cli.occupancy import is_first_process
from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import RunFolder

JOB, SWEEP = runfolder.JOB, runfolder.SWEEP
FINISHED, FAILED, RUNNING = "finished", "failed", "running"
NOT_OF_THE_SWEEP = ("resume", "hydra.sweep.dir", "hydra.mode")  # in which the command that takes it up again differs


class JobRecords(Callback):
    """Writes the files, from Hydra's view of a sweep."""

    sweep: Path | None = None  # of this process, where it makes one

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Say what the sweep is, so that it can be taken up again whenever it is stopped."""
        folder = Path(config.hydra.sweep.dir).absolute()
        arguments = own_arguments([*texts(config.hydra.overrides.task), *texts(config.hydra.overrides.hydra)])
        swept = [*_swept(arguments), *map(str, config.hydra.sweeper.get("params") or [])]
        RunFolder(folder).write_json(SWEEP, {"arguments": arguments, "swept": swept, "started": _now()})
        JobRecords.sweep = folder

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """A job begins."""
        if _is_of_a_sweep(config):
            overrides = texts(config.hydra.overrides.task)
            files = RunFolder(Path(config.hydra.runtime.output_dir))
            started: dict[str, Any] = {"state": RUNNING, "error": None, "started": _now(), "ended": None}
            started |= {"host": socket.gethostname(), "pid": os.getpid()}
            files.write_json(JOB, {"num": config.hydra.job.num, "overrides": overrides, **started})

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        """A job has ended, well or not."""
        if not _is_of_a_sweep(config):
            return
        failed = job_return.status == JobStatus.FAILED
        state, error = (FAILED, told(job_return._return_value)) if failed else (FINISHED, None)
        files = RunFolder(Path(config.hydra.runtime.output_dir))
        files.update_json(JOB, state=state, error=error, ended=_now())


def told(error: Any) -> str:
    """An error in one line, without the name of its class where it is meant for users."""
    text = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())


def read_jobs(folder: Path) -> list[dict[str, Any]]:
    """The records of a sweep's jobs by their number, each with the name of its "folder"; damaged ones are left out."""
    found = []
    for path in folder.glob(f"*/{JOB}"):
        try:
            found.append({**json.loads(path.read_text()), "folder": path.parent.name})
        except (OSError, ValueError, TypeError):
            continue
    return sorted(found, key=lambda job: int(job.get("num", 0)))


def own_arguments(arguments: Any) -> list[str]:
    """What makes a sweep the one that it is, in any order."""
    return sorted(entry for entry in arguments if entry.partition("=")[0] not in NOT_OF_THE_SWEEP)


def newest_sweep(place: Path, arguments: Sequence[str]) -> Path:
    """The newest sweep in a folder that was started by these arguments.

    Raises:
        UserError: there is none.
    """
    wanted = own_arguments(arguments)
    for path in sorted(place.glob(f"*/{SWEEP}"), key=lambda path: path.stat().st_mtime, reverse=True):
        if (RunFolder(path.parent).read_json(SWEEP) or {}).get("arguments") == wanted:
            return path.parent
    raise UserError(
        f"resume=true: there is no sweep of this command in {place}. Use the same arguments as before, or name its "
        "folder with hydra.sweep.dir=..."
    )


def texts(entries: Any) -> list[str]:
    """Overrides as they were typed: a value may be an interpolation, which Hydra has escaped and has no value yet."""
    found: Any = OmegaConf.to_container(entries, resolve=False)
    return [str(entry).replace("$\\{", "${").replace("\\}", "}") for entry in found]


def saved_overrides(path: Path) -> list[str]:
    """What Hydra has saved of a job's command.

    Raises:
        UserError: the file is damaged, or something else.
    """
    try:
        entries = OmegaConf.load(path)
        if not isinstance(entries, ListConfig):
            raise ValueError("no list")
        return texts(entries)
    except Exception as error:  # of the file, of YAML, of interpolations
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path} cannot be read ({reason}): delete it, and repeat the run's settings") from error


def _swept(arguments: Sequence[str]) -> list[str]:
    """The keys that have several values on the command line."""
    parsed = OverridesParser.create().parse_overrides(list(arguments))
    return [override.key_or_group for override in parsed if override.is_sweep_override()]


def _is_of_a_sweep(config: DictConfig) -> bool:
    """Whether this is the first process of a sweep's job."""
    return bool(config.hydra.mode == RunMode.MULTIRUN and is_first_process())


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
