"""Calibration against scikit-learn, torchmetrics, and numbers that are known by construction."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.calibration import calibration_curve
from torch import Tensor
from torchmetrics.functional.classification.calibration_error import _ce_compute

from concrete_dropout.metrics.reliability import (
    NUM_BINS,
    Reliability,
    binned,
    calibration_errors,
    reliability_curve,
)

from .predictions import add_states


def errors_of(confidence: Tensor, correct: Tensor, batch: int | None = None) -> dict[str, float]:
    metric = Reliability()
    for rows in torch.arange(len(confidence)).split(batch or len(confidence)):
        metric.update(confidence[rows], correct[rows])
    return {name: value.item() for name, value in calibration_errors(metric.compute()).items()}


def random_observations(number: int = 5000, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Right with the probability c^2 instead of c."""
    generator = torch.Generator().manual_seed(seed)
    confidence = torch.rand(number, generator=generator)
    return confidence, torch.rand(number, generator=generator) < confidence**2


def test_the_curve_is_that_of_scikit_learn() -> None:
    confidence, correct = random_observations()
    metric = Reliability()
    metric.update(confidence, correct)
    curve = reliability_curve(metric.compute())
    frequency, mean = calibration_curve(correct.numpy(), confidence.double().numpy(), n_bins=NUM_BINS)
    assert curve["frequency"] == pytest.approx(frequency.tolist(), abs=1e-12)
    assert curve["confidence"] == pytest.approx(mean.tolist(), abs=1e-12)
    assert sum(curve["share"]) == pytest.approx(1)
    # the three errors from the curve, by hand
    gap, share = np.abs(frequency - mean), np.array(curve["share"])
    result = errors_of(confidence, correct)
    assert result["ece"] == pytest.approx((share * gap).sum(), abs=1e-12)
    assert result["mce"] == pytest.approx(gap.max(), abs=1e-12)
    assert result["calibration_rmse"] == pytest.approx(math.sqrt((share * gap**2).sum()), abs=1e-12)


def test_few_observations_have_the_errors_of_torchmetrics() -> None:
    confidence, correct = random_observations()
    edges = torch.linspace(0, 1, NUM_BINS + 1)
    result = errors_of(confidence, correct)
    for name, norm in (("ece", "l1"), ("mce", "max"), ("calibration_rmse", "l2")):
        assert result[name] == pytest.approx(_ce_compute(confidence, correct.float(), edges, norm).item(), abs=1e-5)


def test_40_million_observations_are_exact() -> None:
    """Sure by 0.95 and right nine times out of ten: 0.05."""
    number = 1_000_000
    confidence, correct = torch.full((number,), 0.95), torch.arange(number) % 10 > 0
    metric = Reliability()
    for _ in range(40):
        metric.update(confidence, correct)
    bins = metric.compute()
    assert bins.points.sum().item() == 40_000_000
    assert bins.correct.sum().item() == 36_000_000
    errors = calibration_errors(bins)
    for name in ("ece", "mce", "calibration_rmse"):
        assert errors[name].item() == pytest.approx(confidence[0].item() - 0.9, abs=1e-9)
    assert {metric.points.dtype, metric.correct.dtype} == {torch.int64}
    assert metric.confidence.dtype is torch.float64


@pytest.mark.slow
def test_torchmetrics_is_wrong_for_that_many() -> None:
    """The reason for a metric of our own: its sums in float32 stop growing at 2^24 ones."""
    number = 24_000_000
    confidence, correct = torch.full((number,), 0.95), torch.arange(number, dtype=torch.int32) % 10 > 0
    theirs = _ce_compute(confidence, correct.float(), torch.linspace(0, 1, NUM_BINS + 1), "l1").item()
    assert abs(theirs - 0.05) > 0.01
    assert errors_of(confidence, correct)["ece"] == pytest.approx(0.05, abs=1e-6)


def test_certainty_belongs_to_the_last_bin_and_zero_to_the_first() -> None:
    metric = Reliability()
    metric.update(torch.tensor([1.0, 1.0, 1.0 + 2**-23, 0.0]), torch.tensor([True, False, True, False]))
    bins = metric.compute()
    assert bins.points[-1].item() == 3
    assert bins.points[0].item() == 1
    assert errors_of(torch.ones(10), torch.ones(10).bool()) == {"ece": 0, "mce": 0, "calibration_rmse": 0}
    assert errors_of(torch.ones(10), torch.zeros(10).bool()) == {"ece": 1, "mce": 1, "calibration_rmse": 1}


def test_batches_do_not_matter() -> None:
    observed = random_observations(1000)
    whole = errors_of(*observed)
    for batch in (1, 17, 999):
        assert errors_of(*observed, batch=batch) == pytest.approx(whole, rel=1e-12)


def test_processes_add_up() -> None:
    first, second, both = Reliability(), Reliability(), Reliability()
    for metric, seed in ((first, 1), (second, 2)):
        metric.update(*random_observations(300, seed))
        both.update(*random_observations(300, seed))
    add_states(first, second)
    for merged, together in zip(first.compute(), both.compute(), strict=True):
        torch.testing.assert_close(merged, together, rtol=1e-12, atol=0)


def test_groups_are_apart() -> None:
    confidence, correct = random_observations(600)
    group = torch.arange(600) % 3
    bins = binned(confidence, correct, group, num_groups=4)
    assert bins.points.shape == (4, NUM_BINS)
    assert bins.points[3].sum().item() == 0
    for index in range(3):
        alone = binned(confidence[group == index], correct[group == index])
        for part, other in zip(bins, alone, strict=True):
            torch.testing.assert_close(part[index], other[0])


def test_without_observations_nothing_is_known() -> None:
    errors = errors_of(torch.zeros(0), torch.zeros(0).bool(), batch=1)
    assert all(math.isnan(value) for value in errors.values())
