"""Does a score tell shifted observations from clean ones? AUROC, average precision and the false alarms at 95 % found.

Shifted observations are the positives. Scores of single observations are kept and compared by their ranks, which is
exact. Those of pixels, tens of millions of them, are counted in bins of fixed number; two pixels in one bin count as
equal, so that the binned AUROC is the exact one of the scores rounded to their bins.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics.functional.classification import binary_auroc, binary_average_precision, binary_roc

from concrete_dropout.metrics.selective import NUM_UNCERTAINTIES, uncertainty_bin

FOUND = 0.95  # of the shifted observations, at which false alarms are counted


def detection(clean: Tensor, shifted: Tensor) -> dict[str, float]:
    """``auroc``, ``aupr`` and ``fpr95`` of scores that should be higher for shifted observations; exact.

    Shapes: (N,), (M,) of any finite numbers. NaN where one of them is empty.

    >>> detection(torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.25, 0.9]))
    {'auroc': 0.8333333..., 'aupr': 0.8333333..., 'fpr95': 0.3333333...}
    """
    if not len(clean) or not len(shifted):
        return dict.fromkeys(("auroc", "aupr", "fpr95"), float("nan"))
    # By ranks, since torchmetrics takes numbers outside of [0, 1] for logits and squeezes them together.
    values, ranks = torch.unique(torch.cat([clean.double(), shifted.double()]), return_inverse=True)
    scores = ranks.double() / len(values)
    labels = torch.cat([torch.zeros(len(clean)), torch.ones(len(shifted))]).long()
    false_alarms, found, _ = binary_roc(scores, labels)
    return {
        "auroc": float(binary_auroc(scores, labels)),
        "aupr": float(binary_average_precision(scores, labels)),
        "fpr95": float(false_alarms[found >= FOUND].min()),
    }


def binned_detection(clean: Tensor, shifted: Tensor) -> dict[str, float]:
    """The same from counts of observations in bins of rising scores, (K,) each.

    >>> counts = torch.tensor([1, 2, 1])  # in the bins of scores 0, 1, 2
    >>> binned_detection(counts, counts.flip(0))["auroc"]
    0.5
    """
    negatives, positives = clean.double().flip(0), shifted.double().flip(0)  # from the highest score on
    if not negatives.sum() > 0 or not positives.sum() > 0:
        return dict.fromkeys(("auroc", "aupr", "fpr95"), float("nan"))
    false_alarms, hits = negatives.cumsum(0), positives.cumsum(0)
    # A pair in one bin counts half; a clean observation is beaten by all shifted ones of higher bins.
    auroc = (negatives * (hits - positives / 2)).sum() / (negatives.sum() * positives.sum())
    precision = hits / (hits + false_alarms).clamp_min(1)
    return {
        "auroc": float(auroc),
        "aupr": float((positives * precision).sum() / positives.sum()),
        "fpr95": float(false_alarms[hits >= FOUND * positives.sum()].min() / negatives.sum()),
    }


def score_counts(scores: Tensor, num_classes: int) -> Tensor:
    """How many scores are in each of the bins of ``uncertainty_bin``: any shape -> (512,), integers.

    Scores lie between 0 and log C, or 1 - 1 / C: the bins are even in the logit of the score / log C.
    """
    return torch.bincount(uncertainty_bin(scores.flatten(), num_classes), minlength=NUM_UNCERTAINTIES)
