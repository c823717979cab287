"""What monitors of single predictions share: every batch of an evaluation, with the place of its rows in the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch.distributed

from concrete_dropout.callbacks.stage_callback import StageCallback
from concrete_dropout.callbacks.stages import CategoricalOutput, categorical_output, num_evaluated
from concrete_dropout.runfolder import RunFolder


class EvaluationMonitor(StageCallback, ABC):
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

    def on_stage_start(self, trainer: pl.Trainer, task: pl.LightningModule, stage: str) -> None:
        """Begin anew."""
        self._rows, self._total = 0, num_evaluated(trainer, stage)
        self.begin(stage, self._total)

    def on_stage_batch(
        self, trainer: pl.Trainer, task: pl.LightningModule, stage: str, outputs: Any, dataloader_idx: int
    ) -> None:
        """See a batch; only the first loader has the data module's part in its order."""
        output = categorical_output(outputs)
        if output is None or dataloader_idx:
            return
        rows = len(output.targets)
        indices = part_indices(self._rows, rows, trainer.global_rank, trainer.world_size, self._total)
        self._rows += rows
        self.collect(trainer, stage, output, indices)

    def on_stage_end(self, trainer: pl.Trainer, task: pl.LightningModule, stage: str) -> None:
        """Write."""
        if any(gathered(trainer, self._rows)):  # also where this process has none: the others wait for it
            self.finish(trainer, stage)

    def on_stage_result(self, trainer: pl.Trainer, task: pl.LightningModule, stage: str) -> None:
        """Log."""
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
