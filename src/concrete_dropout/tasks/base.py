"""What all tasks share: the objective, the optimiser, and evaluation with Monte Carlo dropout.

loss = mean over observations of NLL  +  kl_weight * KL(q || prior) / N

An observation is a row, or each labelled pixel of it: what a target is about.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from concrete_dropout.dropout.objective import kl_divergence
from concrete_dropout.dropout.sampling import active_dropouts
from concrete_dropout.dropout.streams import MASKS, Mask
from concrete_dropout.metrics.stage import StageMetrics, StageResult
from concrete_dropout.settings import OptimSettings
from concrete_dropout.tasks.alone import begin_alone, end_alone

Stage = Literal["val", "test"]
Batch = tuple[Tensor, Tensor]


class Task(pl.LightningModule, ABC):
    """A swapped network with its objective; subclasses add the likelihood and the metrics.

    Args:
        network: any module that went through ``swap_dropout`` (or ``DropoutSettings.apply``) with an example input.
            It is trained and evaluated as it is: "none", "fixed" and "concrete" dropout have the same objective.
        num_train: N, the observations of the whole training set.
        metrics: of validation and of test, in this order; two objects, because both may be under way.
        optim: the optimiser; Adam with its defaults where it is None.
        kl_weight: 1 is the bound; anything else tempers the KL.
        train_samples: S masks per row and step. The likelihood is the log of the mean over them, a tighter bound
            (S = 1 is the paper's). The batch is repeated S times along its rows.
        val_samples: passes per row in validation; 0 for one without dropout (weight scaling).
        test_samples: the same, in tests.
        mask: of Concrete layers in evaluation, "concrete" or "bernoulli".
        seed: of the masks of evaluation. They come from it and the number of the batch alone, so evaluations can be
            repeated, and the random state of training is left alone.

    Attributes:
        selection: the metric of validation by which the best weights are chosen, and whether "min" or "max" is best.
        results: {"val": StageResult, "test": StageResult} of the last evaluations, over all processes. They are there
            when callbacks see ``on_validation_end`` and ``on_test_end``.

    Nothing but the state dict goes into a checkpoint, and that holds tensors alone: it loads with ``weights_only``.
    """

    selection: ClassVar[tuple[str, Literal["min", "max"]]] = ("val/nll", "min")

    def __init__(
        self,
        network: nn.Module,
        *,
        num_train: int,
        metrics: tuple[StageMetrics, StageMetrics],
        optim: OptimSettings | None = None,
        kl_weight: float = 1.0,
        train_samples: int = 1,
        val_samples: int = 20,
        test_samples: int = 100,
        mask: Mask = "concrete",
        seed: int = 0,
    ) -> None:
        super().__init__()
        for key, number, least in (
            ("num_train", num_train, 1),
            ("kl_weight", kl_weight, 0),
            ("train_samples", train_samples, 1),
            ("val_samples", val_samples, 0),
            ("test_samples", test_samples, 0),
        ):
            if not (math.isfinite(number) and number >= least):
                raise ValueError(f"task.{key}={number} must be at least {least}")
        if mask not in MASKS:
            raise ValueError(f"dropout.mask={mask!r} must be one of {', '.join(MASKS)}")
        with torch.no_grad():
            kl_divergence(network)  # a network without a KL is refused here rather than at the first step
        self.network = network
        self.num_train = num_train
        self.optim = optim or OptimSettings()
        self.kl_weight = kl_weight
        self.train_samples = train_samples
        self.val_samples = val_samples
        self.test_samples = test_samples
        self.mask: Mask = mask
        self.seed = seed
        self.val_metrics, self.test_metrics = metrics
        self.results: dict[str, StageResult] = {}

    @property
    def nll_offset(self) -> float:
        """What is added to an NLL in the units of training to have it in the units that users know."""
        return 0.0

    @abstractmethod
    def nll(self, output: Any, target: Tensor) -> Tensor:
        """Negative log-likelihood of each observation in nats, with its constants, from the network's output.

        Shapes: (rows,), or (rows, ...) where a row has several observations.
        """

    def average(self, nll: Tensor, target: Tensor) -> Tensor:
        """The mean of ``nll``, (rows, ...), over the observations of a batch; all of them count by default."""
        return nll.mean()

    def data_term(self, nll: Tensor, output: Any, target: Tensor) -> Tensor:
        """What is minimised besides the KL: the mean NLL. Anything else is no bound any more.

        Args:
            nll: the mean over the batch.
            output: of the network, S * rows.
            target: S * rows.
        """
        return nll

    def evaluate(self, batch: Batch, samples: int, seed: int) -> Mapping[str, Any]:
        """What an evaluation step returns: the prediction, inputs and targets in the units that users know."""
        return self.evaluate_at(batch, (samples,), seed)[samples]

    @abstractmethod
    def evaluate_at(self, batch: Batch, counts: Sequence[int], seed: int) -> Mapping[int, Mapping[str, Any]]:
        """The same with several numbers of samples, from one stream of passes: {number: what a step returns}."""

    def evaluate_without_mc(self, batch: Batch) -> Mapping[str, Any]:
        """What a test step returns on top of that, from a pass with dropout inactive; by default nothing."""
        return {}

    def observe(self, output: Any, target: Tensor, weights: Tensor) -> None:
        """Learn from a training batch what has a closed form; by default there is nothing.

        Args:
            output: of the network, S * rows, without gradients.
            target: S * rows.
            weights: (S * observations,), the shares of an observation's S samples; they sum to 1 over the samples.
        """

    def record(self, nll: Tensor, kl: Tensor, num_rows: int) -> None:
        """Take note of a training step: its mean NLL, KL / N (both detached) and rows; by default it is not kept."""

    @property
    def is_logging_step(self) -> bool:
        """Whether this training step's numbers are wanted: by the loggers, at the start, or at the end of an epoch.

        Lightning takes them at every step and drops most of them. For a small network that is a third of the time.
        """
        if self._trainer is None:
            return False
        every: int = getattr(self.trainer, "log_every_n_steps", 0)
        wanted = every > 0 and (self.global_step + 1) % every == 0  # as Lightning counts
        return wanted or self.global_step == 0 or self.trainer.is_last_batch

    def forward(self, x: Tensor) -> Any:
        return self.network(x)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        samples = self.train_samples if self.train_samples > 1 and active_dropouts(self.network) else 1
        x, y = (_repeated(part, samples) for part in batch)  # (S * rows, ...)
        output = self.network(x)
        per_sample = self.nll(output, y).unflatten(0, (samples, -1))  # (S, rows, ...)
        nll = self.average(mixture_nll(per_sample), batch[1])
        kl = kl_divergence(self.network) / self.num_train
        loss = self.data_term(nll, output, y) + self.kl_weight * kl
        with torch.no_grad():
            self.observe(output, y, torch.softmax(-per_sample.detach(), dim=0).flatten())
            self.record(nll.detach(), kl.detach(), batch[1].shape[0])
        if self.is_logging_step:
            nll, loss_shown = nll.detach() + self.nll_offset, loss.detach() + self.nll_offset
            self.log_dict({"train/nll": nll, "train/kl": kl.detach()}, batch_size=batch[1].shape[0])
            self.log("train/loss", loss_shown, prog_bar=True, batch_size=batch[1].shape[0])
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> Mapping[str, Any] | None:
        return self._evaluation_step("val", batch, batch_idx)

    def test_step(self, batch: Batch, batch_idx: int) -> Mapping[str, Any] | None:
        return self._evaluation_step("test", batch, batch_idx)

    def on_validation_start(self) -> None:
        begin_alone(self.trainer, self)

    def on_validation_end(self) -> None:
        end_alone(self.trainer)

    def on_validation_epoch_start(self) -> None:
        self.val_metrics.reset()

    def on_test_epoch_start(self) -> None:
        self.test_metrics.reset()

    def on_validation_epoch_end(self) -> None:
        self._finish("val", self.val_metrics)

    def on_test_epoch_end(self) -> None:
        self._finish("test", self.test_metrics)

    def configure_optimizers(self) -> Any:
        num_steps = self.trainer.estimated_stepping_batches  # makes the loader, which the length of an epoch needs
        per_epoch = self.trainer.num_training_batches / self.trainer.accumulate_grad_batches
        optimizer, scheduler = self.optim.build(self.network, num_steps, per_epoch)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def _evaluation_step(self, stage: Stage, batch: Batch, batch_idx: int) -> Mapping[str, Any] | None:
        if not len(batch[0]):  # a process without rows: it adds nothing, and is there when the others add up
            return None
        # Every process has batches of its own, and they must not share masks.
        index = batch_idx * self.trainer.world_size + self.global_rank
        if stage == "val":
            metrics, outputs = self.val_metrics, self.evaluate(batch, self.val_samples, self.seed + index)
        else:
            metrics, outputs = self.test_metrics, self.evaluate(batch, self.test_samples, self.seed + index)
            outputs = {**outputs, **self.evaluate_without_mc(batch)}
        metrics.update(outputs)
        return outputs

    def _finish(self, stage: Stage, metrics: StageMetrics) -> None:
        result = self.results[stage] = metrics.compute()
        scalars = {f"{stage}/{name}": value for name, value in result.scalars.items()}
        # The numbers are the same on every process already; a second reduction keeps Lightning from doubting it.
        self.log_dict(scalars, sync_dist=self.trainer.world_size > 1)


def mixture_nll(nll: Tensor) -> Tensor:
    """-log of the mean likelihood over samples: (S, ...) -> (...).

    >>> mixture_nll(torch.tensor([[0.0], [math.log(3)]])).item() == pytest.approx(-math.log(2 / 3))
    True
    """
    samples = nll.shape[0]
    return nll[0] if samples == 1 else math.log(samples) - torch.logsumexp(-nll, dim=0)


def _repeated(rows: Tensor, samples: int) -> Tensor:
    """All rows S times over, one copy behind the other."""
    return rows if samples == 1 else torch.cat([rows] * samples)
