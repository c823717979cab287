"""Keeps run.json, metrics.csv and summary.json: what the run is, how far it has come, how it ended."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import Logger, WandbLogger
from pytorch_lightning.trainer.states import TrainerFn
from pytorch_lightning.utilities import rank_zero_only

from concrete_dropout.callbacks.loggers import logging_interval
from concrete_dropout.callbacks.network import active_layers, dropout_layers
from concrete_dropout.callbacks.tables import cut_table
from concrete_dropout.errors import as_user_error
from concrete_dropout.runfolder import METRICS, METRICS_HEADER, RUN, SUMMARY, RunFolder

EVALUATION = ("val/", "test/")


class RunRecord(pl.Callback):
    """Writes the record of a run from its start on, so that a killed run says how far it came.

    The state is "running" until ``finish()`` is called: fit and test are two calls, and only the entry point
    knows when the last is done. An exception inside of the trainer makes it "failed", or "interrupted" for Ctrl-C and
    SIGTERM; for one outside there is ``fail``. A step is the number of optimiser steps that were made.

    Args:
        folder: the run folder.
        facts: what only the entry point knows: experiment, dropout, command, commit, seed, hardware, versions,
            num_train, kl_weight, ... They go into run.json as they are.
        step_every_seconds: how often the step in run.json is renewed.
    """

    def __init__(
        self, folder: str | Path, facts: Mapping[str, Any] | None = None, step_every_seconds: float = 5.0
    ) -> None:
        self.folder = RunFolder(folder)
        self.facts = dict(facts or {})
        self.step_every_seconds = step_every_seconds
        self._record: dict[str, Any] = {}
        self._previous: dict[str, Any] = {}
        self._written_at = -math.inf
        self._last_steps: dict[str, int] = {}
        self._metrics: dict[str, float] = {}
        self._step_metrics: set[str] | None = None
        self._final_p: dict[str, float] = {}

    # The life of a run ------------------------------------------------------------------------------------------

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Start the record, with p as the model was built: a checkpoint is loaded after this."""
        if not trainer.is_global_zero or self._record:
            return
        self._previous = self.folder.read_json(RUN) or {}
        self._record = {
            "num_parameters": sum(parameter.numel() for parameter in pl_module.parameters()),
            "device": _device(trainer),
            "max_steps": None,
            "loggers": logger_paths(trainer.loggers, self.folder.path),
            "checkpoints": {"last": None, "best": None},
            **self.facts,
            "state": "running",
            "error": None,
            "started": now(),
            "ended": None,
            "step": 0,
            "layers": described_layers(pl_module),
        }
        self._save()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin the table of metrics, or take it up where the checkpoint was saved."""
        if not trainer.is_global_zero:
            return
        self._step_metrics, step = None, trainer.global_step
        # Rows of the checkpoint's own step were there when it was saved, and most are not computed again.
        self._take_up(cut_table(self.folder, METRICS, METRICS_HEADER, before=step + 1 if step else 0))
        if self._record["max_steps"] in (None, -1):
            steps = trainer.estimated_stepping_batches
            self._record["max_steps"] = int(steps) if math.isfinite(steps) else None
        self._advance(trainer)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Record the training metrics at logging steps."""
        if not trainer.is_global_zero:
            return
        if self._step_metrics is None:  # those of an epoch come with its end
            self._step_metrics = set(trainer.callback_metrics)
        every = logging_interval(trainer)
        if every and trainer.global_step % every == 0:
            self._log(trainer, _is_training)
        if time.monotonic() - self._written_at >= self.step_every_seconds:
            self._advance(trainer)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Record the metrics that are averages over the epoch."""
        known = self._step_metrics or set()
        self._log(trainer, lambda name: _is_training(name) and name not in known)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Record the validation metrics."""
        if not trainer.sanity_checking:
            self._log(trainer, lambda name: name.startswith("val/"))

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Record where training ended; a short run has its only training metrics here."""
        self._log(trainer, _is_training)
        self._conclude(trainer, pl_module)

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Record the checkpoints: the last may have been written after this callback's turn."""
        if trainer.is_global_zero:
            self._advance(trainer)

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Take up the table of a run that was stopped in its test: its fit has nothing left to start."""
        if trainer.is_global_zero and not self._metrics:
            self._take_up(cut_table(self.folder, METRICS, METRICS_HEADER, before=math.inf))
            self._record["max_steps"] = self._record["max_steps"] or self._previous.get("max_steps")

    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Record the test metrics, and p of the weights that were tested."""
        self._log(trainer, lambda name: name.startswith("test/"))
        self._conclude(trainer, pl_module)

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Record what stopped the run; on a full disk, which may be it, there is no room for that."""
        with suppress(OSError):
            if trainer.is_global_zero and self._record:
                self._record["step"] = max(self._record["step"], trainer.global_step)
                self._record["checkpoints"] = self._checkpoints(trainer)
                if trainer.state.fn == TrainerFn.FITTING:  # a test has the weights of a fit, whose summary is written
                    self._final_p = {row.module: row.p for row in active_layers(pl_module)}
                    self._write_summary()
            self.fail(exception)

    @rank_zero_only
    def finish(self) -> None:
        """The run has done all that it was asked for."""
        self._close("finished", None)

    @rank_zero_only
    def fail(self, error: BaseException) -> None:
        """The run has ended before its time."""
        self._close(*ending(error))

    # Writing ----------------------------------------------------------------------------------------------------

    def _take_up(self, rows: list[dict[str, str]]) -> None:
        """Go on from these rows of the table; without any the run is a new one."""
        self._last_steps = {row["metric"]: int(row["step"]) for row in rows}
        self._metrics = {row["metric"]: float(row["value"]) for row in rows}
        for key in ("started", "layers") if rows else ():
            self._record[key] = self._previous.get(key) or self._record[key]

    def _log(self, trainer: pl.Trainer, wanted: Callable[[str], bool]) -> None:
        metrics = trainer.callback_metrics  # on every rank: it may reduce over them
        if not trainer.is_global_zero:
            return
        step = max(trainer.global_step, self._record.get("step", 0))
        values = {name: float(value) for name, value in metrics.items() if wanted(name)}
        fresh = {name: value for name, value in values.items() if self._last_steps.get(name) != step}
        if fresh:
            rows = [(step, trainer.current_epoch, name, value) for name, value in fresh.items()]
            self.folder.append_rows(METRICS, METRICS_HEADER, rows)
            self._last_steps |= dict.fromkeys(fresh, step)
            self._metrics |= fresh

    def _conclude(self, trainer: pl.Trainer, task: pl.LightningModule) -> None:
        if trainer.is_global_zero:
            self._final_p = {row.module: row.p for row in active_layers(task)}
            self._advance(trainer)
            self._write_summary()

    def _advance(self, trainer: pl.Trainer) -> None:
        self._record["step"] = max(self._record["step"], trainer.global_step)
        self._record["checkpoints"] = self._checkpoints(trainer)
        self._save()

    def _close(self, state: str, error: str | None) -> None:
        # Spawned processes write the record; the one that launched them has only the file.
        self._record = self._record or self.folder.read_json(RUN) or {}
        if self._record:
            self._record |= {"state": state, "error": error, "ended": now()}
            self._save()

    def _save(self) -> None:
        self.folder.write_json(RUN, self._record)
        self._written_at = time.monotonic()

    def _write_summary(self) -> None:
        initial = {layer["name"]: layer["initial_p"] for layer in self._record.get("layers", [])}
        ps = {name: {"initial": initial.get(name), "final": p} for name, p in self._final_p.items()}
        self.folder.write_json(SUMMARY, {"metrics": self._metrics, "probabilities": ps})

    def _checkpoints(self, trainer: pl.Trainer) -> dict[str, str | None]:
        paths: dict[str, str | None] = dict(self._record["checkpoints"])
        for callback in trainer.checkpoint_callbacks:
            if not isinstance(callback, ModelCheckpoint):
                continue
            best = callback.best_model_path
            # Without a monitor the "best" one is simply the newest.
            found = {"last": callback.last_model_path or ("" if callback.monitor else best)}
            found["best"] = best if callback.monitor else ""
            paths |= {key: relative(path, self.folder.path) for key, path in found.items() if path}
        return paths


def relative(path: str | Path, folder: Path) -> str:
    """A path as seen from the run folder; one outside of it in full, because it does not move along."""
    absolute, root = Path(path).absolute(), folder.absolute()
    return os.path.relpath(absolute, root) if absolute.is_relative_to(root) else str(absolute)


def described_layers(task: pl.LightningModule) -> list[dict[str, Any]]:
    """The dropout layers of a task's network as run.json has them."""
    return [
        {"name": row.module, "kind": row.kind, "initial_p": row.p, "owners": list(row.owners), "K": row.num_entries}
        for row in dropout_layers(task)
    ]


