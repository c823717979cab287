"""Scores of Gaussian predictions: log-likelihood, squared error, CRPS."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torchmetrics import Metric


def gaussian_crps(y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """Continuous ranked probability score of N(mean, variance), in the unit of y; the smaller the better.

        CRPS = integral (F(x) - [x >= y])^2 dx
             = sigma * (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)),   z = (y - mean) / sigma

    Without variance it is |y - mean|.

    >>> gaussian_crps(torch.tensor([0.0, 3.0]), torch.zeros(2), torch.tensor([1.0, 0.0]))
    tensor([0.2337, 3.0000])
    """
    sigma = variance.sqrt().clamp_min(1e-30)
    z = (y - mean) / sigma
    density = torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)
    return sigma * (z * torch.erf(z * math.sqrt(0.5)) + 2 * density - 1 / math.sqrt(math.pi))


class GaussianScores(Metric):
    """Means over the rows that were seen: ``log_likelihood``, ``nll``, ``rmse``, ``crps``; and ``num_rows``, of them.

    The log-likelihood is that of the mixture over masks, the CRPS that of the Gaussian with the mixture's mean and
    variance (the mixture itself has T^2 terms).

    >>> scores = GaussianScores()
    >>> scores.update(torch.tensor([-1.5]), torch.tensor([[2.0]]), torch.zeros(1, 1), torch.ones(1, 1))
    >>> {name: round(value.item(), 3) for name, value in scores.compute().items()}
    {'log_likelihood': -1.5, 'nll': 1.5, 'rmse': 2.0, 'crps': 1.453, 'num_rows': 1.0}
    """

    full_state_update = False
    log_likelihood: Tensor
    squared_error: Tensor
    crps: Tensor
    rows: Tensor
    values: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("log_likelihood", "squared_error", "crps", "rows", "values"):
            self.add_state(name, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, log_likelihood: Tensor, y: Tensor, mean: Tensor, variance: Tensor) -> None:
        """Add rows: log-likelihoods (rows,), and targets, means and predictive variances (rows, outputs)."""
        y, mean, variance = y.double(), mean.double(), variance.double()
        self.log_likelihood += log_likelihood.double().sum()
        self.squared_error += (y - mean).square().sum()
        self.crps += gaussian_crps(y, mean, variance).sum()
        self.rows += log_likelihood.numel()
        self.values += y.numel()

    def compute(self) -> dict[str, Tensor]:
        """Likelihoods per row (a row's outputs are summed), errors per value."""
        log_likelihood = self.log_likelihood / self.rows
        return {
            "log_likelihood": log_likelihood,
            "nll": -log_likelihood,
            "rmse": (self.squared_error / self.values).sqrt(),
            "crps": self.crps / self.values,
            "num_rows": self.rows.clone(),
        }
