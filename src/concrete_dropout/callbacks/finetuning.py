"""A second phase of the same fit: full-size images, one by one and slowly, from the best weights of the first.

The scheme of the FC-DenseNet paper (Jegou et al., 2016): train on crops until validation stops improving, then
fine-tune on whole images with a smaller learning rate.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import Any, cast

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.trainer.states import TrainerFn

from concrete_dropout.callbacks.rng import rank_seed
from concrete_dropout.errors import UserError
from concrete_dropout.tasks.base import Task

_log = logging.getLogger(__name__)


class FineTuning(pl.Callback):
    """Ends the phase on crops after ``epochs``, or ``patience`` validations without a better one; then fine-tunes.

    Better is what the task chooses its best checkpoint by, for segmentation the validation mIoU. The second phase
    starts from that checkpoint with a new optimiser. It has a bound and a patience of its own, and its end is the end
    of the fit. Which phase it is, and how long it has been without progress, is in every checkpoint: a run that is
    killed in either phase goes on in it.

    Args:
        epochs: of the first phase at the most.
        patience: validations without a better one that end the first phase.
        finetune_epochs: of the second phase at the most; 0 leaves it out.
        finetune_patience: validations without a better one that end the second phase.
        lr: learning rate of the weights in the second phase.
        p_lr: of the p logits in the second phase; None for ``lr``.
        batch_size: images per batch in the second phase.
        crop: edge of its crops; None for whole images.
    """

    def __init__(
        self,
        epochs: int = 750,
        patience: int = 150,
        finetune_epochs: int = 750,
        finetune_patience: int = 150,
        lr: float = 1e-4,
        p_lr: float | None = None,
        batch_size: int = 1,
        crop: int | None = None,
    ) -> None:
        whole = {"epochs": epochs, "patience": patience, "finetune_patience": finetune_patience}
        for key, number in {**whole, "batch_size": batch_size}.items():
            if number < 1:
                raise ValueError(f"callbacks.finetuning.{key}={number} must be at least 1")
        if finetune_epochs < 0 or lr <= 0 or (p_lr is not None and p_lr < 0):
            raise ValueError(
                f"callbacks.finetuning.finetune_epochs={finetune_epochs}, lr={lr} and p_lr={p_lr} must be at least 0, "
                "and lr above it"
            )
        self.limits = {1: (epochs, patience), 2: (finetune_epochs, finetune_patience)}
        self.lr, self.p_lr = lr, p_lr
        self.batch_size, self.crop = batch_size, crop
        self.phase = 1
        self._begins = False  # whether the next epoch is the first of the second phase
        self._epochs = 0  # finished in this phase
        self._waited = 0  # validations since the best one
        self._best: float | None = None

    # State -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The phase and its counts."""
        counts = {"epochs": self._epochs, "waited": self._waited, "best": self._best}
        return {"phase": self.phase, "begins": self._begins, **counts}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on in that phase."""
        self.phase, self._begins = state_dict["phase"], state_dict["begins"]
        self._epochs, self._waited, self._best = (state_dict[key] for key in ("epochs", "waited", "best"))

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """The data of the second phase must be in place before Lightning asks for their loader."""
        state = checkpoint.get("callbacks", {}).get(self.state_key)
        if trainer.state.fn == TrainerFn.FITTING and state and state["phase"] == 2:
            self._change_data(trainer)

    # The fit ---------------------------------------------------------------------------------------------------

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Refuse what has no phases."""
        data = getattr(trainer, "datamodule", None)
        if not hasattr(data, "crop") or not hasattr(data, "batch_size"):
            raise UserError("callbacks.finetuning is for segmentation data with data.crop: leave it out here")

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Count validations without progress."""
        if trainer.sanity_checking or trainer.state.fn != TrainerFn.FITTING:
            return
        monitor, mode = cast(Task, pl_module).selection
        value = float(trainer.callback_metrics.get(monitor, math.nan))
        sign = 1 if mode == "max" else -1
        if self._best is None or sign * value > sign * self._best:
            self._best, self._waited = value, 0
        else:
            self._waited += 1

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """End a phase whose time has come."""
        self._epochs += 1
        epochs, patience = self.limits[self.phase]
        if self._epochs < epochs and self._waited < patience:
            return
        if self.phase == 2 or self.limits[2][0] == 0:
            trainer.should_stop = True
            return
        self.phase, self._begins, self._epochs, self._waited = 2, True, 0, 0
        self._change_data(trainer)
        trainer.reload_dataloaders_every_n_epochs = 1  # type: ignore[attr-defined]

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin the second phase, once its loader is there and the best checkpoint of the first is written."""
        if not self._begins:
            return
        self._begins = False
        trainer.reload_dataloaders_every_n_epochs = 0  # type: ignore[attr-defined]
        task = cast(Task, pl_module)
        task.load_state_dict(_best_weights(trainer, task))
        task.optim = replace(task.optim, lr=self.lr, p_lr=self.p_lr)
        trainer.strategy.setup_optimizers(trainer)
        _renew_order(trainer, task)
        size = "whole images" if self.crop is None else f"crops of {self.crop}"
        _log.info("fine-tuning on %s at a learning rate of %g, from the best weights so far", size, self.lr)

    def _change_data(self, trainer: pl.Trainer) -> None:
        data: Any = trainer.datamodule  # type: ignore[attr-defined]
        data.crop, data.batch_size = self.crop, self.batch_size


def _renew_order(trainer: pl.Trainer, task: Task) -> None:
    """Start the random numbers of the second phase anew, so that a run which was continued has the same ones.

    How often Lightning has made the iterator of a new loader by now depends on whether the run was continued.
    """
    torch.manual_seed(rank_seed(torch.tensor([task.seed, trainer.global_step]), trainer.global_rank))
    loop = trainer.fit_loop
    if loop.is_resuming or loop.epoch_loop.restarting:  # otherwise Lightning makes it once more, and after this
        iter(loop._data_fetcher)  # type: ignore[arg-type]


def _best_weights(trainer: pl.Trainer, task: Task) -> dict[str, Any]:
    """Of the best checkpoint so far; those at hand where there is none."""
    monitor, _ = task.selection
    for callback in trainer.checkpoint_callbacks:
        if isinstance(callback, ModelCheckpoint) and callback.monitor == monitor and callback.best_model_path:
            checkpoint = trainer.strategy.load_checkpoint(callback.best_model_path, weights_only=True)
            return cast("dict[str, Any]", checkpoint["state_dict"])
    return task.state_dict()
