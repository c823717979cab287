"""The folder of a command is its own: nobody else writes into it, and no earlier run is overwritten by chance."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from concrete_dropout.cli.leftovers import discard
from concrete_dropout.cli.overrides import override
from concrete_dropout.errors import UserError
from concrete_dropout.folderlock import alone_in
from concrete_dropout.runfolder import new_folder

USER_ERROR = 2
RANKS = ("SLURM_PROCID", "RANK")
WAYS_OUT = {"run": "name another folder with hydra.run.dir=...", "sweep": "name another one with hydra.sweep.dir=..."}


def is_first_process() -> bool:
    """Whether this is the first process of a job that Slurm or torchrun has started, or one that nobody else has."""
    return next((os.environ[name] for name in RANKS if os.environ.get(name)), "0") == "0"


@contextmanager
def own_folder(folder: Path) -> Iterator[None]:
    """Have the folder of a run for this process, and for further ones of the same run.

    Raises:
        UserError: another process has it.
    """
    with ExitStack() as stack:
        if is_first_process():
            stack.enter_context(alone_in(folder, WAYS_OUT["run"]))
        yield


class OwnFolder(Callback):
    """Hydra's view of a start: before it writes anything, the folder is taken, and is a new one unless it was named.

    Attributes:
        folder: of the command, once it is taken.
        output_dir: of all runs.
        held: closes with the command.
    """

    folder: Path | None = None
    output_dir: Path = Path()
    held = ExitStack()

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        """One run, or a study."""
        _take(config, "run")

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """A sweep."""
        _take(config, "sweep")


def discard_unstarted() -> None:
    """Remove the folder of a command that was stopped before its run had begun."""
    if OwnFolder.folder is not None:
        discard(OwnFolder.folder, OwnFolder.output_dir)


def _take(config: DictConfig, kind: str) -> None:
    """Take the folder of a command, or end it with one message: Hydra would turn an error into a warning."""
    OwnFolder.folder = None
    if not is_first_process():
        return
    try:
        folder = Path(str(config.hydra[kind].dir)).absolute()
        is_named = any(str(entry).startswith(f"hydra.{kind}.dir=") for entry in config.hydra.overrides.hydra)
        if not is_named:
            folder = _new(config, kind, folder)
        OwnFolder.held.enter_context(alone_in(folder, WAYS_OUT[kind]))
        OwnFolder.folder, OwnFolder.output_dir = folder, Path(str(config.paths.output_dir))
    except UserError as error:
        print(f"\nError: {error}", file=sys.stderr)
        sys.exit(USER_ERROR)
    except (OSError, OmegaConfBaseException, ValueError):
        return  # it cannot be made, or Hydra knows its name later only: the run itself says so, or takes it


def _new(config: DictConfig, kind: str, wanted: Path) -> Path:
    """A folder that was not there; the config gets its name where that is another one."""
    folder = new_folder(wanted)
    if folder != wanted:
        with read_write(config.hydra), open_dict(config.hydra):
            config.hydra[kind].dir = str(folder)
            # The config of a sweep's job is composed anew from these.
            config.hydra.overrides.hydra.append(override(f"hydra.{kind}.dir", str(folder)))
    return folder
