"""Validation in the middle of a distributed fit: every process on its own, with the weights that are saved."""

from __future__ import annotations

import pytorch_lightning as pl
import torch
from torch.nn.parallel import DistributedDataParallel


def begin_alone(trainer: pl.Trainer, task: pl.LightningModule) -> None:
    """Give all processes the buffers of the first, and let their steps no longer wait for each other.

    ``DistributedDataParallel`` copies buffers (statistics of BatchNorm, noise) in front of every pass, also in
    evaluation. Processes with different numbers of batches would wait for ever. Copied once, they are the same in all
    processes for the whole evaluation, and those of the checkpoint, which the first process writes.
    """
    wrapped = trainer.strategy.model
    if not isinstance(wrapped, DistributedDataParallel):
        return
    if wrapped.broadcast_buffers:
        for buffer in task.buffers():
            torch.distributed.broadcast(buffer, src=0)
    wrapped.require_forward_param_sync = False


def end_alone(trainer: pl.Trainer) -> None:
    """Training steps are taken together again."""
    wrapped = trainer.strategy.model
    if isinstance(wrapped, DistributedDataParallel):
        wrapped.require_forward_param_sync = True
