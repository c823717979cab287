"""Agreement of predicted and true classes over a whole data set: intersection over union and accuracy per class."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torchmetrics import Metric


class ClassCounts(NamedTuple):
    """What a confusion matrix says about each class: (..., C) each.

    Attributes:
        hits: observations of the class that were predicted as such (the intersection).
        predicted: observations that were predicted as the class.
        actual: observations of the class.
    """

    hits: Tensor
    predicted: Tensor
    actual: Tensor


def class_counts(confusion: Tensor) -> ClassCounts:
    """From a confusion matrix, (C, C) with targets in rows.

    >>> class_counts(torch.tensor([[5, 1], [2, 3]]))
    ClassCounts(hits=tensor([5, 3]), predicted=tensor([7, 4]), actual=tensor([6, 5]))
    """
    return ClassCounts(confusion.diagonal(), confusion.sum(0), confusion.sum(1))


def counts_by_group(targets: Tensor, predicted: Tensor, num_classes: int, group: Tensor, num_groups: int) -> Tensor:
    """Hits, predictions and observations of each class, for each group apart: (M,) each -> (3, G, C)."""
    size = num_groups * num_classes
    of_target, of_predicted = group * num_classes + targets, group * num_classes + predicted
    # hits are counted with the targets: rights and wrongs of each class in one go
    actual = torch.bincount(2 * of_target + (targets == predicted), minlength=2 * size).view(-1, 2)
    counts = torch.stack([actual[:, 1], torch.bincount(of_predicted, minlength=size), actual.sum(1)])
    return counts.view(3, num_groups, num_classes)


def intersection_over_union(counts: ClassCounts) -> Tensor:
    """Of each class over all observations, (..., C): hits / (predicted + actual - hits).

    NaN for a class that is neither there nor predicted. One that is predicted without being there has 0.

    >>> intersection_over_union(class_counts(torch.tensor([[5, 1, 0], [2, 3, 0], [0, 0, 0]])))
    tensor([0.6250, 0.5000,    nan], dtype=torch.float64)
    """
    union = counts.predicted + counts.actual - counts.hits
    return counts.hits.double() / union


def mean_iou(counts: ClassCounts) -> Tensor:
    """Mean of the intersection over union over the classes that have one, (...); NaN if none has."""
    return intersection_over_union(counts).nanmean(-1)


def class_accuracy(counts: ClassCounts) -> Tensor:
    """Mean over classes of the share of their observations that was found (recall), without absent classes.

    >>> class_accuracy(class_counts(torch.tensor([[3, 1, 0], [0, 2, 0], [0, 0, 0]])))
    tensor(0.8750, dtype=torch.float64)
    """
    return (counts.hits.double() / counts.actual).nanmean(-1)


class ConfusionMatrix(Metric):
    """Observations by target (rows) and prediction (columns), (C, C) in int64.

    The one of torchmetrics gives the same numbers, but where algorithms must be deterministic it compares every
    observation with every entry of the matrix, in a table of hundreds of megabytes per image.

    Args:
        num_classes: C.

    >>> confusion = ConfusionMatrix(2)
    >>> confusion.update(targets=torch.tensor([0, 0, 1]), predicted=torch.tensor([0, 1, 1]))
    >>> confusion.compute()
    tensor([[1, 1],
            [0, 1]])
    """

    full_state_update = False
    counts: Tensor

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.add_state("counts", torch.zeros(num_classes, num_classes, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, targets: Tensor, predicted: Tensor) -> None:
        """Add labelled observations, (M,) each."""
        index = targets * self.num_classes + predicted
        self.counts += torch.bincount(index, minlength=self.counts.numel()).view_as(self.counts)

    def compute(self) -> Tensor:
        """The matrix over all processes."""
        return self.counts
