from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve
from torch import Tensor

from concrete_dropout.metrics.detection import binned_detection, detection, score_counts


def reference(clean: Tensor, shifted: Tensor) -> dict[str, float]:
    labels = np.r_[np.zeros(len(clean)), np.ones(len(shifted))]
    scores = np.r_[clean.numpy(), shifted.numpy()]
    false_alarms, found, _ = roc_curve(labels, scores, drop_intermediate=False)
    return {
        "auroc": roc_auc_score(labels, scores),
        "aupr": average_precision_score(labels, scores),
        "fpr95": false_alarms[found >= 0.95].min(),
    }


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("ties", [False, True])
def test_exact_scores_are_scikit_learns(scale: float, ties: bool) -> None:
    clean, shifted = torch.randn(300).double(), 0.8 + torch.randn(170).double()
    if ties:
        clean, shifted = clean.round(decimals=1), shifted.round(decimals=1)
    clean, shifted = scale * clean, scale * shifted
    assert detection(clean, shifted) == pytest.approx(reference(clean, shifted), abs=1e-6)


def test_counts_of_bins_are_exact_for_scores_that_were_rounded_to_them() -> None:
    clean, shifted = torch.randint(20, (400,)), torch.randint(5, 24, (300,))
    counts = [torch.bincount(scores, minlength=24) for scores in (clean, shifted)]
    assert binned_detection(*counts) == pytest.approx(reference(clean, shifted), abs=1e-9)


def test_bins_are_fine_enough_for_entropies() -> None:
    clean, shifted = (torch.distributions.Beta(a, 3.0).sample((5000,)) * np.log(11) for a in (0.2, 0.5))
    exact = detection(clean, shifted)
    found = binned_detection(score_counts(clean, 11), score_counts(shifted, 11))
    assert found == pytest.approx(exact, abs=5e-3)
    assert int(score_counts(clean, 11).sum()) == 5000


def test_without_one_side_there_is_no_answer() -> None:
    for found in (detection(torch.empty(0), torch.ones(3)), binned_detection(torch.zeros(4), torch.ones(4))):
        assert all(np.isnan(value) for value in found.values())