def ending(error: BaseException) -> tuple[str, str]:
    """How run.json names an end before its time: "interrupted" or "failed", and the message."""
    # SIGTERM reaches a trainer as a kind of SystemExit.
    state = "interrupted" if isinstance(error, (KeyboardInterrupt, SystemExit)) else "failed"
    return state, str(as_user_error(error) or f"{type(error).__name__}: {error}".rstrip(": "))


def logger_paths(loggers: Sequence[Logger], folder: Path) -> dict[str, str | None]:
    """Where loggers keep what they log, as seen from the run folder."""
    paths: dict[str, str | None] = {"wandb": None}
    for logger in loggers:
        name = type(logger).__name__.removesuffix("Logger").lower()
        # W&B's own folder is the parent of the one for files.
        place = _wandb_folder(logger) if isinstance(logger, WandbLogger) else logger.log_dir
        paths[name] = relative(place, folder) if place else None
    return paths


def _wandb_folder(logger: WandbLogger) -> Path | None:
    """The folder of the W&B run; None where W&B could not start."""
    files = getattr(logger.experiment, "dir", None)
    return Path(files).parent if isinstance(files, (str, Path)) else None


def _device(trainer: pl.Trainer) -> str:
    """Where the network is, and in how many processes."""
    kind = trainer.strategy.root_device.type
    return kind if trainer.world_size == 1 else f"{kind}, {trainer.world_size} processes"


def _is_training(name: str) -> bool:
    return not name.startswith(EVALUATION)


def now() -> str:
    """The time, with its zone."""
    return datetime.now(timezone.utc).astimezone().isoformat(timespec="seconds")
