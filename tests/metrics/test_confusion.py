"""Agreement per class against scikit-learn and matrices that can be counted by hand."""

from __future__ import annotations

import pytest
import torch
from benchmarks.timing import peak_bytes
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, jaccard_score
from torchmetrics.classification import MulticlassConfusionMatrix

from concrete_dropout.metrics.confusion import (
    ClassCounts,
    ConfusionMatrix,
    class_accuracy,
    class_counts,
    counts_by_group,
    intersection_over_union,
    mean_iou,
)

from .predictions import add_states, random_targets


def test_a_matrix_that_can_be_counted_by_hand() -> None:
    counts = class_counts(torch.tensor([[4, 1, 0], [2, 3, 0], [0, 1, 9]]))
    assert intersection_over_union(counts).tolist() == pytest.approx([4 / 7, 3 / 7, 9 / 10])
    assert mean_iou(counts).item() == pytest.approx((4 / 7 + 3 / 7 + 0.9) / 3)
    assert class_accuracy(counts).item() == pytest.approx((4 / 5 + 3 / 5 + 9 / 10) / 3)


def test_scores_are_those_of_scikit_learn() -> None:
    y, predicted = random_targets(5, 400, void=0, seed=1), random_targets(5, 400, void=0, seed=2)
    predicted = torch.where(torch.arange(400) % 2 == 0, y, predicted)
    counts = class_counts(torch.tensor(confusion_matrix(y, predicted)))
    torch.testing.assert_close(intersection_over_union(counts), torch.tensor(jaccard_score(y, predicted, average=None)))
    assert mean_iou(counts).item() == pytest.approx(jaccard_score(y, predicted, average="macro"))
    assert class_accuracy(counts).item() == pytest.approx(balanced_accuracy_score(y, predicted))


def test_classes_that_never_occur_are_left_out() -> None:
    """Class 2 is nowhere; class 3 is predicted once without being there."""
    confusion = torch.zeros(4, 4).long()
    confusion[0, 0], confusion[1, 1], confusion[0, 3] = 3, 2, 1
    counts = class_counts(confusion)
    iou = intersection_over_union(counts)
    assert iou[2].isnan()
    assert iou[[0, 1, 3]].tolist() == [0.75, 1.0, 0.0]
    assert mean_iou(counts).item() == pytest.approx((0.75 + 1 + 0) / 3)
    assert class_accuracy(counts).item() == pytest.approx((0.75 + 1) / 2)  # a class without a pixel has no recall
    nothing = class_counts(torch.zeros(4, 4).long())
    assert mean_iou(nothing).isnan()
    assert class_accuracy(nothing).isnan()


def test_groups_have_counts_of_their_own() -> None:
    y, predicted = random_targets(4, 300, void=0, seed=1), random_targets(4, 300, void=0, seed=2)
    group = torch.arange(300) % 5
    counts = ClassCounts(*counts_by_group(y, predicted, 4, group, num_groups=6))
    assert counts.hits.shape == (6, 4)
    for index in range(5):
        rows = group == index
        alone = class_counts(torch.tensor(confusion_matrix(y[rows], predicted[rows], labels=range(4))))
        for part, other in zip(counts, alone, strict=True):
            assert torch.equal(part[index], other)
    assert counts.actual[5].sum().item() == 0


def test_the_matrix_is_that_of_scikit_learn_and_torchmetrics() -> None:
    y, predicted = random_targets(4, 300, void=0, seed=1), random_targets(4, 300, void=0, seed=2)
    ours, theirs, other = ConfusionMatrix(4), MulticlassConfusionMatrix(4), ConfusionMatrix(4)
    for rows in torch.arange(200).split(70):
        ours.update(y[rows], predicted[rows])
    other.update(y[200:], predicted[200:])
    add_states(ours, other)
    theirs.update(predicted, y)
    assert torch.equal(ours.compute(), theirs.compute())
    assert ours.compute().tolist() == confusion_matrix(y, predicted).tolist()


def test_the_matrix_is_lean_where_algorithms_must_be_deterministic() -> None:
    y, predicted = random_targets(11, 20_000, void=0, seed=1), random_targets(11, 20_000, void=0, seed=2)
    metric = ConfusionMatrix(11)
    torch.use_deterministic_algorithms(True)
    try:
        assert peak_bytes(lambda: metric.update(y, predicted)) < 3 * y.nbytes
    finally:
        torch.use_deterministic_algorithms(False)
