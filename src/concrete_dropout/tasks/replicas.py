"""Several regression tasks that train as one: splits of a data set, repeats, sizes, initial p.

The objectives of replicas share no parameter, so the gradient of their sum is that of each; the optimisers act on
every number by itself. Training all of them in one step is therefore what training each of them alone would be.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from concrete_dropout.dropout.kinds import kind_of
from concrete_dropout.dropout.layers import ConcreteDropout
from concrete_dropout.dropout.record import entries, layer_of
from concrete_dropout.errors import UserError
from concrete_dropout.metrics.stage import StageMetrics, StageResult
from concrete_dropout.models.stacked import StackedNetwork
from concrete_dropout.predictive import gaussian_log_density
from concrete_dropout.tasks.base import Batch, Stage, Task, mixture_nll
from concrete_dropout.tasks.m_step_rows import M_STEP_ROWS
from concrete_dropout.tasks.regression import RegressionTask
from concrete_dropout.tasks.replica_noise import StackedNoise

EvalBatch = tuple[int, int, Batch]  # replica, number of its batch, rows


class ReplicatedTask(pl.LightningModule):
    """R ordinary tasks whose networks train as one stack, on batches (R, B, D) and (R, B, O).

    Evaluation is the ordinary one of each task on its own data (batches of ``data.ReplicatedData``: replica, number,
    rows). What is logged is the mean over replicas; ``results`` has each. After a fit, a validation or a test the
    tasks hold the trained parameters and can be used as if they had been trained alone.

    Args:
        tasks: with networks that ``StackedNetwork`` takes. Optimiser, ``train_samples`` and the kind of noise must be
            the same; N, scales, ``kl_weight``, seeds, initial p and so on may differ.

    Attributes:
        stacked: the network that is trained.
        noise: the stack of homoscedastic noise, or None.

    A checkpoint holds the stacked tensors. One process only.

    Raises:
        UserError: the tasks cannot be trained as one.
    """

    num_train: Tensor
    kl_weight: Tensor
    target_variance: Tensor

    # At which steps numbers are logged is the same for all tasks.
    is_logging_step: Any = Task.is_logging_step

    def __init__(self, tasks: Sequence[RegressionTask]) -> None:
        super().__init__()
        _require_alike(tasks)
        self._tasks = tuple(tasks)  # in a tuple: their parameters are copies, which no checkpoint needs
        self.stacked = StackedNetwork([task.network for task in tasks])
        self.optim, self.train_samples = tasks[0].optim, tasks[0].train_samples
        noises = [task.noise for task in tasks if task.noise is not None]
        self.noise = StackedNoise(noises) if noises else None
        like = next(self.stacked.parameters())
        self.register_buffer("num_train", torch.tensor([task.num_train for task in tasks]).to(like), persistent=False)
        self.register_buffer("kl_weight", torch.tensor([task.kl_weight for task in tasks]).to(like), persistent=False)
        variances = torch.stack([task.targets.std.square() for task in tasks])  # (R, O)
        self.register_buffer("target_variance", variances, persistent=False)
        self._seen: set[int] = set()

    @property
    def tasks(self) -> tuple[RegressionTask, ...]:
        """The replicas' own tasks; see ``write_back``."""
        return self._tasks

    @property
    def results(self) -> list[dict[str, StageResult]]:
        """{"val": ..., "test": ...} of each replica, from the last evaluations."""
        return [task.results for task in self._tasks]

    @property
    def network(self) -> nn.Module:
        """A copy of the first network with the mean p over replicas, for records of the layers and their p."""
        self.write_back()
        network = copy.deepcopy(self._tasks[0].network)
        means = {name: sum(ps) / len(ps) for name, ps in self.stacked.probabilities().items()}
        for name, (root, entry) in entries(network).items():
            layer = layer_of(root, entry)
            if isinstance(layer, ConcreteDropout):
                with torch.no_grad():
                    layer.p_logit.fill_(torch.logit(torch.tensor(means[name], dtype=torch.float64)).item())
            elif kind_of(layer) != "none":
                layer.p = means[name]
        return network

    def write_back(self) -> None:
        """Copy the trained parameters and noise into the ordinary tasks."""
        for task in self._tasks:
            if task.device != self.device:
                task.to(self.device)
        self.stacked.write_back()
        if self.noise is not None:
            self.noise.write_back()

    # Training ---------------------------------------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        if self.trainer.world_size > 1:
            raise UserError("replicas train in one process; set trainer.devices=1, or train without replicas")

    def forward(self, x: Tensor) -> Any:
        return self.stacked(x)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        samples = self.train_samples if self.stacked.is_stochastic else 1
        x, y = (part if samples == 1 else torch.cat([part] * samples, dim=1) for part in batch)  # (R, S * B, ...)
        output = self.stacked(x)
        per_sample = self._nll(output, y).unflatten(1, (samples, -1)).transpose(0, 1)  # (S, R, B)
        nll = mixture_nll(per_sample).mean(-1)  # (R,)
        kl = self.stacked.kl() / self.num_train
        loss = nll + self.kl_weight * kl
        if self.noise is not None:
            self._observe(output, y, torch.softmax(-per_sample.detach(), dim=0))
        if self.is_logging_step:
            # in original units, as the tasks' own numbers
            offset = sum(task.nll_offset for task in self._tasks) / len(self._tasks)
            shown = {"train/nll": nll.detach().mean() + offset, "train/kl": kl.detach().mean()}
            self.log_dict(shown, batch_size=y.shape[1])
            self.log("train/loss", loss.detach().mean() + offset, prog_bar=True, batch_size=y.shape[1])
        return loss.sum()

    def configure_optimizers(self) -> Any:
        settings = self.optim
        groups = self.stacked.parameter_groups(lr=settings.lr, p_lr=settings.p_lr, weight_decay=settings.weight_decay)
        optimizer, scheduler = settings.build(groups, self.trainer.estimated_stepping_batches)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def configure_gradient_clipping(
        self,
        optimizer: Any,
        gradient_clip_val: int | float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the norm of each replica's gradient, as its own training would; values are clipped one by one anyway."""
        if gradient_clip_val and gradient_clip_algorithm in (None, "norm"):
            clip_norms([q.grad for q in self.stacked.parameters() if q.grad is not None], float(gradient_clip_val))
        else:
            self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    def on_train_end(self) -> None:
        self.write_back()
        self._take_final_m_steps()

    def _nll(self, output: Any, target: Tensor) -> Tensor:
        """Of each row in standardised units, (R, rows)."""
        mean, log_var = output if self.noise is None else (output, -self.noise.running_tau.log().float().unsqueeze(1))
        if mean.shape != target.shape:
            raise ValueError(f"the networks' means {tuple(mean.shape)} must have the shape of y {tuple(target.shape)}")
        return -gaussian_log_density(target, mean, log_var).sum(-1)

    @torch.no_grad()
    def _observe(self, output: Tensor, target: Tensor, weights: Tensor) -> None:
        """A partial M step of each replica's noise; ``weights`` (S, R, B) are shares of a row's samples."""
        assert self.noise is not None
        squares = (target - output).double().square()  # (R, S * B, O)
        weights = weights.transpose(0, 1).flatten(1)  # (R, S * B)
        self.noise.update((weights.unsqueeze(-1) * squares).sum(1) / weights.sum(1, keepdim=True))
        if self.is_logging_step:
            std = (self.target_variance / self.noise.running_tau).mean(1).sqrt().mean()
            self.log("train/noise_std", std, batch_size=weights.shape[1])

    # Evaluation -------------------------------------------------------------------------------------------------

    def on_validation_epoch_start(self) -> None:
        self._begin("val")

    def on_test_start(self) -> None:
        # A checkpoint may have been written before training ended, and with it the final M step.
        self.write_back()
        self._take_final_m_steps()

    def on_test_epoch_start(self) -> None:
        self._begin("test")

    def validation_step(self, batch: EvalBatch, batch_idx: int) -> None:
        self._evaluate("val", batch)

    def test_step(self, batch: EvalBatch, batch_idx: int) -> None:
        self._evaluate("test", batch)

    def on_validation_epoch_end(self) -> None:
        self._finish("val")

    def on_test_epoch_end(self) -> None:
        self._finish("test")

    def _begin(self, stage: Stage) -> None:
        self.write_back()
        self._seen = set()
        for task in self._tasks:
            _metrics(task, stage).reset()
            task.results.pop(stage, None)

    def _evaluate(self, stage: Stage, batch: EvalBatch) -> None:
        replica, number, rows = batch
        task = self._tasks[replica]
        samples = task.val_samples if stage == "val" else task.test_samples
        _metrics(task, stage).update(task.evaluate(rows, samples, task.seed + number))  # masks as in the task alone
        self._seen.add(replica)

    def _finish(self, stage: Stage) -> None:
        results: list[StageResult] = []
        for replica in sorted(self._seen):  # fewer than all in Lightning's sanity check, say
            task = self._tasks[replica]
            task.results[stage] = _metrics(task, stage).compute()
            results.append(task.results[stage])
        names = results[0].scalars if results else {}
        self.log_dict({f"{stage}/{name}": sum(r.scalars[name] for r in results) / len(results) for name in names})

    def _take_final_m_steps(self) -> None:
        """The final M step of the noise of every task that asks for one and has had none; needs ReplicatedData."""
        data: Any = getattr(self.trainer, "datamodule", None)
        if self.noise is None or not hasattr(data, "held_out_batches"):
            return
        for replica, task in enumerate(self._tasks):
            if task.final_m_step and task.noise is not None and not task.noise.is_final:
                task.take_final_m_step(data.held_out_batches(replica, M_STEP_ROWS), max(task.val_samples, 1))
        self.noise.read()


@torch.no_grad()
def clip_norms(gradients: Sequence[Tensor], max_norm: float) -> None:
    """Scale gradients (R, ...) in place so that no replica's norm over all of them exceeds ``max_norm``.

    >>> gradient = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    >>> clip_norms([gradient], max_norm=1.0)
    >>> gradient
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    if gradients:
        squares = torch.stack([gradient.square().reshape(len(gradient), -1).sum(1) for gradient in gradients])
        factor = (max_norm / (squares.sum(0).sqrt() + 1e-6)).clamp(max=1.0)  # (R,), as torch clips
        for gradient in gradients:
            gradient.mul_(factor.view(-1, *(1 for _ in gradient.shape[1:])))


def _metrics(task: RegressionTask, stage: Stage) -> StageMetrics:
    return task.val_metrics if stage == "val" else task.test_metrics


def _require_alike(tasks: Sequence[RegressionTask]) -> None:
    if not tasks:
        raise ValueError("replicas need at least one task")
    shared: dict[str, list[Any]] = {
        "optim": [task.optim for task in tasks],
        "task.train_samples": [task.train_samples for task in tasks],
        "task.noise": ["heteroscedastic" if task.noise is None else "homoscedastic" for task in tasks],
    }
    for key, values in shared.items():
        other = next((value for value in values if value != values[0]), None)
        if other is not None:
            raise UserError(
                f"replicas train in one step, so {key} must be the same for all; got {values[0]} and {other}"
            )
