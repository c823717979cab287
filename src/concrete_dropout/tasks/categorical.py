"""What classification and segmentation share: a categorical likelihood on logits, void targets, and the bound."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from concrete_dropout.dropout.objective import at_least_float32
from concrete_dropout.dropout.sampling import active_dropouts
from concrete_dropout.dropout.streams import Mask
from concrete_dropout.errors import UserError
from concrete_dropout.metrics.categorical_stage import CategoricalMetrics
from concrete_dropout.models.batch_norm import Statistics, batch_statistics
from concrete_dropout.montecarlo import mc_predict_at
from concrete_dropout.predictive import CategoricalPrediction
from concrete_dropout.settings import OptimSettings
from concrete_dropout.tasks.base import Batch, Task

IGNORED = -100  # stands for every void target: F.cross_entropy knows one


class CategoricalTask(Task, ABC):
    """y ~ Categorical(softmax of the network's logits), for each label of a row.

    Batches are (x, y), y (rows, ...) with class indices. Targets outside of 0 ... C - 1 are void: they count nowhere,
    neither in training nor in evaluation. ``train/elbo`` is -(NLL + kl_weight * KL / N) per observation, the mean over
    the steps of an epoch so far: its last one is that of the whole epoch.

    Args:
        network: returns logits (rows, C, ...).
        num_train: N, see ``Task``.
        num_classes: C.
        class_names: C names; numbers where there are none.
        metrics: see ``Task``.
        batch_norm: what BatchNorm normalises with in evaluation, "running" or "batch" statistics. With the latter a
            prediction depends on its batch, which is passed as a whole, sample by sample.
        optim: see ``Task``, as for the others.
        kl_weight: see ``Task``.
        train_samples: see ``Task``.
        val_samples: see ``Task``.
        test_samples: see ``Task``. With any, tests also make one pass without dropout, to compare with.
        mask: see ``Task``.
        seed: see ``Task``.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        num_train: int,
        num_classes: int,
        class_names: Sequence[str],
        metrics: tuple[CategoricalMetrics, CategoricalMetrics],
        batch_norm: Statistics,
        optim: OptimSettings | None,
        kl_weight: float,
        train_samples: int,
        val_samples: int,
        test_samples: int,
        mask: Mask,
        seed: int,
    ) -> None:
        super().__init__(
            network,
            num_train=num_train,
            metrics=metrics,
            optim=optim,
            kl_weight=kl_weight,
            train_samples=train_samples,
            val_samples=val_samples,
            test_samples=test_samples,
            mask=mask,
            seed=seed,
        )
        if batch_norm not in get_args(Statistics):
            raise ValueError(f"task.batch_norm={batch_norm!r} must be one of {', '.join(get_args(Statistics))}")
        self.num_classes = num_classes
        self.class_names = tuple(class_names)
        self.batch_norm: Statistics = batch_norm
        self._elbo_sum: Tensor | float = 0.0  # over the rows of this epoch
        self._elbo_rows = 0

    # Training ---------------------------------------------------------------------------------------------------

    def nll(self, output: Any, target: Tensor) -> Tensor:
        """Cross-entropy of each label, of the shape of ``target``; 0 where it is void."""
        self._check(output, target)
        wanted = torch.where(is_labelled(target, self.num_classes), target, IGNORED)
        return F.cross_entropy(at_least_float32(output), wanted, ignore_index=IGNORED, reduction="none")

    def average(self, nll: Tensor, target: Tensor) -> Tensor:
        """The mean over labelled observations; 0 without any."""
        return nll.sum() / is_labelled(target, self.num_classes).sum().clamp_min(1)

    def record(self, nll: Tensor, kl: Tensor, num_rows: int) -> None:
        """Add a step to the epoch's bound, and log its mean over the epoch so far."""
        self._elbo_sum = self._elbo_sum - num_rows * (nll + self.kl_weight * kl).double()
        self._elbo_rows += num_rows
        if self.is_logging_step:
            elbo = self._elbo_sum / self._elbo_rows
            self.log("train/elbo", elbo, batch_size=num_rows, sync_dist=self.trainer.world_size > 1)

    def on_train_epoch_start(self) -> None:
        self._elbo_sum, self._elbo_rows = 0.0, 0

    # Evaluation -------------------------------------------------------------------------------------------------

    def evaluate_at(self, batch: Batch, counts: Sequence[int], seed: int) -> dict[int, dict[str, Any]]:
        """The predictions and their targets; there is no ``deterministic`` one but in tests."""
        x, y = batch
        return {
            count: {"prediction": prediction, "deterministic": None, "targets": y}
            for count, prediction in self._predict_at(x, y, counts, seed).items()
        }

    def evaluate_without_mc(self, batch: Batch) -> dict[str, Any]:
        """The ``deterministic`` prediction: weight scaling; None where the prediction itself is that already."""
        if self.test_samples == 0 or not active_dropouts(self.network):
            return {"deterministic": None}
        x, y = batch
        return {"deterministic": self._predict(x, y, samples=0, seed=0)}

    @torch.no_grad()
    def predict(self, x: Tensor, samples: int, seed: int = 0, frozen_masks: bool = False) -> CategoricalPrediction:
        """The predictive distribution at inputs (rows, ...) as the network takes them.

        Args:
            x: inputs.
            samples: stochastic passes; 0 for one without dropout.
            seed: of their masks.
            frozen_masks: the same masks for all rows: each sample is a function.
        """
        return self._predict(x.to(self.device), None, samples, seed, frozen_masks)

    def _predict(
        self, x: Tensor, y: Tensor | None, samples: int, seed: int, frozen_masks: bool = False
    ) -> CategoricalPrediction:
        return self._predict_at(x, y, (samples,), seed, frozen_masks)[samples]

    def _predict_at(
        self, x: Tensor, y: Tensor | None, counts: Sequence[int], seed: int, frozen_masks: bool = False
    ) -> dict[int, CategoricalPrediction]:
        whole = self.batch_norm == "batch"
        try:
            with batch_statistics(self.network) if whole else nullcontext():
                made = mc_predict_at(
                    self.network,
                    x,
                    "categorical",
                    counts,
                    targets=y,
                    seed=seed,
                    mask=self.mask,
                    frozen_masks=frozen_masks,
                    # A single row cannot be cut, and need not be measured for it.
                    batch_rows=x.shape[0] if whole or x.shape[0] == 1 else None,
                    batch_samples=1 if whole else None,
                )
        except ValueError as error:
            if whole and "more than 1 value per channel" in str(error):
                raise UserError(
                    "task.batch_norm=batch: a BatchNorm of this network sees a single value per channel, which has no "
                    "statistics; take a larger data.eval_batch_size, or task.batch_norm=running"
                ) from error
            raise
        return {
            count: prediction for count, prediction in made.items() if isinstance(prediction, CategoricalPrediction)
        }

    def _check(self, output: Any, target: Tensor) -> None:
        wanted = (target.shape[0], self.num_classes, *target.shape[1:])
        if not isinstance(output, Tensor) or output.shape != wanted:
            found = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise UserError(
                f"the network returns {found} where logits {wanted} are needed, one for each class and label: "
                "choose a model that returns such a tensor, and nothing else"
            )


def is_labelled(target: Tensor, num_classes: int) -> Tensor:
    """Whether targets are classes; all others are void.

    >>> is_labelled(torch.tensor([0, 2, 3, 255, -1]), num_classes=3)
    tensor([ True,  True, False, False, False])
    """
    return (target >= 0) & (target < num_classes)


def names_of(class_names: Sequence[str], num_classes: int) -> tuple[str, ...]:
    """The names, or numbers where there are none.

    >>> names_of((), 3)
    ('0', '1', '2')
    """
    if num_classes < 2:
        raise ValueError(f"num_classes={num_classes} must be at least 2")
    names = tuple(class_names) or tuple(str(index) for index in range(num_classes))
    if len(names) != num_classes or len(set(names)) != num_classes:
        raise ValueError(f"class_names={list(names)} must be {num_classes} different names")
    return names
