"""Scores of categorical predictions: likelihood, Brier score, accuracy, entropies. Void observations do not count."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torchmetrics import Metric

from concrete_dropout.predictive import CategoricalPrediction


@dataclass(frozen=True)
class Observations:
    """What the metrics read of the labelled observations of a batch, each (M,); computed once for all of them.

    Attributes:
        targets: class indices.
        predicted: the most probable classes.
        confidence: their probabilities.
        log_likelihood: of the targets, in nats.
        brier: see ``brier_score``.
        predictive_entropy: H[E_t p_t].
        expected_entropy: E_t H[p_t].
    """

    targets: Tensor
    predicted: Tensor
    confidence: Tensor
    log_likelihood: Tensor
    brier: Tensor
    predictive_entropy: Tensor
    expected_entropy: Tensor

    @property
    def correct(self) -> Tensor:
        """Whether the most probable class is the target."""
        return self.predicted == self.targets

    @property
    def mutual_information(self) -> Tensor:
        """Predictive minus expected entropy, at least 0."""
        return (self.predictive_entropy - self.expected_entropy).clamp_min(0)


def observations(prediction: CategoricalPrediction, targets: Tensor) -> Observations:
    """The labelled observations of a prediction; targets outside of the classes are void.

    Shapes: probabilities (rows, C, ...), targets (rows, ...).

    >>> p = torch.tensor([[0.7, 0.3], [0.5, 0.5]])
    >>> y = torch.tensor([1, 255])
    >>> seen = observations(CategoricalPrediction(p, torch.zeros(2), torch.tensor([0.3, torch.nan]).log()), y)
    >>> seen.predicted, seen.confidence, seen.correct, seen.brier
    (tensor([0]), tensor([0.7000]), tensor([False]), tensor([0.9800]))
    """
    p = prediction.probabilities
    if prediction.log_likelihood is None:
        raise ValueError("a prediction that is to be scored must be made with its targets")
    labelled = (targets >= 0) & (targets < p.shape[1])
    rows = labelled.flatten().nonzero().squeeze(1)
    confidence, predicted = p.max(dim=1)
    return Observations(
        *(
            part.flatten()[rows]
            for part in (
                targets,
                predicted,
                confidence,
                prediction.log_likelihood,
                brier_score(p, targets),
                prediction.predictive_entropy,
                prediction.expected_entropy,
            )
        )
    )


def brier_score(probabilities: Tensor, targets: Tensor) -> Tensor:
    """Squared distance of the probabilities to the target's indicator, sum over classes of (p_c - [c = y])^2.

    It lies between 0 and 2. Void targets give numbers without a meaning.

    Shapes: (rows, C, ...), (rows, ...) -> (rows, ...).

    >>> brier_score(torch.tensor([[0.7, 0.3], [1.0, 0.0]]), torch.tensor([0, 1]))
    tensor([0.1800, 2.0000])
    """
    index = targets.clamp(0, probabilities.shape[1] - 1).unsqueeze(1)
    of_target = probabilities.gather(1, index).squeeze(1)
    # clamped, since the three terms may cancel to -1e-7
    return ((probabilities * probabilities).sum(1) - 2 * of_target + 1).clamp_min_(0)


class CategoricalScores(Metric):
    """Means over all labelled observations that were seen; and ``num_points``, of them.

    >>> scores = CategoricalScores()
    >>> p = torch.tensor([[0.5, 0.5], [1.0, 0.0]])
    >>> y = torch.tensor([0, 0])
    >>> scores.update(observations(CategoricalPrediction(p, torch.zeros(2), p[:, 0].log()), y))
    >>> result = scores.compute()
    >>> [round(result[name].item(), 3) for name in ("nll", "accuracy", "brier", "predictive_entropy")]
    [0.347, 1.0, 0.25, 0.347]
    """

    full_state_update = False
    sums: Tensor
    correct: Tensor
    total: Tensor

    NAMES = ("log_likelihood", "brier", "predictive_entropy", "expected_entropy")

    def __init__(self) -> None:
        super().__init__()
        self.add_state("sums", torch.zeros(len(self.NAMES), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("correct", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("total", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, seen: Observations) -> None:
        """Add the observations of a batch."""
        self.sums += torch.stack([getattr(seen, name).sum(dtype=torch.float64) for name in self.NAMES])
        self.correct += seen.correct.sum()
        self.total += seen.targets.numel()

    def compute(self) -> dict[str, Tensor]:
        """Per labelled observation; NaN where there were none."""
        means = dict(zip(self.NAMES, self.sums / self.total, strict=True))
        return {
            **means,
            "nll": -means["log_likelihood"],
            "accuracy": self.correct.double() / self.total,
            "mutual_information": means["predictive_entropy"] - means["expected_entropy"],
            "num_points": self.total.clone(),
        }
