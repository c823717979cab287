"""All metrics of a stage together, and the uncertainty scores."""

from __future__ import annotations

import math

import pytest
import torch

from concrete_dropout import GaussianPrediction
from concrete_dropout.metrics import LEVELS, RegressionMetrics, UncertaintyScores

KEYS = "nll log_likelihood rmse crps sharpness calibration_rmse epistemic_std aleatoric_std predictive_std".split()


def outputs(rows: int) -> dict[str, object]:
    shape = (rows, 2)
    prediction = GaussianPrediction(
        torch.randn(shape), torch.rand(shape), torch.rand(shape), torch.randn(rows), torch.rand(shape)
    )
    return {"prediction": prediction, "targets": torch.randn(shape), "inputs": torch.randn(rows, 1)}


def test_uncertainties_are_roots_of_mean_variances() -> None:
    epistemic, aleatoric = torch.rand(9, 2, dtype=torch.float64), torch.rand(9, 2, dtype=torch.float64)
    scores = UncertaintyScores()
    for part in torch.arange(9).split(4):
        scores.update(epistemic[part], aleatoric[part])
    result = {name: value.item() for name, value in scores.compute().items()}
    assert result["epistemic_std"] == pytest.approx(epistemic.mean().sqrt().item())
    assert result["aleatoric_std"] == pytest.approx(aleatoric.mean().sqrt().item())
    assert result["predictive_std"] == pytest.approx(math.hypot(result["epistemic_std"], result["aleatoric_std"]))
    assert result["sharpness"] == pytest.approx((epistemic + aleatoric).sqrt().mean().item())


def test_a_stage_gives_plain_numbers() -> None:
    metrics = RegressionMetrics()
    metrics.update(outputs(5))
    metrics.update(outputs(3))
    result = metrics.compute()
    assert set(result.scalars) == set(KEYS)
    assert all(type(value) is float for value in result.scalars.values())
    assert result.num_points == 8
    assert result.curves["expected"] == list(LEVELS)
    assert len(result.curves["observed"]) == 99
    distance = [(a - b) ** 2 for a, b in zip(result.curves["expected"], result.curves["observed"], strict=True)]
    assert result.scalars["calibration_rmse"] == pytest.approx(math.sqrt(sum(distance) / 99))


def test_reset_forgets_everything() -> None:
    metrics, first = RegressionMetrics(), outputs(5)
    metrics.update(first)
    alone = metrics.compute()
    metrics.update({**outputs(3), "log_likelihood_before_m_step": torch.ones(3)})
    metrics.reset()
    metrics.update(first)
    assert metrics.compute() == alone


def test_the_likelihood_before_the_m_step_is_reported_where_it_is_given() -> None:
    metrics = RegressionMetrics()
    for rows in (2, 6):
        metrics.update({**outputs(rows), "log_likelihood_before_m_step": torch.full((rows,), float(rows))})
    scalars = metrics.compute().scalars
    assert scalars["log_likelihood_before_m_step"] == pytest.approx((2 * 2 + 6 * 6) / 8)
    assert scalars["nll_before_m_step"] == -scalars["log_likelihood_before_m_step"]


def test_nothing_of_it_is_in_the_state_dict() -> None:
    metrics = RegressionMetrics()
    metrics.update(outputs(2))
    assert not metrics.state_dict()


def test_a_prediction_without_targets_cannot_be_scored() -> None:
    unscored = GaussianPrediction(torch.zeros(2, 1), torch.zeros(2, 1), torch.ones(2, 1))
    with pytest.raises(ValueError, match="made with its targets"):
        RegressionMetrics().update({"prediction": unscored, "targets": torch.zeros(2, 1)})
