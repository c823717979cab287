"""Keeps the record of replicas that train as one: what each of them is, how its p went, what came out."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytorch_lightning as pl

from concrete_dropout.callbacks.checkpoints import AtomicCheckpointIO
from concrete_dropout.callbacks.convergence import Convergence, Criterion, convergence
from concrete_dropout.callbacks.loggers import log_lines, log_scalars, log_table, logging_interval
from concrete_dropout.callbacks.pace import logit_pace
from concrete_dropout.callbacks.replica_results import pooled_calibration, pooled_uncertainty
from concrete_dropout.callbacks.tables import cut_table, replace_table
from concrete_dropout.runfolder import (
    CALIBRATION,
    CHECKPOINTS,
    CONVERGENCE,
    DROPOUT,
    REPLICA_LABELS,
    REPLICAS,
    UNCERTAINTY,
    RunFolder,
)
from concrete_dropout.tasks.replicas import ReplicatedTask

REPLICA_FOLDER = "replicas"
REPLICA_DROPOUT_HEADER = ("step", "replica", "layer", "p")

log = logging.getLogger(__name__)


class ReplicaRecord(pl.Callback):
    """For a ``ReplicatedTask``, in the place of the monitors of a single run; ``RunRecord`` works beside it as it is.

    Leaves in the run folder:

    - ``replicas.json`` from the start: {"keys": [...], "labels": [{key: value}, ...]}
    - ``dropout.csv`` (step, replica, layer, p) at step 0, at every logging step and at the end; the loggers get the
      mean over replicas as ``dropout_p/<layer>``
    - ``replicas.csv`` after the fit, after every validation of it and after the test, one row per replica: its number
      and keys, num_train, val/... and test/... scalars, p/<layer>, converged
    - ``convergence.json``, judged for each replica; the numbers are of the mean p
    - ``calibration.json`` and ``uncertainty.json``, pooled over the points of all replicas
    - ``replicas/<number>/checkpoints/last.ckpt`` after the fit: a checkpoint of the ordinary task

    Args:
        folder: the run folder.
        labels: what sets each replica apart, by config key: [{"data.split": 0}, ...].
        criterion: when p counts as converged or saturated.
    """

    def __init__(
        self, folder: str | Path, labels: Sequence[Mapping[str, Any]], criterion: Criterion | None = None
    ) -> None:
        self.folder = RunFolder(folder)
        self.labels = [dict(label) for label in labels]
        self.keys = list(dict.fromkeys(key for label in self.labels for key in label))
        self.criterion = criterion or Criterion()
        self._initial: dict[str, list[float]] = {}
        self._steps: list[int] = []
        self._history: dict[str, list[list[float]]] = {}  # {layer: for each step, p of all replicas}
        self._judgements: list[dict[str, Convergence]] = []

    # Hooks ------------------------------------------------------------------------------------------------------

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Write down what the replicas are, and keep p as the models were built: a checkpoint is loaded after this."""
        task = _replicated(pl_module)
        if len(self.labels) != len(task.tasks):
            raise ValueError(f"{len(self.labels)} labels for {len(task.tasks)} replicas")
        self.folder.write_json(REPLICA_LABELS, {"keys": self.keys, "labels": self.labels})
        if stage == "fit":
            self._initial = _active(task)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Take up the table of a run that is resumed, and record where this one starts."""
        task = _replicated(pl_module)
        self._steps, self._history, self._judgements = [], {name: [] for name in self._initial}, []
        kept = cut_table(self.folder, DROPOUT, REPLICA_DROPOUT_HEADER, before=trainer.global_step)
        for row in kept:
            step, replica = int(row["step"]), int(row["replica"])
            if not self._steps or self._steps[-1] != step:
                self._steps.append(step)
            if row["layer"] in self._history:
                ps = self._history[row["layer"]]
                if replica == 0:
                    ps.append([math.nan] * len(task.tasks))
                ps[-1][replica] = float(row["p"])
        self._record(trainer, task)

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Record p after every n-th step; why not in ``on_train_batch_end``, see ``callbacks.loggers``."""
        every = logging_interval(trainer)
        if every and trainer.global_step % every == 0:
            self._record(trainer, _replicated(pl_module))

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write what came out."""
        if not trainer.sanity_checking:
            self._write_results(trainer, _replicated(pl_module), "val")

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Record the last p, and judge whether it has converged."""
        task = _replicated(pl_module)
        self._record(trainer, task)
        self._judge(trainer, task)
        self._write_table(task)
        means = {name: (self._steps, [_mean(ps) for ps in rows]) for name, rows in self._history.items()}
        title = "Dropout probability of each layer, mean over replicas"
        log_lines(trainer, "dropout_p", means, title=title, x_name="step", step=trainer.global_step)

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write an ordinary checkpoint of each replica: with the final M step, which comes after ``on_train_end``."""
        task = _replicated(pl_module)
        for index, replica in enumerate(task.tasks):
            checkpoint = {
                "epoch": trainer.current_epoch,
                "global_step": trainer.global_step,
                "pytorch-lightning_version": version("pytorch-lightning"),
                "state_dict": replica.state_dict(),
            }
            AtomicCheckpointIO().save_checkpoint(checkpoint, self.folder.path / replica_checkpoint(index))

    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write what came out."""
        task = _replicated(pl_module)
        self._write_results(trainer, task, "test")
        header, rows = self._table(task)
        log_table(trainer, "replicas", header, rows, trainer.global_step)

    # Writing ----------------------------------------------------------------------------------------------------

    def _record(self, trainer: pl.Trainer, task: ReplicatedTask) -> None:
        step, layers = trainer.global_step, _active(task)
        if not layers or (self._steps and self._steps[-1] == step):
            return
        rows = [(step, replica, name, ps[replica]) for replica in range(len(task.tasks)) for name, ps in layers.items()]
        self.folder.append_rows(DROPOUT, REPLICA_DROPOUT_HEADER, rows)
        self._steps.append(step)
        for name, ps in layers.items():
            self._history[name].append(ps)
        log_scalars(trainer, {f"dropout_p/{name}": _mean(ps) for name, ps in layers.items()}, step)

    def _first(self) -> dict[str, list[float]]:
        """{layer: p of each replica before the first step}; a run resumed in a new folder has no row of it."""
        if not self._steps or self._steps[0] != 0:
            return self._initial
        return {name: rows[0] for name, rows in self._history.items()}

    def _judge(self, trainer: pl.Trainer, task: ReplicatedTask) -> None:
        kinds = task.stacked.kinds

        def judge(name: str, ps: list[float], initial: float) -> Convergence:
            learned = kinds[name] == "concrete"
            return convergence(self._steps, ps, learned=learned, initial=initial, criterion=self.criterion, pace=pace)

        first, pace = self._first(), logit_pace(trainer)
        self._judgements = [
            {
                name: judge(name, [ps[replica] for ps in rows], first[name][replica])
                for name, rows in self._history.items()
            }
            for replica in range(len(task.tasks))
        ]
        layers: dict[str, Any] = {}
        for name, rows in self._history.items():
            mean = judge(name, [_mean(ps) for ps in rows], _mean(first[name]))
            each = [judgement[name] for judgement in self._judgements]
            settled = sum(judgement.converged for judgement in each)
            counts = {"converged_replicas": settled, "num_replicas": len(each)}
            layers[name] = {**mean.as_dict(), "converged": settled == len(each), **counts}
            if settled < len(each):
                log.warning(
                    "dropout p of %s has not converged in %d of %d replicas; its mean is %.3f. Train longer, or raise "
                    "optim.p_lr.",
                    name,
                    len(each) - settled,
                    len(each),
                    mean.final,
                )
        everything = all(layer["converged"] for layer in layers.values())
        criterion = f"{self.criterion} A layer has converged when it has in every replica."
        self.folder.write_json(CONVERGENCE, {"layers": layers, "converged": everything, "criterion": criterion})

    def _write_results(self, trainer: pl.Trainer, task: ReplicatedTask, stage: str) -> None:
        results = [result[stage] for result in task.results if stage in result]
        if results:
            self.folder.update_json(CALIBRATION, **{stage: pooled_calibration(results)})
            self.folder.update_json(UNCERTAINTY, **{stage: pooled_uncertainty(results)})
        self._write_table(task)

    def _write_table(self, task: ReplicatedTask) -> None:
        replace_table(self.folder, REPLICAS, *self._table(task))

    def _table(self, task: ReplicatedTask) -> tuple[list[str], list[list[Any]]]:
        """Header and rows of replicas.csv."""
        layers = _active(task)
        scalars = [
            {f"{stage}/{name}": value for stage, result in results.items() for name, value in result.scalars.items()}
            for results in task.results
        ]
        names = list(dict.fromkeys(name for row in scalars for name in row))
        initial = self._first()
        header = ["replica", *self.keys, "num_train", *names]
        header += [*(f"p/{name}" for name in layers), *(f"initial_p/{name}" for name in initial), "converged"]
        rows: list[list[Any]] = []
        for index, (replica, label, values) in enumerate(zip(task.tasks, self.labels, scalars, strict=True)):
            judged = self._judgements[index].values() if self._judgements else None
            row = [index, *(label.get(key, "") for key in self.keys), replica.num_train]
            row += [*(values.get(name, "") for name in names), *(ps[index] for ps in layers.values())]
            row += [ps[index] for ps in initial.values()]
            rows.append([*row, "" if judged is None else all(judgement.converged for judgement in judged)])
        return header, rows


def replica_checkpoint(index: int) -> str:
    """Where the checkpoint of one replica is in a run folder."""
    return f"{REPLICA_FOLDER}/{index}/{CHECKPOINTS}/last.ckpt"


def _replicated(task: pl.LightningModule) -> ReplicatedTask:
    if not isinstance(task, ReplicatedTask):
        raise TypeError(f"ReplicaRecord is for a ReplicatedTask, not for a {type(task).__name__}")
    return task


def _active(task: ReplicatedTask) -> dict[str, list[float]]:
    """{layer: p of each replica} of the dropouts that drop something."""
    kinds = task.stacked.kinds
    return {name: ps for name, ps in task.stacked.probabilities().items() if kinds[name] != "none"}


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
