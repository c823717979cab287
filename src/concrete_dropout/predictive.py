"""Predictive distributions from stochastic passes: streaming sums, whose memory does not grow with the samples.

Every update takes tensors with the sample axis first. Gaussian outputs are (mean, log variance), categorical ones
logits with the class axis behind the row axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class GaussianPrediction:
    """Moments of a mixture of Gaussians, one component per sample; all variances, of the shape of ``mean``.

    Attributes:
        mean: E_t[mu_t].
        epistemic: Var_t[mu_t], the variance of the function.
        aleatoric: E_t[sigma_t^2], the variance of the noise.
        log_likelihood: of the targets, per row: logsumexp_t log N(y | mu_t, sigma_t^2) - log T; None without targets.
        pit: E_t Phi((y - mu_t) / sigma_t), the mixture's distribution function at each target (its probability integral
            transform): uniform on (0, 1) where the prediction is calibrated; None without targets.
    """

    mean: Tensor
    epistemic: Tensor
    aleatoric: Tensor
    log_likelihood: Tensor | None = None
    pit: Tensor | None = None

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
        """Predictive minus expected entropy: what the samples disagree about; at least 0, also after rounding."""
        return (self.predictive_entropy - self.expected_entropy).clamp_min(0)

    predictive = predictive_entropy
    aleatoric = property(lambda self: self.expected_entropy, doc="The expected entropy.")
    epistemic = mutual_information


Prediction = GaussianPrediction | CategoricalPrediction


class GaussianAccumulator:
    """Streaming moments (Welford, merged batch by batch), log-likelihood and PIT of Gaussian outputs.

    Args:
        targets: (rows, ...) to score; the log-density of a row is summed over its outputs, the PIT is of each output.

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
        self._pit: Tensor

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
        log_var = log_var.to(mean.dtype)
        log_density = gaussian_log_density(self._targets, mean, log_var)  # (S, rows, ...)
        batch = torch.logsumexp(log_density.flatten(2).sum(2) if mean.dim() > 2 else log_density, dim=0)
        pit = gaussian_cdf(self._targets, mean, log_var).mean(0)
        if self._log_sum is None:
            self._log_sum, self._pit = batch, pit
        else:
            self._log_sum = torch.logaddexp(self._log_sum, batch)
            self._pit = torch.lerp(self._pit, pit, mean.shape[0] / self._count)  # the count has these samples already

    def compute(self) -> GaussianPrediction:
        """The prediction so far."""
        if self._mean is None:
            raise ValueError("no samples were added yet")
        moments = self._mean, self._squares / self._count, self._noise
        if self._log_sum is None:
            return GaussianPrediction(*moments)
        return GaussianPrediction(*moments, self._log_sum - math.log(self._count), self._pit)


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
        log_p = torch.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), dim=2)
        if self._targets is not None:
            self._score(log_p)
        p = log_p.exp()
        finite = torch.finfo(log_p.dtype).min  # 0 log 0 = 0, not 0 * -inf
        # For maps of logits most of the time is memory: these are ours, and no longer needed.
        weighed = log_p.clamp_min(finite) * p if log_p.requires_grad else log_p.clamp_min_(finite).mul_(p)
        samples = p.shape[0]
        mean = p.mean(0) if samples > 1 else p[0]
        expected = weighed.sum((0, 2)) / -samples
        self._count += samples
        if self._probabilities is None:
            self._probabilities, self._entropy = mean, expected
        else:
            weight = samples / self._count
            self._probabilities = _moved(self._probabilities, mean, weight)
            self._entropy = _moved(self._entropy, expected, weight)

    def _score(self, log_p: Tensor) -> None:
        assert self._targets is not None
        samples, targets = log_p.shape[0], self._targets.long()
        if targets.shape != log_p[0, :, 0].shape:
            raise ValueError(
                f"targets {tuple(targets.shape)} must be one class per logit vector {tuple(log_p.shape[1:])}"
            )
        index = targets.clamp(0, log_p.shape[2] - 1).expand(samples, *targets.shape).unsqueeze(2)
        chosen = log_p.gather(2, index).squeeze(2)  # (S, rows, ...)
        batch = torch.logsumexp(chosen, dim=0) if samples > 1 else chosen[0]
        self._log_sum = batch if self._log_sum is None else torch.logaddexp(self._log_sum, batch)

    def compute(self) -> CategoricalPrediction:
        """The prediction so far."""
        if self._probabilities is None:
            raise ValueError("no samples were added yet")
        score = None
        if self._targets is not None and self._log_sum is not None:
            void = (self._targets < 0) | (self._targets >= self._probabilities.shape[1])
            score = (self._log_sum - math.log(self._count)).masked_fill(void, math.nan)
        # A single sample agrees with itself, to the last digit.
        expected = self._entropy.clone() if self._count > 1 else entropy(self._probabilities, dim=1)
        return CategoricalPrediction(self._probabilities.clone(), expected, score)


