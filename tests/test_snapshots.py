"""Several numbers of samples from one stream of passes, and mixtures of predictions."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from concrete_dropout import mc_predict, swap_dropout
from concrete_dropout.montecarlo import mc_predict_at
from concrete_dropout.predictive import (
    CategoricalAccumulator,
    CategoricalPrediction,
    GaussianAccumulator,
    GaussianPrediction,
    Prediction,
    mixed,
)

X = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
Y = torch.arange(40) % 4


def network(kind: str = "concrete") -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 4))
    return swap_dropout(model, kind, init_p=0.3, example_input=X)


def tensors(prediction: Prediction) -> list[Tensor]:
    return [value for value in vars(prediction).values() if value is not None]


@pytest.mark.parametrize("chunks", [{}, {"batch_rows": 7}, {"batch_rows": 16, "batch_samples": 3}])
def test_every_number_is_what_a_prediction_of_its_own_gives(chunks: dict[str, int]) -> None:
    model, counts = network(), (0, 1, 4, 10, 33)
    made = mc_predict_at(model, X, "categorical", counts, targets=Y, seed=5, **chunks)
    assert tuple(made) == counts
    for count in counts:
        alone = mc_predict(model, X, "categorical", count, targets=Y, seed=5, **chunks)
        for ours, expected in zip(tensors(made[count]), tensors(alone), strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)


def test_gaussian_predictions_too() -> None:
    model = network()
    targets, log_var = torch.randn(40, 4), torch.zeros(4)
    made = mc_predict_at(model, X, "gaussian", (3, 12), targets=targets, log_var=log_var, seed=2)
    for count, found in made.items():
        alone = mc_predict(model, X, "gaussian", count, targets=targets, log_var=log_var, seed=2)
        for ours, expected in zip(tensors(found), tensors(alone), strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)


def test_a_single_number_has_the_same_bits() -> None:
    model = network()
    first, second = (
        mc_predict(model, X, "categorical", 25, seed=1),
        mc_predict_at(model, X, "categorical", (25,), seed=1),
    )
    assert torch.equal(first.mean, second[25].mean)


def test_without_dropout_all_numbers_are_one_pass() -> None:
    made = mc_predict_at(network("none"), X, "categorical", (0, 3, 9), batch_rows=11)
    for found in made.values():
        assert len(found.mean) == 40
        torch.testing.assert_close(found.mean, made[0].mean)


def test_a_mixture_of_gaussian_predictions_is_the_prediction_of_all_samples() -> None:
    mean, log_var, y = torch.randn(10, 6, 2).double(), torch.randn(10, 6, 2).double(), torch.randn(6, 2).double()
    whole, parts = GaussianAccumulator(y), [GaussianAccumulator(y) for _ in range(2)]
    whole.update(mean, log_var)
    parts[0].update(mean[:3], log_var[:3])
    parts[1].update(mean[3:], log_var[3:])
    found, expected = mixed([part.compute() for part in parts], [3, 7]), whole.compute()
    assert isinstance(found, GaussianPrediction)
    for ours, theirs in zip(tensors(found), tensors(expected), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_mixture_of_categorical_predictions_is_the_prediction_of_all_samples() -> None:
    logits, y = torch.randn(9, 5, 3).double(), torch.tensor([0, 1, 2, 255, 1])
    whole, parts = CategoricalAccumulator(y), [CategoricalAccumulator(y) for _ in range(2)]
    whole.update(logits)
    parts[0].update(logits[:4])
    parts[1].update(logits[4:])
    found, expected = mixed([part.compute() for part in parts], [4, 5]), whole.compute()
    assert isinstance(found, CategoricalPrediction)
    for ours, theirs in zip(tensors(found), tensors(expected), strict=True):
        torch.testing.assert_close(ours, theirs, equal_nan=True)
    assert found.log_likelihood is not None
    assert math.isnan(found.log_likelihood[3])
