"""Calibration counts: chunks, order and duplicates do not matter, and the errors are those of their definition."""

from __future__ import annotations

import copy
import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.strategies import pieces, seeds

from concrete_dropout.metrics.calibration import LEVELS, IntervalCoverage
from concrete_dropout.metrics.reliability import NUM_BINS, Reliability, binned, calibration_errors

confidences = st.lists(
    st.one_of(st.floats(0, 1, width=32), st.sampled_from([0.0, 1.0, 0.05, 0.95, 0.5])), min_size=1, max_size=60
)


def outcomes(count: int, seed: int) -> torch.Tensor:
    return torch.rand(count, generator=torch.Generator().manual_seed(seed)) < 0.6


@given(confidences, seeds)
def test_every_observation_is_in_one_bin_that_holds_its_confidence(values: list[float], seed: int) -> None:
    confidence, correct = torch.tensor(values), outcomes(len(values), seed)
    bins = binned(confidence, correct)
    assert int(bins.points.sum()) == len(values)
    assert int(bins.correct.sum()) == int(correct.sum())
    assert bool((bins.correct <= bins.points).all())
    mean = bins.confidence[0] / bins.points[0].clamp(min=1)
    filled = bins.points[0] > 0
    edges = torch.arange(NUM_BINS + 1) / NUM_BINS
    assert bool((mean[filled] >= edges[:-1][filled] - 1e-6).all())
    assert bool((mean[filled] <= edges[1:][filled] + 1e-6).all())


@given(confidences, seeds)
def test_errors_are_those_of_their_definition(values: list[float], seed: int) -> None:
    confidence, correct = torch.tensor(values), outcomes(len(values), seed)
    gaps: list[tuple[float, float]] = []
    numbers = (confidence * NUM_BINS).long().clamp(0, NUM_BINS - 1)
    for number in range(NUM_BINS):
        inside = numbers == number
        if bool(inside.any()):
            gap = abs(float(correct[inside].double().mean()) - float(confidence[inside].double().mean()))
            gaps.append((float(inside.double().mean()), gap))
    errors = {name: float(value) for name, value in calibration_errors(binned(confidence, correct)).items()}
    assert math.isclose(errors["ece"], sum(share * gap for share, gap in gaps), abs_tol=1e-9)
    assert math.isclose(errors["mce"], max(gap for _, gap in gaps), abs_tol=1e-9)
    assert math.isclose(errors["calibration_rmse"] ** 2, sum(share * gap**2 for share, gap in gaps), abs_tol=1e-9)
    assert 0 <= errors["ece"] <= errors["calibration_rmse"] + 1e-9 <= errors["mce"] + 2e-9 <= 1 + 2e-9


@given(confidences, seeds, st.integers(1, 3))
def test_chunks_order_and_duplicates(values: list[float], seed: int, copies: int) -> None:
    confidence, correct = torch.tensor(values), outcomes(len(values), seed)
    whole, parts = Reliability(), Reliability()
    whole.update(confidence, correct)
    order = torch.randperm(len(values), generator=torch.Generator().manual_seed(seed))
    for _ in range(copies):
        for index in order.split(pieces(len(values), seed)):
            parts.update(confidence[index], correct[index])
    a, b = whole.compute(), parts.compute()
    assert torch.equal(copies * a.points, b.points)
    assert torch.equal(copies * a.correct, b.correct)
    for name, value in calibration_errors(a).items():
        torch.testing.assert_close(calibration_errors(b)[name], value, rtol=1e-9, atol=1e-12)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), seeds)
def test_coverage_is_monotone_and_streams(values: list[float], seed: int) -> None:
    pit = torch.tensor(values, dtype=torch.float64)
    whole, parts = IntervalCoverage(), IntervalCoverage()
    whole.update(pit)
    for part in pit.split(pieces(len(values), seed)):
        parts.update(part)
    coverage = whole.compute()
    assert torch.equal(coverage, parts.compute())
    assert bool((coverage.diff() >= 0).all())
    expected = [(2 * pit - 1).abs().le(level).double().mean() for level in LEVELS]
    torch.testing.assert_close(coverage, torch.stack(expected))


@given(confidences, seeds)
def test_counts_of_several_processes_are_merged_in_any_order(values: list[float], seed: int) -> None:
    """As torchmetrics adds up the states of processes; the bins are those of a loop over all observations."""
    confidence, correct = torch.tensor(values), outcomes(len(values), seed)
    parts = []
    for index in torch.arange(len(values)).split(pieces(len(values), seed)):
        part = Reliability()
        part.update(confidence[index], correct[index])
        parts.append(part)
    for order in (parts, parts[::-1]):
        merged = copy.deepcopy(order[0])
        for part in order[1:]:
            merged.merge_state(part)
        bins = merged.compute()
        points, right, total = [0] * NUM_BINS, [0] * NUM_BINS, [0.0] * NUM_BINS
        for value, is_right in zip(confidence.tolist(), correct.tolist(), strict=True):
            number = min(int(torch.tensor(value) * NUM_BINS), NUM_BINS - 1)
            points[number], right[number] = points[number] + 1, right[number] + is_right
            total[number] += value
        assert (bins.points.tolist(), bins.correct.tolist()) == (points, right)
        torch.testing.assert_close(bins.confidence, torch.tensor(total, dtype=torch.float64))
