"""Losses of segmentation-models-pytorch, for labelled pixels alone; the package is imported when one is asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

from torch import Tensor

from concrete_dropout.errors import UserError

ExtraLossName = Literal["dice", "focal", "jaccard", "lovasz", "tversky"]
LossName = Literal["cross_entropy", "dice", "focal", "jaccard", "lovasz", "tversky"]
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def region_loss(name: str) -> Loss:
    """A loss (logits, targets, labelled) -> scalar, over the labelled pixels of a batch as one region.

    Shapes: logits (rows, C, H, W), targets and labelled (rows, H, W).

    Void pixels are taken out before the loss sees anything: not every loss of every release of the package knows an
    index to ignore, or leaves no trace of it. Without a labelled pixel the loss is 0.
    """
    try:
        from segmentation_models_pytorch import losses  # with its encoders, it takes seconds to import
    except ImportError as error:
        raise UserError(
            f"task.loss or task.extra_loss {name} needs the package segmentation-models-pytorch (the extra 'vision'); "
            "task.loss=cross_entropy task.extra_loss=null does not"
        ) from error
    classes = {
        "dice": losses.DiceLoss,
        "focal": losses.FocalLoss,
        "jaccard": losses.JaccardLoss,
        "lovasz": losses.LovaszLoss,
        "tversky": losses.TverskyLoss,
    }
    criterion = classes[name]("multiclass")

    def loss(logits: Tensor, targets: Tensor, labelled: Tensor) -> Tensor:
        pixels = logits.movedim(1, -1)[labelled]  # (M, C)
        if pixels.shape[0] == 0:
            return 0 * logits.sum()
        # an image of one column
        value: Tensor = criterion(pixels.t().reshape(1, -1, pixels.shape[0], 1), targets[labelled].view(1, -1, 1))
        return value

    return loss


def check_losses(loss: str, extra_loss: str | None, extra_loss_weight: float) -> None:
    """Refuse unknown names and weights that make no sense, by their keys."""
    if loss not in get_args(LossName):
        raise ValueError(f"task.loss={loss!r} must be one of {', '.join(get_args(LossName))}")
    if extra_loss is not None and extra_loss not in get_args(ExtraLossName):
        raise ValueError(f"task.extra_loss={extra_loss!r} must be null or one of {', '.join(get_args(ExtraLossName))}")
    if not (math.isfinite(extra_loss_weight) and extra_loss_weight >= 0):
        raise ValueError(f"task.extra_loss_weight={extra_loss_weight} must be at least 0")
