"""Segmentation: one label per pixel, many of them void."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from concrete_dropout.dropout.streams import Mask
from concrete_dropout.metrics.categorical_stage import CategoricalMetrics
from concrete_dropout.models.batch_norm import Statistics
from concrete_dropout.settings import OptimSettings
from concrete_dropout.tasks.categorical import CategoricalTask, is_labelled, names_of
from concrete_dropout.tasks.segmentation_losses import ExtraLossName, LossName, check_losses, region_loss

_log = logging.getLogger(__name__)


class SegmentationTask(CategoricalTask):
    """Each pixel is an observation: y ~ Categorical(softmax(f(x))), x (rows, channels, H, W) and y (rows, H, W).

    The NLL is the mean over the labelled pixels of a batch, and N counts pixels. Another ``loss``, or an
    ``extra_loss``, is no likelihood, and what is minimised then no bound any more: the log says so. ``train/nll`` and
    ``train/elbo`` are of the likelihood all the same.

    Args:
        network: returns logits (rows, C, H, W).
        num_train: N, training images times pixels per image.
        num_classes: C.
        class_names: C names; numbers where there are none.
        loss: "cross_entropy" (the NLL), or a loss of segmentation-models-pytorch in its place.
        extra_loss: such a loss that is added; None for none.
        extra_loss_weight: its weight.
        batch_norm: see ``CategoricalTask``.
        optim: see ``Task``, as for the others.
        kl_weight: see ``Task``.
        train_samples: see ``Task``. Other losses than the NLL are means over the samples.
        val_samples: see ``Task``.
        test_samples: see ``Task``.
        mask: see ``Task``.
        seed: see ``Task``.
    """

    selection: ClassVar[tuple[str, Literal["min", "max"]]] = ("val/miou", "max")

    def __init__(
        self,
        network: nn.Module,
        *,
        num_train: int,
        num_classes: int,
        class_names: Sequence[str] = (),
        loss: LossName = "cross_entropy",
        extra_loss: ExtraLossName | None = None,
        extra_loss_weight: float = 1.0,
        batch_norm: Statistics = "running",
        optim: OptimSettings | None = None,
        kl_weight: float = 1.0,
        train_samples: int = 1,
        val_samples: int = 5,
        test_samples: int = 50,
        mask: Mask = "concrete",
        seed: int = 0,
    ) -> None:
        names = names_of(class_names, num_classes)
        check_losses(loss, extra_loss, extra_loss_weight)
        super().__init__(
            network,
            num_train=num_train,
            num_classes=num_classes,
            class_names=names,
            metrics=(CategoricalMetrics(num_classes, names), CategoricalMetrics(num_classes, names)),
            batch_norm=batch_norm,
            optim=optim,
            kl_weight=kl_weight,
            train_samples=train_samples,
            val_samples=val_samples,
            test_samples=test_samples,
            mask=mask,
            seed=seed,
        )
        self.loss: LossName = loss
        self.extra_loss: ExtraLossName | None = extra_loss
        self.extra_loss_weight = extra_loss_weight
        self._main = None if loss == "cross_entropy" else region_loss(loss)
        self._extra = None if extra_loss is None else region_loss(extra_loss)

    def data_term(self, nll: Tensor, output: Any, target: Tensor) -> Tensor:
        """The NLL, or what was chosen in its place, and what was added."""
        if self._main is None and self._extra is None:
            return nll
        labelled = is_labelled(target, self.num_classes)
        total = nll if self._main is None else self._main(output, target, labelled)
        if self._extra is not None:
            total = total + self.extra_loss_weight * self._extra(output, target, labelled)
        return total

    def on_fit_start(self) -> None:
        if self._main is not None or self._extra is not None:
            extra = "" if self.extra_loss is None else f" + {self.extra_loss_weight:g} * {self.extra_loss}"
            _log.warning(
                "the loss is %s%s + KL / N: not the negative log-likelihood, so it is no bound, and what p converges "
                "to is not the posterior's",
                self.loss,
                extra,
            )
