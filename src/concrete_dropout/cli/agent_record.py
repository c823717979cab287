"""What an agent's run leaves behind: run.json, metrics.csv, dropout.csv, control.json, videos, and the same in W&B."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.loggers import Logger, WandbLogger

from concrete_dropout.callbacks.convergence import Criterion, convergence
from concrete_dropout.callbacks.loggers import log_made
from concrete_dropout.callbacks.network import active_layers
from concrete_dropout.callbacks.run_record import described_layers, ending, logger_paths, now
from concrete_dropout.callbacks.tables import cut_table
from concrete_dropout.runfolder import (
    CHECKPOINTS,
    CONTROL,
    CONVERGENCE,
    DROPOUT,
    DROPOUT_HEADER,
    METRICS,
    METRICS_HEADER,
    RUN,
    SUMMARY,
    VIDEOS,
    RunFolder,
)

P_EVERY = 20  # optimiser steps between two rows of dropout.csv


class FitTrace(pl.Callback):
    """Counts the optimiser steps of all fits, and notes p in each of them.

    Attributes:
        step: of all fits that are over.
        losses: the last training metrics of the last one.
        verdicts: {layer: convergence of p in the last one}, plain values.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.step = 0
        self.losses: dict[str, float] = {}
        self.verdicts: dict[str, dict[str, Any]] = {}
        self._steps: list[int] = []
        self._ps: dict[str, list[float]] = {}

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin the history of p anew: what counts is whether it settled on the data of this fit."""
        self._steps, self._ps = [], {}

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """A row per layer now and then."""
        if trainer.global_step % P_EVERY == 0:
            self._note(trainer.global_step, pl_module)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """The end of a fit."""
        if trainer.global_step % P_EVERY:
            self._note(trainer.global_step, pl_module)
        self.step += trainer.global_step
        self.losses = {name: float(value) for name, value in trainer.callback_metrics.items()}
        learned = {row.module: row.kind == "concrete" for row in active_layers(pl_module)}
        self.verdicts = {
            layer: convergence(self._steps, ps, learned=learned[layer]).as_dict() for layer, ps in self._ps.items()
        }

    def _note(self, step: int, task: pl.LightningModule) -> None:
        rows = active_layers(task)
        self._steps.append(step)
        for row in rows:
            self._ps.setdefault(row.module, []).append(row.p)
        self.folder.append_rows(DROPOUT, DROPOUT_HEADER, [(self.step + step, row.module, row.p) for row in rows])


class AgentRecord:
    """Writes the record of an agent's run, episode by episode, so that a killed run says how far it came.

    Args:
        folder: of the run.
        facts: what only the entry point knows.
        loggers: that get the numbers of every episode.
    """

    def __init__(self, folder: Path, facts: Mapping[str, Any], loggers: Sequence[Logger] = ()) -> None:
        self.files, self.facts, self.loggers = RunFolder(folder), dict(facts), list(loggers)
        self.trace = FitTrace(self.files)
        self._record: dict[str, Any] = {}
        self._metrics: dict[str, float] = {}

    def start(self, task: pl.LightningModule, episode: int, step: int) -> None:
        """Begin, or take up the files where the checkpoint of an episode was saved."""
        before = self.files.read_json(RUN) or {}
        self._record = {
            "num_parameters": sum(parameter.numel() for parameter in task.parameters()),
            "loggers": logger_paths(self.loggers, self.files.path),
            "checkpoints": {"last": None, "best": None},
            **self.facts,
            "state": "running",
            "error": None,
            "started": now(),
            "ended": None,
            "step": step,
            "episode": episode,
            "layers": described_layers(task),
        }
        if episode:
            for key in ("started", "layers", "checkpoints"):
                self._record[key] = before.get(key) or self._record[key]
        self.trace.step = step
        rows = cut_table(self.files, METRICS, METRICS_HEADER, before=step + 1 if episode else 0)
        cut_table(self.files, DROPOUT, DROPOUT_HEADER, before=step + 1 if episode else 0)
        self._metrics = {row["metric"]: float(row["value"]) for row in rows}
        known = (self.files.read_json(CONTROL) or {}).get("episodes", [])
        kept = [entry for entry in known if entry.get("episode", math.inf) <= episode]
        self.files.update_json(CONTROL, episodes=kept)
        self.files.write_json(RUN, self._record)

    def note(self, metrics: Mapping[str, float], entry: Mapping[str, Any], task: pl.LightningModule) -> None:
        """What came of an episode: ``metrics`` for tables and loggers, ``entry`` for control.json."""
        step, episode = self.trace.step, int(entry["episode"])
        finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
        self.files.append_rows(METRICS, METRICS_HEADER, [(step, episode, *pair) for pair in finite.items()])
        known = (self.files.read_json(CONTROL) or {}).get("episodes", [])
        self.files.update_json(CONTROL, episodes=[*known, dict(entry)])
        self._metrics |= finite
        self._record |= {"step": step, "episode": episode}
        self.files.write_json(RUN, self._record)
        initial = {layer["name"]: layer["initial_p"] for layer in self._record["layers"]}
        ps = {row.module: {"initial": initial.get(row.module), "final": row.p} for row in active_layers(task)}
        self.files.write_json(CONVERGENCE, {"criterion": str(Criterion()), "layers": self.trace.verdicts})
        self.files.write_json(SUMMARY, {"metrics": self._metrics, "probabilities": ps})
        for logger in self.loggers:
            logger.log_metrics({**finite, "episode": episode}, step)

    def video(self, name: str, content: bytes, caption: str) -> str:
        """Keep a GIF; its path in the run folder."""
        path = self.files.write_bytes(f"{VIDEOS}/{name}.gif", content)
        for logger in self.loggers:
            if isinstance(logger, WandbLogger):
                import wandb

                film = partial(wandb.Video, str(path), caption=caption)
                log_made(logger, f"{VIDEOS}/{name}", film, self.trace.step)
        return f"{VIDEOS}/{path.name}"

    def saved(self, name: str) -> None:
        """A checkpoint was written."""
        self._record["checkpoints"] = {**self._record["checkpoints"], "last": f"{CHECKPOINTS}/{name}"}
        self.files.write_json(RUN, self._record)

    def finish(self) -> None:
        """The run has done all that it was asked for."""
        self._close("finished", None)

    def fail(self, error: BaseException) -> None:
        """The run has ended before its time."""
        self._close(*ending(error))

    def _close(self, state: str, error: str | None) -> None:
        self._record = self._record or self.files.read_json(RUN) or {}
        self._record |= {"state": state, "error": error, "ended": now()}
        self.files.write_json(RUN, self._record)
