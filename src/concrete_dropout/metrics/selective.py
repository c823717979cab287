"""Does uncertainty find errors? Accuracy and calibration of what is left when the most uncertain part is left out.

The exact order of 40 million uncertainties cannot be kept, so observations are counted by bins of their uncertainty.
Bins are fine near both ends of the scale: most observations of a good network lie close to 0, and those of a bad one
close to the largest entropy. Of the bin in which a limit falls, the right part of its counts is taken: the shares are
exact, and order is lost only within that bin.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torchmetrics import Metric

from concrete_dropout.metrics.confusion import ClassCounts, counts_by_group, mean_iou
from concrete_dropout.metrics.reliability import NUM_BINS, ConfidenceBins, binned, calibration_errors

LEFT_OUT: tuple[float, ...] = tuple(share / 20 for share in range(19))  # 0, 0.05, ..., 0.9
NUM_UNCERTAINTIES = 512
ENDS = (1e-7, 1 - 1e-4)  # of the largest entropy; below the first there is rounding only


def uncertainty_bin(uncertainty: Tensor, num_classes: int) -> Tensor:
    """Numbers of bins that are even in the logit of u / log C, where log C is the largest possible entropy.

    >>> uncertainty_bin(torch.tensor([-1e-8, 0.0, 1e-8, 0.1, 0.5, math.log(2)]), num_classes=2)
    tensor([  0,   0,   0, 289, 345, 511])
    """
    low, high = (math.log(end / (1 - end)) for end in ENDS)
    part = (uncertainty / math.log(num_classes)).clamp(*ENDS)
    place = (torch.logit(part) - low) * (NUM_UNCERTAINTIES / (high - low))
    return place.long().clamp_(0, NUM_UNCERTAINTIES - 1)


def kept_parts(points: Tensor, left_out: Tensor) -> Tensor:
    """Which part of each bin is left when the most uncertain observations are left out.

    Shapes: points (K,), from the least to the most uncertain bin, left_out (L,) -> (L, K), each in [0, 1].

    >>> kept_parts(torch.tensor([2, 0, 2]), torch.tensor([0.0, 0.25, 0.5]))
    tensor([[1.0000, 1.0000, 1.0000],
            [1.0000, 1.0000, 0.5000],
            [1.0000, 0.0000, 0.0000]], dtype=torch.float64)
    """
    points = points.double()
    before = points.cumsum(0) - points
    limit = (1 - left_out.double()).unsqueeze(1) * points.sum()  # (L, 1)
    return ((limit - before) / points.clamp_min(1)).clamp(0, 1)  # of an empty bin: any


class SelectivePrediction(Metric):
    """Accuracy, calibration and mean IoU without the most uncertain observations, at the shares ``LEFT_OUT``.

    Args:
        num_classes: C.
        with_classes: count classes as well, for the mean IoU.

    >>> metric = SelectivePrediction(num_classes=2)
    >>> entropy, targets = torch.tensor([0.01] * 8 + [0.5] * 2), torch.tensor([0] * 8 + [1] * 2)
    >>> metric.update(entropy, targets, predicted=torch.zeros(10).long(), confidence=torch.ones(10))
    >>> accuracy = metric.compute()["accuracy"]  # both errors are among the uncertain fifth
    >>> [(LEFT_OUT[i], round(accuracy[i].item(), 3)) for i in (0, 2, 4)]
    [(0.0, 0.8), (0.1, 0.889), (0.2, 1.0)]
    """

    full_state_update = False
    points: Tensor
    correct: Tensor
    confidence: Tensor
    classes: Tensor

    def __init__(self, num_classes: int, with_classes: bool = False) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.with_classes = with_classes
        shape = (NUM_UNCERTAINTIES, NUM_BINS)
        for name, dtype in (("points", torch.int64), ("correct", torch.int64), ("confidence", torch.float64)):
            self.add_state(name, torch.zeros(shape, dtype=dtype), dist_reduce_fx="sum")
        counted = (3, NUM_UNCERTAINTIES, num_classes if with_classes else 0)
        self.add_state("classes", torch.zeros(counted, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, uncertainty: Tensor, targets: Tensor, predicted: Tensor, confidence: Tensor) -> None:
        """Add labelled observations, (M,) each."""
        group = uncertainty_bin(uncertainty, self.num_classes)
        bins = binned(confidence, predicted == targets, group, NUM_UNCERTAINTIES)
        self.points += bins.points
        self.correct += bins.correct
        self.confidence += bins.confidence
        if self.with_classes:
            self.classes += counts_by_group(targets, predicted, self.num_classes, group, NUM_UNCERTAINTIES)

    def compute(self) -> dict[str, Tensor]:
        """``accuracy``, ``calibration_rmse`` and, with classes, ``miou`` of what is kept: (L,) each."""
        left_out = torch.tensor(LEFT_OUT, dtype=torch.float64, device=self.points.device)
        parts = kept_parts(self.points.sum(1), left_out)  # (L, K)
        kept = ConfidenceBins(*(parts @ each.double() for each in (self.points, self.correct, self.confidence)))
        result = {
            "accuracy": kept.correct.sum(-1) / kept.points.sum(-1),
            "calibration_rmse": calibration_errors(kept)["calibration_rmse"],
        }
        if self.with_classes:
            result["miou"] = mean_iou(ClassCounts(*(parts @ self.classes.double())))
        return result