def mixed(predictions: Sequence[Prediction], weights: Sequence[float]) -> Prediction:
    """The mixture of several predictions of the same rows, as of the members of an ensemble.

    Means, noise, probabilities and entropies are weighed means, likelihoods those of the mixture; means that disagree
    add to the epistemic part.

    Args:
        predictions: of one kind.
        weights: one each, above 0; they need not sum to 1.

    >>> one, two = (GaussianPrediction(torch.tensor([m]), torch.zeros(1), torch.ones(1)) for m in (0.0, 2.0))
    >>> both = mixed([one, two], [1, 1])
    >>> both.mean.item(), both.epistemic.item(), both.aleatoric.item()
    (1.0, 1.0, 1.0)
    """
    shares = [weight / sum(weights) for weight in weights]

    def mean(name: str) -> Tensor:
        return torch.stack([s * getattr(p, name) for s, p in zip(shares, predictions, strict=True)]).sum(0)

    first = predictions[0]
    scores = [
        p.log_likelihood + math.log(s) for s, p in zip(shares, predictions, strict=True) if p.log_likelihood is not None
    ]
    score = torch.logsumexp(torch.stack(scores), dim=0) if scores else None
    if isinstance(first, CategoricalPrediction):
        return CategoricalPrediction(mean("probabilities"), mean("expected_entropy"), score)
    centre = mean("mean")
    spread = torch.stack([s * (p.mean - centre).square() for s, p in zip(shares, predictions, strict=True)]).sum(0)
    return GaussianPrediction(
        centre, mean("epistemic") + spread, mean("aleatoric"), score, None if first.pit is None else mean("pit")
    )


def _moved(mean: Tensor, part: Tensor, weight: float) -> Tensor:
    """A mean moved towards that of new samples, in its own memory where torch allows it."""
    if mean.requires_grad or part.requires_grad or mean.is_inference():
        return torch.lerp(mean, part, weight)
    return mean.lerp_(part, weight)


def gaussian_log_density(y: Tensor, mean: Tensor, log_var: Tensor) -> Tensor:
    """Log N(y | mean, exp(log_var)) in nats, with its constant: -(log 2 pi + log_var + (y - mean)^2 / var) / 2."""
    return -0.5 * (math.log(2 * math.pi) + log_var + (y - mean).square() * torch.exp(-log_var))


def gaussian_cdf(y: Tensor, mean: Tensor, log_var: Tensor) -> Tensor:
    """Phi((y - mean) / sigma), the distribution function of N(mean, exp(log_var)) at y."""
    z = (y - mean) * torch.exp(-0.5 * log_var)
    return 0.5 + 0.5 * torch.erf(z * math.sqrt(0.5))


def entropy(probabilities: Tensor, dim: int) -> Tensor:
    """-sum p log p in nats, with 0 log 0 = 0."""
    return torch.special.entr(probabilities).sum(dim)
