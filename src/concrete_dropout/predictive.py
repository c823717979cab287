"""Predictive distributions from stochastic passes: streaming sums, whose memory does not grow with the samples.

Every update takes tensors with the sample axis first. Gaussian outputs are (mean, log variance), categorical ones
logits with the class axis behind the row axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from concrete_dropout.dropout.passes import DEFAULT_MEMORY, deterministic_pass, stochastic_passes
from concrete_dropout.dropout.streams import Mask

Likelihood = Literal["gaussian", "categorical"]
Inputs = Tensor | tuple[Tensor, ...]


@dataclass(frozen=True)
class GaussianPrediction:
    """Moments of a mixture of Gaussians, one component per sample; all variances, of the shape of ``mean``.

    Attributes:
        mean: E_t[mu_t].
        epistemic: Var_t[mu_t], the variance of the function.
        aleatoric: E_t[sigma_t^2], the variance of the noise.
        log_likelihood: of the targets, per row: logsumexp_t log N(y | mu_t, sigma_t^2) - log T; None without targets.
    """

    mean: Tensor
    epistemic: Tensor
    aleatoric: Tensor
    log_likelihood: Tensor | None = None

    @property
    def predictive(self) -> Tensor:
        """Variance of the mixture: epistemic + aleatoric."""
        return self.epistemic + self.aleatoric


@dataclass(frozen=True)
class CategoricalPrediction:
    """A mixture of categorical distributions; entropies in nats, without the class axis.

    Attributes:
        probabilities: E_t[softmax], classes on the same axis as in the logits.
        expected_entropy: E_t H[p_t], the aleatoric part.
        log_likelihood: of the targets, log E_t[p_t(y)]; None without targets.
    """

    probabilities: Tensor
    expected_entropy: Tensor
    log_likelihood: Tensor | None = None

    @property
    def mean(self) -> Tensor:
        """The probabilities, under the name that both likelihoods share."""
        return self.probabilities

    @property
    def predictive_entropy(self) -> Tensor:
        """H[E_t p_t]."""
        return entropy(self.probabilities, dim=1)

    @property
    def mutual_information(self) -> Tensor:
        """Predictive minus expected entropy: what the samples disagree about; at least 0 up to rounding."""
        return self.predictive_entropy - self.expected_entropy

    predictive = predictive_entropy
    aleatoric = property(lambda self: self.expected_entropy, doc="The expected entropy.")
    epistemic = mutual_information


Prediction = GaussianPrediction | CategoricalPrediction


class GaussianAccumulator:
    """Streaming moments (Welford, merged batch by batch) and log-likelihood of Gaussian outputs.

    Args:
        targets: (rows, ...) to score; the log-density of a row is summed over its outputs.

    >>> accumulator = GaussianAccumulator()
    >>> accumulator.update(torch.tensor([[0.0], [2.0]]), torch.zeros(2, 1))  # two samples of one row
    >>> prediction = accumulator.compute()
    >>> prediction.mean.item(), prediction.epistemic.item(), prediction.aleatoric.item()
    (1.0, 1.0, 1.0)
    """

    def __init__(self, targets: Tensor | None = None) -> None:
        self._targets = targets
        self._count = 0
        self._mean: Tensor | None = None
        self._squares: Tensor
        self._noise: Tensor
        self._log_sum: Tensor | None = None

    def update(self, mean: Tensor, log_var: Tensor | None = None) -> None:
        """Add samples: ``mean`` (S, rows, ...), ``log_var`` that broadcasts with it (None: no noise is modelled)."""
        mean = mean.to(torch.promote_types(mean.dtype, torch.float32))
        samples = mean.shape[0]
        batch_mean = mean.mean(0)
        batch_squares = (mean - batch_mean).square_().sum(0) if samples > 1 else torch.zeros_like(batch_mean)
        noise = (
            torch.zeros_like(batch_mean) if log_var is None else log_var.to(mean.dtype).exp().expand_as(mean).mean(0)
        )
        if self._mean is None:
            self._mean, self._squares, self._noise = batch_mean, batch_squares, noise
        else:
            total = self._count + samples
            delta = batch_mean - self._mean
            self._mean = self._mean + delta * (samples / total)
            self._squares = self._squares + batch_squares + delta.square() * (self._count * samples / total)
            self._noise = self._noise + (noise - self._noise) * (samples / total)
        self._count += samples
        if self._targets is not None:
            self._score(mean, log_var)

    def _score(self, mean: Tensor, log_var: Tensor | None) -> None:
        if log_var is None:
            raise ValueError("a log-likelihood needs the noise: let the model return (mean, log_var), or give log_var")
        assert self._targets is not None
        if self._targets.shape != mean.shape[1:]:
            raise ValueError(
                f"targets {tuple(self._targets.shape)} must have the shape of the mean {tuple(mean.shape[1:])}"
            )
        log_density = gaussian_log_density(self._targets, mean, log_var.to(mean.dtype))  # (S, rows, ...)
        batch = torch.logsumexp(log_density.flatten(2).sum(2) if mean.dim() > 2 else log_density, dim=0)
        self._log_sum = batch if self._log_sum is None else torch.logaddexp(self._log_sum, batch)

    def compute(self) -> GaussianPrediction:
        """The prediction so far."""
        if self._mean is None:
            raise ValueError("no samples were added yet")
        score = None if self._log_sum is None else self._log_sum - math.log(self._count)
        return GaussianPrediction(self._mean, self._squares / self._count, self._noise, score)


class CategoricalAccumulator:
    """Streaming mean of probabilities and entropies.

    Args:
        targets: (rows, ...) class indices to score.

    >>> accumulator = CategoricalAccumulator()
    >>> accumulator.update(torch.tensor([[[100.0, 0.0]], [[0.0, 100.0]]]))  # two samples that contradict each other
    >>> accumulator.compute().probabilities
    tensor([[0.5000, 0.5000]])
    >>> accumulator.compute().mutual_information.item() == pytest.approx(math.log(2))
    True
    """

    def __init__(self, targets: Tensor | None = None) -> None:
        self._targets = targets
        self._count = 0
        self._probabilities: Tensor | None = None
        self._entropy: Tensor
        self._log_sum: Tensor | None = None

    def update(self, logits: Tensor) -> None:
        """Add samples of ``logits`` (S, rows, classes, ...)."""
        samples = logits.shape[0]
        log_p = torch.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), dim=2)
        p = log_p.exp()
        # p log p tends to 0 with p, but -inf logits (masked classes) would give 0 * -inf
        expected = -(p * log_p.clamp_(min=torch.finfo(p.dtype).min)).sum(2).mean(0)
        mean = p.mean(0)
        self._count += samples
        if self._probabilities is None:
            self._probabilities, self._entropy = mean, expected
        else:
            weight = samples / self._count
            self._probabilities = self._probabilities + (mean - self._probabilities) * weight
            self._entropy = self._entropy + (expected - self._entropy) * weight
        if self._targets is not None:
            self._score(log_p)

    def _score(self, log_p: Tensor) -> None:
        assert self._targets is not None
        targets, classes = self._targets.long(), log_p.shape[2]
        if targets.shape != log_p[0, :, 0].shape:
            raise ValueError(
                f"targets {tuple(targets.shape)} must be one class per logit vector {tuple(log_p.shape[1:])}"
            )
        index = targets.clamp(0, classes - 1).expand(log_p.shape[0], *targets.shape).unsqueeze(2)
        chosen = log_p.gather(2, index).squeeze(2)  # (S, rows, ...)
        batch = torch.logsumexp(chosen, dim=0).masked_fill((targets < 0) | (targets >= classes), math.nan)
        self._log_sum = batch if self._log_sum is None else torch.logaddexp(self._log_sum, batch)

    def compute(self) -> CategoricalPrediction:
        """The prediction so far."""
        if self._probabilities is None:
            raise ValueError("no samples were added yet")
        score = None if self._log_sum is None else self._log_sum - math.log(self._count)
        return CategoricalPrediction(self._probabilities, self._entropy, score)


def gaussian_log_density(y: Tensor, mean: Tensor, log_var: Tensor) -> Tensor:
    """Log N(y | mean, exp(log_var)) in nats, with its constant: -(log 2 pi + log_var + (y - mean)^2 / var) / 2."""
    return -0.5 * (math.log(2 * math.pi) + log_var + (y - mean).square() * torch.exp(-log_var))


def entropy(probabilities: Tensor, dim: int) -> Tensor:
    """-sum p log p in nats, with 0 log 0 = 0."""
    return -torch.xlogy(probabilities, probabilities).sum(dim)


def mc_predict(
    model: nn.Module,
    x: Inputs,
    likelihood: Likelihood,
    samples: int = 50,
    *,
    targets: Tensor | None = None,
    log_var: Tensor | None = None,
    seed: int | None = None,
    mask: Mask = "concrete",
    frozen_masks: bool = False,
    batch_rows: int | None = None,
    batch_samples: int | None = None,
    memory_budget: int = DEFAULT_MEMORY,
) -> Prediction:
    """Predict with ``samples`` stochastic passes; the model's modes and random state of torch are left alone.

    Args:
        model: returns (mean, log_var), or mean alone, for "gaussian"; logits (rows, classes, ...) for "categorical".
        x: a tensor (rows, ...), or a tuple of them for a model with several arguments.
        likelihood: "gaussian" or "categorical".
        samples: number of passes; 0 makes one with dropout inactive (weight scaling, no epistemic part).
        targets: to score; class indices outside of the classes (void) get NaN.
        log_var: of shared noise, for models that return the mean alone; broadcasts with it.
        seed: results are the same for the same seed, up to rounding, whichever way the work is cut.
        mask: "concrete" (as in training) or "bernoulli" masks for Concrete layers.
        frozen_masks: one function draw per sample for all rows, instead of a mask for each row.
        batch_rows: rows per pass; as many as the memory budget allows by default.
        batch_samples: samples per pass; chosen by the size of the network by default.
        memory_budget: bytes of activations that a pass may take.

    Returns:
        A ``GaussianPrediction`` or a ``CategoricalPrediction``, by the likelihood.

    >>> model = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    >>> prediction = mc_predict(model, torch.ones(4, 2), "categorical", samples=20, seed=0)
    >>> prediction.probabilities.shape, bool((prediction.epistemic > 0).all())
    (torch.Size([4, 3]), True)
    """
    inputs = (x,) if isinstance(x, Tensor) else tuple(x)
    _check(inputs, likelihood, samples, targets, batch_rows, batch_samples)
    if samples == 0:
        accumulator = _accumulator(likelihood, targets)
        _add(accumulator, deterministic_pass(model, inputs), log_var)
        return accumulator.compute()
    parts: list[Prediction] = []
    rows, accumulator = slice(0, 0), _accumulator(likelihood, targets)
    for new_rows, output in stochastic_passes(
        model,
        inputs,
        samples,
        seed=seed,
        mask=mask,
        frozen_masks=frozen_masks,
        batch_rows=batch_rows,
        batch_samples=batch_samples,
        memory_budget=memory_budget,
    ):
        if new_rows != rows:
            if rows.stop > 0:
                parts.append(accumulator.compute())
            rows, accumulator = (
                new_rows,
                _accumulator(likelihood, None if targets is None else targets[new_rows]),
            )
        _add(accumulator, output, log_var)
    parts.append(accumulator.compute())
    return parts[0] if len(parts) == 1 else _joined(parts)


def _check(
    inputs: tuple[Tensor, ...],
    likelihood: str,
    samples: int,
    targets: Tensor | None,
    batch_rows: int | None,
    batch_samples: int | None,
) -> None:
    if likelihood not in get_args(Likelihood):
        raise ValueError(f"likelihood={likelihood!r} must be one of {', '.join(get_args(Likelihood))}")
    if samples < 0:
        raise ValueError(f"samples={samples} must be 0 (dropout inactive) or more")
    for name, value in (("batch_rows", batch_rows), ("batch_samples", batch_samples)):
        if value is not None and value < 1:
            raise ValueError(f"{name}={value} must be at least 1")
    lengths = {tensor.shape[0] if tensor.dim() else 0 for tensor in inputs}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(f"x must have rows, the same number in each part; got {[tuple(t.shape) for t in inputs]}")
    if targets is not None and targets.shape[:1] != inputs[0].shape[:1]:
        raise ValueError(f"targets have {tuple(targets.shape[:1])} rows where x has {tuple(inputs[0].shape[:1])}")


def _accumulator(likelihood: Likelihood, targets: Tensor | None) -> GaussianAccumulator | CategoricalAccumulator:
    return GaussianAccumulator(targets) if likelihood == "gaussian" else CategoricalAccumulator(targets)


def _add(accumulator: GaussianAccumulator | CategoricalAccumulator, output: Any, log_var: Tensor | None) -> None:
    """One chunk of model output, which follows the contract of its likelihood, into an accumulator."""
    if isinstance(accumulator, CategoricalAccumulator):
        if not isinstance(output, Tensor) or output.dim() < 3:
            raise ValueError('a model for likelihood="categorical" must return logits (rows, classes, ...)')
        accumulator.update(output)
    elif isinstance(output, Tensor):
        accumulator.update(output, log_var)
    elif isinstance(output, Sequence) and len(output) == 2:
        accumulator.update(*output)
    else:
        raise ValueError('a model for likelihood="gaussian" must return (mean, log_var), or mean alone')


def _joined(parts: list[Prediction]) -> Prediction:
    """Predictions of consecutive rows as one."""
    names = [field.name for field in fields(parts[0])]
    columns = {name: [getattr(part, name) for part in parts] for name in names}
    joined = {name: None if values[0] is None else torch.cat(values) for name, values in columns.items()}
    return type(parts[0])(**joined)  # type: ignore[arg-type]
