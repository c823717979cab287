"""Standardisation, fitted in float64 and kept in checkpoints: y = mean + std * normalised."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Affine(nn.Module):
    """Column-wise map between original units and zero mean, unit variance.

    Both numbers are float64 buffers: a float32 column of, say, dates in seconds has lost its digits before the mean
    is subtracted.

    Args:
        mean: (D,) in original units.
        std: (D,), above 0.

    >>> scale = Affine.fit(torch.tensor([[1.0, 5.0], [3.0, 5.0]]))
    >>> scale.normalise(torch.tensor([[3.0, 5.0]]))
    tensor([[1., 0.]])
    >>> scale.restore(torch.tensor([[1.0, 0.0]]))
    tensor([[3., 5.]], dtype=torch.float64)
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean.detach().double())
        self.register_buffer("std", std.detach().double())

    @classmethod
    def fit(cls, values: Tensor) -> Affine:
        """Mean and standard deviation of the columns of (N, D); a constant column keeps its unit."""
        values = values.double()
        # By the range: the rounded mean of equal numbers is not always one of them, and std then not 0.
        constant = values.amax(0) == values.amin(0)
        return cls(values.mean(0), values.std(0, correction=0).masked_fill(constant, 1.0))

    @classmethod
    def identity(cls, columns: int) -> Affine:
        """The map that changes nothing."""
        return cls(torch.zeros(columns), torch.ones(columns))

    def normalise(self, values: Tensor) -> Tensor:
        """Standardised values in float32, from original units."""
        return ((values.double() - self.mean) / self.std).float()

    def restore(self, values: Tensor) -> Tensor:
        """Original units in float64, from standardised values."""
        return self.mean + self.std * values.double()

    def restore_variance(self, variances: Tensor) -> Tensor:
        """Variances in original units squared."""
        return self.std.square() * variances.double()

    @property
    def log_std(self) -> Tensor:
        """What a log-density per row loses in original units: the sum of log std over the columns."""
        return self.std.log().sum()
