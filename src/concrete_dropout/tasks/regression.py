"""Regression with Gaussian noise: predicted by the network, or learned for all inputs alike."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from concrete_dropout.dropout.passes import deterministic_pass, stochastic_passes
from concrete_dropout.dropout.streams import Mask
from concrete_dropout.errors import UserError
from concrete_dropout.metrics.stage import RegressionMetrics
from concrete_dropout.models.heads import GaussianHead
from concrete_dropout.montecarlo import mc_predict_at
from concrete_dropout.predictive import GaussianPrediction, gaussian_log_density
from concrete_dropout.scaling import Affine
from concrete_dropout.settings import OptimSettings
from concrete_dropout.tasks.base import Batch, Task
from concrete_dropout.tasks.m_step_rows import rows_for_the_m_step
from concrete_dropout.tasks.noise import NoisePrecision

Noise = Literal["heteroscedastic", "homoscedastic"]
M_STEP_SEED = 1 << 32  # masks of the M step are not those of the evaluation
_log = logging.getLogger(__name__)


class RegressionTask(Task):
    """y = f(x) + noise, noise ~ N(0, sigma^2) per output.

    Batches are (x, y), standardised, (rows, D) and (rows, O). Training is in these units. All results are in
    original units: log-likelihoods lose sum log std of the targets, errors and standard deviations are multiplied.

    Args:
        network: returns (mean, log_var), (rows, O) each, for heteroscedastic noise; mean alone for homoscedastic.
        num_train: N.
        inputs: the map between original and standardised inputs.
        targets: the same of targets.
        noise: "heteroscedastic" (sigma(x) from the network) or "homoscedastic" (see ``NoisePrecision``).
        min_noise: smallest standard deviation of noise that is believed in, in standard deviations of the target. A
            network that fits few data exactly learns a noise of almost 0; then any dropout is too much, p follows the
            noise to 0, and the model is sure of what it has not seen. A bound near the error on new data prevents
            that. Of heteroscedastic noise it is the ``min_std`` of the network's ``GaussianHead``.
        final_m_step: take the final M step of homoscedastic noise when training ends, and before a test where the
            tested weights had none. Needs a data module, or the loaders of the same trainer's fit.
        optim: see ``Task``, as for the others.
        kl_weight: see ``Task``.
        train_samples: see ``Task``.
        val_samples: see ``Task``.
        test_samples: see ``Task``.
        mask: see ``Task``.
        seed: see ``Task``.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        num_train: int,
        inputs: Affine,
        targets: Affine,
        noise: Noise = "heteroscedastic",
        min_noise: float = 0.0,
        final_m_step: bool = False,
        optim: OptimSettings | None = None,
        kl_weight: float = 1.0,
        train_samples: int = 1,
        val_samples: int = 20,
        test_samples: int = 100,
        mask: Mask = "concrete",
        seed: int = 0,
    ) -> None:
        super().__init__(
            network,
            num_train=num_train,
            metrics=(RegressionMetrics(), RegressionMetrics()),
            optim=optim,
            kl_weight=kl_weight,
            train_samples=train_samples,
            val_samples=val_samples,
            test_samples=test_samples,
            mask=mask,
            seed=seed,
        )
        if noise not in get_args(Noise):
            raise ValueError(f"task.noise={noise!r} must be one of {', '.join(get_args(Noise))}")
        if not 0 <= min_noise < math.inf:
            raise ValueError(f"task.min_noise={min_noise} must be 0 or more")
        if min_noise > 0 and noise == "heteroscedastic":
            if not isinstance(network, GaussianHead):
                raise UserError(
                    f"task.min_noise={min_noise} with task.noise=heteroscedastic needs a network in a GaussianHead, "
                    "which adds it: wrap it, or set task.min_noise=0"
                )
            network.min_std = min_noise
        self.inputs = inputs
        self.targets = targets
        self.final_m_step = final_m_step
        self.noise = (
            NoisePrecision(targets.mean.numel(), num_train, min_std=min_noise) if noise == "homoscedastic" else None
        )

    @property
    def nll_offset(self) -> float:
        """Sum of log std of the targets."""
        return self.targets.log_std.item()

    def nll(self, output: Any, target: Tensor) -> Tensor:
        """Of each row, summed over its outputs, in standardised units."""
        mean, log_var = self._mean_and_log_var(output)
        if mean.shape != target.shape:
            raise ValueError(f"the network's mean {tuple(mean.shape)} must have the shape of y {tuple(target.shape)}")
        return -gaussian_log_density(target, mean, log_var).sum(-1)

    def observe(self, output: Any, target: Tensor, weights: Tensor) -> None:
        """A partial M step of homoscedastic noise, from squared residuals under the masks of this step."""
        if self.noise is not None:
            squares = (target - output).double().square()  # (S * rows, O)
            # With S > 1 the bound's derivative in tau weighs a row's samples by their likelihoods.
            self.noise.update((weights.unsqueeze(-1) * squares).sum(0) / weights.sum())
            if self.is_logging_step:
                std = self.targets.restore_variance(1 / self.noise.running_tau).mean().sqrt()
                self.log("train/noise_std", std, batch_size=target.shape[0])

    def evaluate_at(self, batch: Batch, counts: Sequence[int], seed: int) -> dict[int, dict[str, Any]]:
        """Predictions, inputs and targets in original units; after a final M step the log-likelihood before it too."""
        x, y = batch
        noise = self.noise
        shared = {"inputs": self.inputs.restore(x), "targets": self.targets.restore(y)}
        made = self._predict_at(x, y, counts, seed, None if noise is None else noise.tau)
        outputs: dict[int, dict[str, Any]] = {n: {"prediction": made[n], **shared} for n in counts}
        if noise is not None and noise.is_final:
            for count, before in self._predict_at(x, y, counts, seed, noise.running_tau).items():
                outputs[count]["log_likelihood_before_m_step"] = before.log_likelihood
        return outputs

    @torch.no_grad()
    def predict(self, x: Tensor, samples: int, seed: int = 0, frozen_masks: bool = False) -> GaussianPrediction:
        """The predictive distribution at inputs (rows, D) in original units; in original units, float64.

        Args:
            x: inputs.
            samples: stochastic passes; 0 for one without dropout.
            seed: of their masks.
            frozen_masks: the same masks for all rows: each sample is a function, and curves over x are smooth.
        """
        x = self.inputs.normalise(x.to(self.device)).to(self.dtype)
        tau = None if self.noise is None else self.noise.tau
        return self._predict_at(x, None, (samples,), seed, tau, frozen_masks)[samples]

    @torch.no_grad()
    def components(self, x: Tensor, samples: int, seed: int = 0) -> tuple[Tensor, Tensor]:
        """The Gaussians that the predictive distribution at inputs (rows, D) is a mixture of, all in original units.

        Args:
            x: inputs.
            samples: stochastic passes; 0 for one without dropout.
            seed: of their masks.

        Returns:
            Means and variances, each (S, rows, O) in float64; S is 1 where nothing is stochastic.
        """
        x = self.inputs.normalise(x.to(self.device)).to(self.dtype)
        passes = [(slice(0, len(x)), deterministic_pass(self.network, (x,)))] if samples == 0 else None
        parts: dict[int, list[tuple[Tensor, Tensor]]] = {}  # by the first of the rows that were passed together
        for rows, output in passes or stochastic_passes(self.network, (x,), samples, seed=seed, mask=self.mask):
            mean, log_var = output if self.noise is None else (output, -self.noise.tau.log().expand_as(output))
            pair = self.targets.restore(mean), self.targets.restore_variance(log_var.exp())
            parts.setdefault(rows.start, []).append(pair)
        joined = [tuple(map(torch.cat, zip(*part, strict=True))) for part in parts.values()]
        means, variances = zip(*joined, strict=True)
        return torch.cat(means, dim=1), torch.cat(variances, dim=1)

    def on_train_end(self) -> None:
        if self.final_m_step:
            self._take_final_m_step()

    def on_test_start(self) -> None:
        # A checkpoint of the best weights was written before training ended.
        if self.final_m_step and self.noise is not None and not self.noise.is_final:
            self._take_final_m_step()

    @torch.no_grad()
    def take_final_m_step(self, batches: Iterable[Batch], samples: int = 20) -> None:
        """The final M step of homoscedastic noise, from the residuals of all rows under ``samples`` masks each.

        Args:
            batches: held-out ones if there are any, else those of training, each row once.
            samples: masks per row, rounded up to a multiple of S = ``train_samples``. It is the M step of the bound
                that was trained: the masks of each group of S are weighed by their likelihoods at the current tau.
        """
        if self.noise is None:
            raise UserError("task.final_m_step needs task.noise=homoscedastic: the network predicts its noise itself")
        total, rows = torch.zeros_like(self.noise.final_tau), 0
        for index, (x, y) in enumerate(batches):
            squares = self._squared_residuals(
                x.to(self.device), y.to(self.device), samples, index
            )  # (groups, S, rows, O)
            weights = torch.softmax(-0.5 * (self.noise.running_tau * squares).sum(-1), dim=1)
            total += (weights.unsqueeze(-1) * squares).sum(1).mean(0).sum(0)
            rows += x.shape[0]
        if rows and self.noise.final_m_step(total / rows, rows):
            _log.warning("the final M step would have changed the noise precision by more than its bound allows")

    def _squared_residuals(self, x: Tensor, y: Tensor, samples: int, index: int) -> Tensor:
        """Of a batch under many masks, in groups of ``train_samples``; without dropout there is one of one."""
        size = self.train_samples
        passes = stochastic_passes(
            self.network,
            (x,),
            math.ceil(samples / size) * size,
            seed=self.seed + M_STEP_SEED + index,
            mask=self.mask,
        )
        parts: dict[int, list[Tensor]] = {}  # by the first of the rows that were passed together
        for rows, output in passes:
            parts.setdefault(rows.start, []).append((y[rows] - output).double().square())
        squares = torch.cat([torch.cat(part) for part in parts.values()], dim=1)  # (samples, rows, O)
        return squares.unflatten(0, (-1, min(size, squares.shape[0])))

    def _take_final_m_step(self) -> None:
        if self.noise is None:
            return
        loader = rows_for_the_m_step(self.trainer)
        if loader is None:
            _log.warning("task.final_m_step=true was left out: there are no training data here to take it on")
        else:
            self.take_final_m_step(loader, max(self.val_samples, 1))

    def _mean_and_log_var(self, output: Any) -> tuple[Tensor, Tensor]:
        if self.noise is None:
            if isinstance(output, Tensor) or len(output) != 2:
                raise UserError(
                    "task.noise=heteroscedastic needs a network that returns (mean, log_var): wrap it in GaussianHead, "
                    "or take task.noise=homoscedastic"
                )
            return output[0], output[1]
        if not isinstance(output, Tensor):
            raise UserError(
                "task.noise=homoscedastic needs a network that returns the mean alone: for one that returns "
                "(mean, log_var) take task.noise=heteroscedastic"
            )
        return output, -self.noise.running_tau.log().to(output.dtype)

    def _predict_at(
        self,
        x: Tensor,
        y: Tensor | None,
        counts: Sequence[int],
        seed: int,
        tau: Tensor | None,
        frozen_masks: bool = False,
    ) -> dict[int, GaussianPrediction]:
        """Predictions in original units from standardised inputs and targets, by their number of samples."""
        made = mc_predict_at(
            self.network,
            x,
            "gaussian",
            counts,
            targets=y,
            log_var=None if tau is None else -tau.log(),
            seed=seed,
            mask=self.mask,
            frozen_masks=frozen_masks,
        )
        return {n: self._restored(raw) for n, raw in made.items() if isinstance(raw, GaussianPrediction)}

    def _restored(self, raw: GaussianPrediction) -> GaussianPrediction:
        return GaussianPrediction(
            mean=self.targets.restore(raw.mean),
            epistemic=self.targets.restore_variance(raw.epistemic),
            aleatoric=self.targets.restore_variance(raw.aleatoric),
            log_likelihood=None if raw.log_likelihood is None else raw.log_likelihood.double() - self.targets.log_std,
            pit=None if raw.pit is None else raw.pit.double(),  # the same in all units
        )
