from __future__ import annotations

import pytest
import torch
from scipy.optimize import minimize_scalar

from concrete_dropout.metrics.temperature import fit_std_scale, fit_temperature, rescaled, squared_errors, tempered
from concrete_dropout.predictive import CategoricalPrediction, GaussianPrediction, entropy


@pytest.mark.parametrize("temperature", [0.4, 1.0, 3.0])
def test_a_known_temperature_is_found(temperature: float) -> None:
    logits = 2 * torch.randn(20_000, 5)
    targets = torch.distributions.Categorical(logits=logits).sample()
    assert fit_temperature(logits * temperature, targets) == pytest.approx(temperature, rel=0.04)


def test_it_is_the_minimum_of_the_nll() -> None:
    logits, targets = 3 * torch.randn(200, 3).double(), torch.randint(3, (200,))
    best = minimize_scalar(
        lambda t: float(torch.nn.functional.cross_entropy(logits / t, targets)),
        bounds=(0.05, 90),
        method="bounded",
        options={"xatol": 1e-6},
    ).x
    assert fit_temperature(logits, targets) == pytest.approx(best, rel=1e-2)


def test_labels_that_are_always_right_do_not_end_in_zero() -> None:
    targets = torch.arange(30) % 3
    assert 0.01 <= fit_temperature(torch.nn.functional.one_hot(targets).double(), targets) < 0.1


def test_a_tempered_prediction() -> None:
    logits = torch.randn(6, 3, 4)
    p = logits.softmax(1)
    targets = torch.randint(3, (6, 4))
    targets[0, 0] = 255
    after = tempered(CategoricalPrediction(p, entropy(p, 1)), targets, 2.0)
    expected = (logits / 2).softmax(1).double()
    torch.testing.assert_close(after.probabilities, expected, atol=1e-6, rtol=1e-5)
    assert torch.equal(after.probabilities.argmax(1), p.argmax(1))
    assert after.log_likelihood is not None
    assert after.log_likelihood[0, 0].isnan()
    chosen = expected[1, targets[1, 1], 1].log()
    assert after.log_likelihood[1, 1].item() == pytest.approx(chosen.item(), abs=1e-5)


def test_the_scale_of_stds_minimises_the_gaussian_nll() -> None:
    y, mean, variance = (
        torch.randn(500, 2).double() * 3,
        torch.zeros(500, 2).double(),
        torch.rand(500, 2).double() + 0.5,
    )
    prediction = GaussianPrediction(mean, 0.3 * variance, 0.7 * variance)
    scale = fit_std_scale(squared_errors(prediction, y))

    def nll(factor: float) -> float:
        score = rescaled(prediction, y, factor).log_likelihood
        assert score is not None
        return -float(score.mean())

    best = minimize_scalar(nll, bounds=(0.1, 20), method="bounded").x
    assert scale == pytest.approx(best, rel=1e-4)
    whole = rescaled(prediction, y, scale)
    torch.testing.assert_close(whole.predictive, scale**2 * variance)
    reference = torch.distributions.Normal(mean, scale * variance.sqrt())
    assert whole.log_likelihood is not None
    torch.testing.assert_close(whole.log_likelihood, reference.log_prob(y).sum(1))
    assert whole.pit is not None
    torch.testing.assert_close(whole.pit, reference.cdf(y))
