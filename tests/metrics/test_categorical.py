"""Scores of labelled observations against scikit-learn and closed forms."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import accuracy_score, log_loss

from concrete_dropout import CategoricalPrediction
from concrete_dropout.metrics.categorical import CategoricalScores, brier_score, observations

from .predictions import VOID, prediction_of, random_logits, random_targets


def scores_of(*predictions: tuple[CategoricalPrediction, torch.Tensor]) -> dict[str, float]:
    scores = CategoricalScores()
    for prediction, targets in predictions:
        scores.update(observations(prediction, targets))
    return {name: value.item() for name, value in scores.compute().items()}


def test_scores_are_those_of_scikit_learn() -> None:
    logits, y = random_logits(6, 200, 4), random_targets(4, 200, void=0)
    prediction = prediction_of(logits, y)
    p = logits.double().softmax(2).mean(0).numpy()
    result = scores_of((prediction, y))
    assert result["nll"] == pytest.approx(log_loss(y, p, labels=range(4)), rel=1e-6)
    assert result["log_likelihood"] == -result["nll"]
    assert result["accuracy"] == accuracy_score(y, p.argmax(1))
    assert result["num_points"] == 200
    assert result["mutual_information"] == pytest.approx(prediction.mutual_information.mean().item(), abs=1e-6)


def test_uniform_logits_have_known_scores() -> None:
    """C equal probabilities: NLL and entropy log C, Brier 1 - 1 / C, no mutual information."""
    y = torch.arange(12).view(3, 2, 2) % 5
    result = scores_of((prediction_of(torch.zeros(3, 3, 5, 2, 2), y), y))
    for name in ("nll", "predictive_entropy", "expected_entropy"):
        assert result[name] == pytest.approx(math.log(5), rel=1e-6)
    assert result["brier"] == pytest.approx(1 - 1 / 5, rel=1e-6)
    assert result["mutual_information"] == pytest.approx(0, abs=1e-6)


def test_brier_is_the_squared_distance_to_the_indicator() -> None:
    p, y = random_logits(3, 6, 4, 5).softmax(1), random_targets(6, 3, 4, 5, void=0)
    indicator = F.one_hot(y, 6).movedim(-1, 1)
    torch.testing.assert_close(brier_score(p, y), (p - indicator).square().sum(1), rtol=1e-5, atol=1e-6)
    sure = torch.tensor([[1.0, 0.0]])
    assert brier_score(sure, torch.tensor([0])).item() == 0
    assert brier_score(sure, torch.tensor([1])).item() == 2


def test_void_counts_nowhere() -> None:
    """A prediction with void pixels scores as its labelled pixels alone, whatever void is called."""
    logits, y = random_logits(4, 2, 3, 5, 6), random_targets(3, 2, 5, 6, void=0.4)
    y[0, 0, :3] = torch.tensor([-1, 3, -100])
    labelled = (y >= 0) & (y < 3)
    kept = logits.movedim(2, -1)[:, labelled]  # (S, M, C)
    whole, alone = scores_of((prediction_of(logits, y), y)), scores_of((prediction_of(kept, y[labelled]), y[labelled]))
    assert whole == pytest.approx(alone, rel=1e-6)
    assert whole["num_points"] == labelled.sum().item() < y.numel()


def test_batches_add_up_and_empty_ones_do_not_count() -> None:
    logits, y = random_logits(2, 9, 3, 4, 4), random_targets(3, 9, 4, 4)
    nothing = torch.full((1, 4, 4), VOID)
    parts = [(prediction_of(logits[:, rows], y[rows]), y[rows]) for rows in torch.arange(9).split(4)]
    split = scores_of(*parts, (prediction_of(random_logits(2, 1, 3, 4, 4), nothing), nothing))
    assert split == pytest.approx(scores_of((prediction_of(logits, y), y)), rel=1e-6)
    empty = scores_of((prediction_of(random_logits(2, 1, 3, 4, 4), nothing), nothing))
    assert empty["num_points"] == 0
    assert math.isnan(empty["nll"])
    assert math.isnan(empty["accuracy"])


def test_sums_do_not_saturate() -> None:
    """In float32 a count of 2^24, or a sum of as much, does not grow by ones."""
    scores, one = CategoricalScores(), torch.zeros(1).long()
    p = torch.tensor([[1.0, 0.0]])
    scores.update(observations(CategoricalPrediction(p, torch.zeros(1), torch.tensor([-(2.0**26)])), one))
    for _ in range(10):
        scores.update(observations(CategoricalPrediction(p, torch.zeros(1), torch.tensor([-1.0])), one))
    assert (scores.compute()["nll"] * 11).item() == pytest.approx(2.0**26 + 10, abs=1e-6)
    assert {value.dtype for value in (scores.sums, scores.correct)} == {torch.float64, torch.int64}


def test_a_prediction_without_targets_cannot_be_scored() -> None:
    with pytest.raises(ValueError, match="made with its targets"):
        observations(CategoricalPrediction(torch.ones(1, 2) / 2, torch.zeros(1)), torch.zeros(1).long())
