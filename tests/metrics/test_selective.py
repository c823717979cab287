"""What is left without the most uncertain observations, against sorting all of them."""

from __future__ import annotations

import math

import pytest
import torch
from sklearn.metrics import jaccard_score
from torch import Tensor

from concrete_dropout.metrics.reliability import binned, calibration_errors
from concrete_dropout.metrics.selective import (
    LEFT_OUT,
    NUM_UNCERTAINTIES,
    SelectivePrediction,
    kept_parts,
    uncertainty_bin,
)

from .predictions import add_states

CLASSES = 6
Observed = tuple[Tensor, Tensor, Tensor, Tensor]


def observed(number: int = 100_000, sharpness: float = 4.0, seed: int = 0) -> Observed:
    """Entropy, targets, predictions and confidences; targets follow the probabilities, so that entropy finds errors."""
    generator = torch.Generator().manual_seed(seed)
    scale = sharpness * torch.rand(number, 1, generator=generator) ** 0.5 * 3
    p = (torch.randn(number, CLASSES, generator=generator) * scale).softmax(1)
    targets = torch.multinomial(p, 1, generator=generator).squeeze(1)
    confidence, predicted = p.max(1)
    return torch.special.entr(p).sum(1), targets, predicted, confidence


def computed(observations: Observed, with_classes: bool = True, batch: int | None = None) -> dict[str, Tensor]:
    metric = SelectivePrediction(CLASSES, with_classes)
    for rows in torch.arange(len(observations[0])).split(batch or len(observations[0])):
        metric.update(*(part[rows] for part in observations))
    return metric.compute()


@pytest.mark.parametrize("sharpness", [0.3, 4.0, 30.0])
def test_curves_are_those_of_sorted_observations(sharpness: float) -> None:
    """Also where nearly all entropies are close to the largest one, or to 0 as those of a good network."""
    observations = observed(sharpness=sharpness)
    result = computed(observations)
    order = observations[0].argsort()
    _, targets, predicted, confidence = (part[order] for part in observations)
    assert LEFT_OUT[0] == 0
    assert LEFT_OUT[-1] == 0.9
    for index, share in enumerate(LEFT_OUT):
        kept = slice(0, round(len(order) * (1 - share)))
        correct = predicted[kept] == targets[kept]
        rmse = calibration_errors(binned(confidence[kept], correct))["calibration_rmse"].item()
        miou = jaccard_score(targets[kept], predicted[kept], average="macro")
        assert result["accuracy"][index].item() == pytest.approx(correct.double().mean().item(), abs=1e-3)
        assert result["calibration_rmse"][index].item() == pytest.approx(rmse, abs=1e-3)
        assert result["miou"][index].item() == pytest.approx(miou, abs=2e-3)


def test_nothing_left_out_is_exact() -> None:
    observations = observed(5000)
    _, targets, predicted, confidence = observations
    result = computed(observations)
    assert result["accuracy"][0].item() == pytest.approx((targets == predicted).double().mean().item(), abs=1e-12)
    assert result["miou"][0].item() == pytest.approx(jaccard_score(targets, predicted, average="macro"), abs=1e-12)
    errors = calibration_errors(binned(confidence, targets == predicted))
    assert result["calibration_rmse"][0].item() == pytest.approx(errors["calibration_rmse"].item(), abs=1e-12)


def test_equal_uncertainties_have_no_order() -> None:
    """Without dropout there is no mutual information: what is left out is any part, and nothing changes."""
    _, targets, predicted, confidence = observed(3000)
    result = computed((torch.zeros(3000), targets, predicted, confidence))
    for values in result.values():
        torch.testing.assert_close(values, values[:1].expand_as(values), rtol=1e-9, atol=0)


def test_uncertainty_that_knows_all_errors() -> None:
    targets = torch.zeros(1000).long()
    predicted = (torch.arange(1000) < 250).long()  # a quarter is wrong, and uncertain
    uncertainty = torch.where(predicted == 1, 1.0, 1e-3)
    accuracy = computed((uncertainty, targets, predicted, torch.ones(1000)), with_classes=False)["accuracy"]
    expected = [min(1.0, 0.75 / (1 - share)) for share in LEFT_OUT]
    assert accuracy.tolist() == pytest.approx(expected, abs=1e-12)


def test_bins_cover_all_uncertainties_in_order() -> None:
    values = torch.tensor([-1e-6, 0.0, 1e-12, 1e-7, 1e-4, 1e-2, 0.1, 1.0, math.log(CLASSES), 10.0])
    bins = uncertainty_bin(values, CLASSES)
    assert (bins.diff() >= 0).all()
    assert bins[:4].tolist() == [0] * 4
    assert (bins[3:9].diff() > 20).all()
    assert bins[-2:].tolist() == [NUM_UNCERTAINTIES - 1] * 2


def test_parts_keep_exactly_the_share() -> None:
    points = torch.tensor([3, 0, 1, 0, 6])
    left_out = torch.linspace(0, 0.9, 10)
    parts = kept_parts(points, left_out)
    torch.testing.assert_close(parts @ points.double(), 10 * (1 - left_out.double()))
    assert (parts.diff(dim=1)[:, [1, 3]] <= 0).all()


def test_batches_and_processes_add_up() -> None:
    observations = observed(2000)
    whole = computed(observations)
    split = computed(observations, batch=300)
    first, second = SelectivePrediction(CLASSES, True), SelectivePrediction(CLASSES, True)
    first.update(*(part[:700] for part in observations))
    second.update(*(part[700:] for part in observations))
    add_states(first, second)
    merged = first.compute()
    for name, values in whole.items():
        torch.testing.assert_close(split[name], values, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(merged[name], values, rtol=1e-9, atol=1e-12)


def test_many_classes_cost_nothing_where_they_are_not_counted() -> None:
    metric = SelectivePrediction(num_classes=1000)
    assert metric.classes.numel() == 0
    assert "miou" not in computed(observed(10), with_classes=False)
    states = (metric.points, metric.correct, metric.confidence)
    assert sum(state.nbytes for state in states) < 300_000
