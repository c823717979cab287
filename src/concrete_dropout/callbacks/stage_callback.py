"""Validation and test as two stages of one kind: Lightning has a set of hooks for each."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.trainer.states import TrainerFn


class StageCallback(pl.Callback):
    """Follows the stages "val" and "test"; the sanity check passes by unseen.

    An evaluation calls ``on_stage_start``, ``on_stage_batch`` for every batch, and ``on_stage_end``, in all processes.
    ``on_stage_result`` follows where its figures are to be logged, in the first process only: after a test, after
    ``trainer.validate``, and for the last of a fit's validations when the fit ends.
    """

    def on_stage_start(self, trainer: pl.Trainer, task: pl.LightningModule, stage: str) -> None:
        """An evaluation begins."""

    def on_stage_batch(
        self, trainer: pl.Trainer, task: pl.LightningModule, stage: str, outputs: Any, dataloader_idx: int
    ) -> None:
        """A batch was evaluated; ``outputs`` is what the task's step returned."""

    def on_stage_end(self, trainer: pl.Trainer, task: pl.LightningModule, stage: str) -> None:
        """An evaluation is done."""

    def on_stage_result(self, trainer: pl.Trainer, task: pl.LightningModule, stage: str) -> None:
        """The last evaluation of a stage is to be shown."""

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Lightning's hook."""
        if not trainer.sanity_checking:
            self.on_stage_start(trainer, pl_module, "val")

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Lightning's hook."""
        self.on_stage_start(trainer, pl_module, "test")

    def on_validation_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, *numbers: int
    ) -> None:
        """Lightning's hook; the numbers are those of the batch and of its loader."""
        if not trainer.sanity_checking:
            self.on_stage_batch(trainer, pl_module, "val", outputs, _loader(*numbers))

    def on_test_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, *numbers: int
    ) -> None:
        """Lightning's hook."""
        self.on_stage_batch(trainer, pl_module, "test", outputs, _loader(*numbers))

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Lightning's hook."""
        if trainer.sanity_checking:
            return
        self.on_stage_end(trainer, pl_module, "val")
        if trainer.state.fn == TrainerFn.VALIDATING:
            self._result(trainer, pl_module, "val")

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Lightning's hook."""
        self._result(trainer, pl_module, "val")

    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Lightning's hook."""
        self.on_stage_end(trainer, pl_module, "test")
        self._result(trainer, pl_module, "test")

    def _result(self, trainer: pl.Trainer, task: pl.LightningModule, stage: str) -> None:
        if trainer.is_global_zero:
            self.on_stage_result(trainer, task, stage)


def _loader(batch_idx: int, dataloader_idx: int = 0) -> int:
    return dataloader_idx
