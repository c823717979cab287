"""Lets a run that is bounded in steps go on from the end of an epoch."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.trainer.states import TrainerFn


class FinishedEpochs(pl.Callback):
    """A checkpoint of the end of an epoch is followed by the next epoch.

    With ``max_steps`` Lightning takes every checkpoint for one from the middle of an epoch: it would go on with the
    batch counter of the finished epoch, hence end the next one after its first batch.
    """

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Close the epoch and reset its counters, before Lightning's loops take them over."""
        loop = checkpoint.get("loops", {}).get("fit_loop", {})
        epochs = loop.get("epoch_progress")
        if trainer.state.fn != TrainerFn.FITTING or epochs is None:
            return
        if epochs["current"]["processed"] < epochs["current"]["ready"]:
            return  # really in the middle
        for counts in (epochs["total"], epochs["current"]):
            counts["ready"] = counts["started"] = counts["completed"] = counts["processed"]
        for key, progress in loop.items():
            if key.startswith("epoch_loop.") and key.endswith("progress"):
                _reset_current(progress)
        loop["epoch_loop.batch_progress"]["is_last_batch"] = False


def _reset_current(progress: dict[str, Any]) -> None:
    """Set every counter under a "current" to 0; those under a "total" go on."""
    for key, value in progress.items():
        if key == "current":
            value.update(dict.fromkeys(value, 0))
        elif isinstance(value, dict):
            _reset_current(value)
