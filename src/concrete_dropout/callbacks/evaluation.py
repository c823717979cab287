"""What monitors of single predictions share: every batch of an evaluation, with the place of its rows in the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch.distributed
from pytorch_lightning.trainer.states import TrainerFn

from concrete_dropout.callbacks.stages import CategoricalOutput, categorical_output, num_evaluated
from concrete_dropout.runfolder import RunFolder


class EvaluationMonitor(pl.Callback, ABC):
    """Follows the evaluations of a task that predicts classes; other tasks and the sanity check pass by unseen.

    Args:
        folder: the run folder.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = RunFolder(folder)
        self._rows = 0  # that this process has seen of the evaluation
        self._total: int | None = None  # rows of all processes

    @abstractmethod
    def begin(self, stage: str, total: int | None) -> None:
        """Forget the last evaluation; ``total`` rows are to come, None where that is not known."""

    @abstractmethod
    def collect(self, trainer: pl.Trainer, stage: str, output: CategoricalOutput, indices: list[int]) -> None:
        """See a batch; ``indices`` are the numbers of its rows in the part."""

    @abstractmethod
    def finish(self, trainer: pl.Trainer, stage: str) -> None:
        """Write what was collected; called in every process."""

    @abstractmethod
    def show(self, trainer: pl.Trainer, stage: str) -> None:
        """Log what was written last: after the fit, after a test, and after ``trainer.validate``."""

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin anew."""
        self._begin(trainer, "val")

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin anew."""
        self._begin(trainer, "test")

    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """See a batch."""
        self._collect(trainer, "val", outputs, dataloader_idx)

    def on_test_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """See a batch."""
        self._collect(trainer, "test", outputs, dataloader_idx)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write; what is logged once waits for the end of the fit, unless this is ``trainer.validate``."""
        self._finish(trainer, "val", shown=trainer.state.fn == TrainerFn.VALIDATING)

    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write and log."""
        self._finish(trainer, "test", shown=True)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the last validation."""
        if trainer.is_global_zero:
            self.show(trainer, "val")

    def _begin(self, trainer: pl.Trainer, stage: str) -> None:
        self._rows, self._total = 0, num_evaluated(trainer, stage)
        self.begin(stage, self._total)

    def _collect(self, trainer: pl.Trainer, stage: str, outputs: Any, dataloader_idx: int) -> None:
        output = categorical_output(outputs)
        # Only the first loader has the data module's part in its order.
        if output is None or trainer.sanity_checking or dataloader_idx:
            return
        rows = len(output.targets)
        indices = part_indices(self._rows, rows, trainer.global_rank, trainer.world_size, self._total)
        self._rows += rows
        self.collect(trainer, stage, output, indices)

    def _finish(self, trainer: pl.Trainer, stage: str, shown: bool) -> None:
        if not self._rows or trainer.sanity_checking:
            return
        self.finish(trainer, stage)
        if shown and trainer.is_global_zero:
            self.show(trainer, stage)


def part_indices(seen: int, rows: int, rank: int, world_size: int, total: int | None) -> list[int]:
    """Numbers in the part of a process's next rows.

    Processes take rows in turn, and the first rows of the part once more where they do not come out even.

    >>> part_indices(2, 2, rank=1, world_size=2, total=7)
    [5, 0]
    """
    indices = [(seen + row) * world_size + rank for row in range(rows)]
    return [index % total for index in indices] if total else indices


def gathered(trainer: pl.Trainer, value: Any) -> list[Any]:
    """The value of every process, in the order of their ranks; to be called in all of them."""
    if trainer.world_size == 1:
        return [value]
    values: list[Any] = [None] * trainer.world_size
    torch.distributed.all_gather_object(values, value)
    return values
