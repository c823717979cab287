"""How far the optimiser can carry the p logits: what their trend is compared with."""

from __future__ import annotations

import pytorch_lightning as pl
from torch.optim import Adam, AdamW, RMSprop
from torch.optim.lr_scheduler import LambdaLR

from concrete_dropout.callbacks.convergence import FRACTION, Pace

NORMALISED = (Adam, AdamW, RMSprop)  # their steps have the size of the learning rate, whatever the gradient's


def logit_pace(trainer: pl.Trainer) -> Pace | None:
    """The pace of the group "p_logits" over the steps made so far; None where it cannot be told."""
    steps = trainer.global_step
    for optimizer, config in zip(trainer.optimizers, trainer.lr_scheduler_configs, strict=False):
        schedule = config.scheduler
        for index, group in enumerate(optimizer.param_groups):
            if group.get("name") != "p_logits" or not isinstance(optimizer, NORMALISED):
                continue
            if not isinstance(schedule, LambdaLR) or config.interval != "step" or steps < 1:
                return None
            factor, rate = schedule.lr_lambdas[index], float(schedule.base_lrs[index])
            window = range(int((1 - FRACTION) * steps), steps)
            return Pace(sum(rate * factor(step) for step in window), rate * steps, len(window))
    return None
