"""Calibration of classification and segmentation: how often the prediction is right, against how sure it was.

Fixed-size counts: integers for observations, float64 for the sum of confidences. Metrics that keep every confidence
take hundreds of megabytes for a data set of images, and sums in float32 stop growing at 2^24 observations.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torchmetrics import Metric

NUM_BINS = 20


class ConfidenceBins(NamedTuple):
    """Observations by their confidence, in ``NUM_BINS`` bins: (..., B) each.

    Attributes:
        points: the number of observations in each bin.
        correct: of those that were right.
        confidence: the sum of their confidences, float64.
    """

    points: Tensor
    correct: Tensor
    confidence: Tensor


def confidence_bin(confidence: Tensor) -> Tensor:
    """Numbers of equal-width bins over [0, 1], each with its lower edge; the last one with 1 as well.

    >>> confidence_bin(torch.tensor([0.0, 0.049, 0.051, 0.99, 1.0]))
    tensor([ 0,  0,  1, 19, 19])
    """
    return (confidence * NUM_BINS).long().clamp_(0, NUM_BINS - 1)


def binned(confidence: Tensor, correct: Tensor, group: Tensor | None = None, num_groups: int = 1) -> ConfidenceBins:
    """Sort observations into bins, for each group apart.

    Shapes: (M,), (M,), (M,) -> (G, B) each, without groups (1, B).

    >>> bins = binned(torch.tensor([0.5, 0.99]), torch.tensor([True, False]))
    >>> bins.points.sum().item(), bins.correct[0, 10].item(), bins.confidence[0, 19].item()
    (2, 1, 0.99...)
    """
    index = confidence_bin(confidence)
    if group is not None:
        index += group * NUM_BINS
    shape = (num_groups, NUM_BINS)
    # wrong and right observations of each bin, in one go
    counts = torch.bincount(2 * index + correct, minlength=2 * num_groups * NUM_BINS).view(*shape, 2)
    # like a bincount with weights, which CUDA does not have where algorithms must be deterministic
    sums = torch.zeros(num_groups * NUM_BINS, dtype=torch.float64, device=index.device)
    sums.index_add_(0, index, confidence.double())
    return ConfidenceBins(counts.sum(-1), counts[..., 1], sums.view(shape))


def calibration_errors(bins: ConfidenceBins) -> dict[str, Tensor]:
    """How far frequencies are from confidences, (...) each; NaN without observations.

        ece              = sum_b share_b |frequency_b - confidence_b|
        mce              = max_b |frequency_b - confidence_b|   over bins that are not empty
        calibration_rmse = sqrt(sum_b share_b (frequency_b - confidence_b)^2)

    >>> bins = ConfidenceBins(torch.tensor([1, 3]), torch.tensor([1, 0]), torch.tensor([0.5, 0.0]))
    >>> {name: round(value.item(), 4) for name, value in calibration_errors(bins).items()}
    {'ece': 0.125, 'mce': 0.5, 'calibration_rmse': 0.25}
    """
    total = bins.points.sum(-1).double()
    gap = (bins.correct - bins.confidence).abs()  # of sums
    mean_gap = gap / torch.where(bins.points > 0, bins.points, 1)
    return {
        "ece": gap.sum(-1) / total,
        "mce": mean_gap.amax(-1).masked_fill(total == 0, torch.nan),
        "calibration_rmse": ((gap * mean_gap).sum(-1) / total).sqrt(),
    }


def reliability_curve(bins: ConfidenceBins) -> dict[str, list[float]]:
    """Mean confidence, frequency of right predictions and share of observations of each bin that is not empty.

    >>> reliability_curve(ConfidenceBins(torch.tensor([0, 4]), torch.tensor([0, 3]), torch.tensor([0.0, 3.5])))
    {'confidence': [0.875], 'frequency': [0.75], 'share': [1.0]}
    """
    filled = bins.points > 0
    points = bins.points[filled].double()
    return {
        "confidence": (bins.confidence[filled] / points).tolist(),
        "frequency": (bins.correct[filled] / points).tolist(),
        "share": (points / points.sum()).tolist(),
    }


class Reliability(Metric):
    """Streaming ``ConfidenceBins`` of all observations.

    >>> reliability = Reliability()
    >>> reliability.update(torch.tensor([0.8] * 5), torch.tensor([True, True, True, False, True]))
    >>> bins = reliability.compute()
    >>> round(calibration_errors(bins)["ece"].item(), 6)
    0.0
    """

    full_state_update = False
    points: Tensor
    correct: Tensor
    confidence: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name, dtype in (("points", torch.int64), ("correct", torch.int64), ("confidence", torch.float64)):
            self.add_state(name, torch.zeros(NUM_BINS, dtype=dtype), dist_reduce_fx="sum")

    def update(self, confidence: Tensor, correct: Tensor) -> None:
        """Add observations, (M,) each."""
        bins = binned(confidence, correct)
        self.points += bins.points[0]
        self.correct += bins.correct[0]
        self.confidence += bins.confidence[0]

    def compute(self) -> ConfidenceBins:
        """The bins, (B,) each."""
        return ConfidenceBins(self.points, self.correct, self.confidence)
