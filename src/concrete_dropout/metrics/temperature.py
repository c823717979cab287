"""Calibration by one number that is fitted on held-out data: a temperature of class probabilities, a scale of stds.

The baseline of Guo et al. (2017): p_T = softmax(log p / T), with T of the smallest NLL. For one pass without dropout
log p are the logits, up to a constant that the softmax does not see; for Monte Carlo dropout p is the mean over
samples. The order of the classes stays, and with it the accuracy.

The analogue for regression: N(mean, s^2 variance). Its NLL is smallest where s^2 is the mean squared standardised
error.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from concrete_dropout.predictive import (
    CategoricalPrediction,
    GaussianPrediction,
    entropy,
    gaussian_cdf,
    gaussian_log_density,
)

MAX_STEPS = 100
LIMITS = (1e-2, 1e2)  # beyond these data say "always" or "never" and nothing about a temperature


def log_probabilities(probabilities: Tensor) -> Tensor:
    """Log p in float64, finite also where p has underflown to 0."""
    return probabilities.double().clamp_min(torch.finfo(torch.float32).tiny).log()


def fit_temperature(log_p: Tensor, targets: Tensor) -> float:
    """The temperature with the smallest mean NLL, between 0.01 and 100; by L-BFGS in log T, a convex problem in 1 / T.

    Shapes: log_p (M, C), logits or log-probabilities; targets (M,), class indices.

    >>> logits = 3 * torch.randn(5000, 4, generator=torch.Generator().manual_seed(0))
    >>> targets = torch.distributions.Categorical(logits=logits / 2).sample()
    >>> fit_temperature(logits, targets)
    2.0
    """
    log_p, targets = log_p.detach().double(), targets.long()
    log_t = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([log_t], max_iter=MAX_STEPS, line_search_fn="strong_wolfe", tolerance_grad=1e-9)
    low, high = map(math.log, LIMITS)

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = F.cross_entropy(log_p * torch.exp(-log_t.clamp(low, high)), targets)
        value.backward()
        return value

    with torch.enable_grad(), torch.inference_mode(False):
        optimizer.step(loss)
    return float(log_t.detach().clamp(low, high).exp())


def tempered(prediction: CategoricalPrediction, targets: Tensor, temperature: float) -> CategoricalPrediction:
    """The prediction at a temperature; it no longer knows the samples, so its whole entropy counts as expected.

    Shapes: probabilities (rows, C, ...), targets (rows, ...); void targets have NaN as their log-likelihood.
    """
    log_p = torch.log_softmax(log_probabilities(prediction.probabilities) / temperature, dim=1)
    index = targets.clamp(0, log_p.shape[1] - 1).unsqueeze(1)
    void = (targets < 0) | (targets >= log_p.shape[1])
    score = log_p.gather(1, index).squeeze(1).masked_fill(void, torch.nan)
    p = log_p.exp()
    return CategoricalPrediction(p, entropy(p, dim=1), score)


def squared_errors(prediction: GaussianPrediction, targets: Tensor) -> Tensor:
    """(y - mean)^2 / variance of each value, in the shape of the targets."""
    return (targets - prediction.mean).double().square() / prediction.predictive.double().clamp_min(1e-30)


def fit_std_scale(standardised_squares: Tensor) -> float:
    """The factor s of predictive standard deviations with the smallest Gaussian NLL: s^2 = mean (y - mean)^2 / var.

    >>> fit_std_scale(torch.tensor([4.0, 4.0]))
    2.0
    """
    return float(standardised_squares.double().mean().sqrt())


def rescaled(prediction: GaussianPrediction, targets: Tensor, scale: float) -> GaussianPrediction:
    """One Gaussian with the prediction's mean and s^2 times its variance, scored at the targets (rows, O).

    With s = 1 it is what the scaled one has to be compared with: the mixture over masks is no Gaussian.
    """
    factor = scale**2
    mean, epistemic, aleatoric = prediction.mean, factor * prediction.epistemic, factor * prediction.aleatoric
    log_var = (epistemic + aleatoric).clamp_min(1e-30).log()
    score = gaussian_log_density(targets, mean, log_var).flatten(1).sum(1)
    return GaussianPrediction(mean, epistemic, aleatoric, score, gaussian_cdf(targets, mean, log_var))
