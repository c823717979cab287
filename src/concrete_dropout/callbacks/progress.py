"""The progress bar: steps of the whole training rather than of an epoch that has no end."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import RichProgressBar


class ProgressBar(RichProgressBar):
    """Lightning's rich bar without version numbers, and with the steps to go in its description."""

    def get_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> dict[str, Any]:
        """The metrics beside the bar, shortly written."""
        metrics = dict(super().get_metrics(trainer, pl_module))
        metrics.pop("v_num", None)
        return metrics

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Renew the number of steps with the bar."""
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        due = self.refresh_rate > 0 and (batch_idx + 1) % self.refresh_rate == 0
        if due and self.progress is not None and self.train_progress_bar_id is not None:
            text = self._get_train_description(trainer.current_epoch)
            self.progress.update(self.train_progress_bar_id, description=text)

    def _get_train_description(self, current_epoch: int) -> str:
        # Lightning writes "Epoch 3/-2" where the steps are bounded and the epochs are not.
        steps = self.trainer.max_steps
        progress = f"step {self.trainer.global_step}/{steps}" if steps > 0 else f"epoch {current_epoch}"
        return f"Training, {progress}"
