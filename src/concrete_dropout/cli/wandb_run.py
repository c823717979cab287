"""A W&B run that training does not depend on: what cannot be logged is left out, with one warning."""

from __future__ import annotations

import atexit
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

from lightning_fabric.loggers.logger import _DummyExperiment, rank_zero_experiment
from pytorch_lightning.loggers import WandbLogger as LightningsLogger

_log = logging.getLogger(__name__)
SAID = "W&B is left out from here on, the run folder has everything: %s: %s"


def _harmless(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that does nothing any more once W&B has failed."""

    @wraps(method)
    def call(self: WandbLogger, *args: Any, **kwargs: Any) -> Any:
        if self.failed:
            return None
        try:
            return method(self, *args, **kwargs)
        except Exception as error:  # its process or the network may go away in any way
            self.fail(error)
            return None

    return call


class WandbLogger(LightningsLogger):
    """Lightning's logger, which outlives its service. The name is the one under which run.json has it."""

    failed = False

    def fail(self, error: Exception) -> None:
        """Go on without W&B."""
        if not self.failed:  # what follows from it need not be told
            _log.warning(SAID, type(error).__name__, " ".join(str(error).split()))
        self.failed = True

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
        """The W&B run; one that takes everything and keeps nothing where W&B cannot start."""
        if self.failed and self._experiment is None:
            return _DummyExperiment()
        try:
            return super().experiment
        except Exception as error:
            self.fail(error)
            return _DummyExperiment()

    log_metrics = _harmless(LightningsLogger.log_metrics)
    log_hyperparams = _harmless(LightningsLogger.log_hyperparams)
    log_table = _harmless(LightningsLogger.log_table)
    log_image = _harmless(LightningsLogger.log_image)
    finalize = _harmless(LightningsLogger.finalize)


def close_wandb() -> None:
    """End the W&B run, if there is one: otherwise the next job of a sweep would write into it.

    Where its process is gone, what is left of the connection goes too: the next job would take it for a new one.
    """
    if "wandb" not in sys.modules:
        return
    atexit.unregister(_disconnect)
    atexit.register(_disconnect)  # in front of W&B's own, which fails with a traceback where its process is gone
    wandb: Any = sys.modules["wandb"]
    try:
        wandb.finish()
    except Exception as error:
        _log.warning("the W&B run could not be closed: %s: %s", type(error).__name__, error)
        _disconnect()


def _disconnect() -> None:
    wandb: Any = sys.modules["wandb"]
    with suppress(Exception):
        wandb.teardown()


def earlier_id(folder: Path) -> str | None:
    """The id of the W&B run that a run folder has already: a run that goes on is the same run.

    The folders are named run-TIME-ID, or offline-run-TIME-ID.
    """
    found = sorted(folder.glob("wandb/*run-*-*"), key=lambda path: path.stat().st_mtime)
    return found[-1].name.rpartition("-")[2] if found else None
