"""The precision of shared noise: its closed form, its running mean and its final M step."""

from __future__ import annotations

import pytest
import torch
from scipy import optimize

from concrete_dropout.tasks import NoisePrecision

N, MSR = 40, 0.3


def test_the_closed_form_maximises_elbo_plus_log_prior() -> None:
    noise = NoisePrecision(1, N)
    tau = noise.m_step(torch.tensor([MSR]), N).item()

    def negative(log_tau: float) -> float:
        """Minus (expected log-likelihood + log Gamma(tau | a, b)), a function of tau up to constants."""
        t = torch.tensor(log_tau, dtype=torch.float64).exp()
        likelihood = 0.5 * N * t.log() - 0.5 * t * N * MSR
        prior = torch.distributions.Gamma(torch.tensor(0.1).double(), torch.tensor(0.01).double()).log_prob(t)
        return -(likelihood + prior).item()

    best = optimize.minimize_scalar(negative, bracket=(-1.0, 2.0), tol=1e-10)
    assert tau == pytest.approx(torch.tensor(best.x).exp().item(), rel=1e-5)


@pytest.mark.parametrize("num_data", [1, 2, 3, 100])
def test_tau_is_positive_for_any_number_of_data(num_data: int) -> None:
    noise = NoisePrecision(1, num_data)
    assert noise.tau > 0
    noise.update(torch.zeros(1))
    assert 0 < noise.tau < torch.inf


def test_one_observation_has_the_numerator_of_two() -> None:
    noise, msr = NoisePrecision(1, 1), torch.tensor([0.5])
    assert noise.m_step(msr, 1).item() == pytest.approx(0.1 / (0.25 + 0.01))
    assert noise.m_step(msr, 2).item() == pytest.approx(0.1 / (0.5 + 0.01))


def test_it_starts_with_the_noise_of_an_unexplained_target() -> None:
    assert NoisePrecision(2, 1000).tau.tolist() == pytest.approx([499.1 / 500.01] * 2)


def test_the_running_mean_weighs_batches_by_their_age() -> None:
    """The start counts as ten batches that came before all others."""
    squares = torch.rand(25, 2, dtype=torch.float64)
    noise = NoisePrecision(2, N, decay=0.9)
    for row in squares:
        noise.update(row)
    weights = torch.tensor([10 * 0.9**25, *(0.9**age for age in range(24, -1, -1))], dtype=torch.float64)
    values = torch.cat([torch.ones(1, 2).double(), squares])
    expected = (weights.unsqueeze(1) * values).sum(0) / weights.sum()
    torch.testing.assert_close(noise.running_tau, noise.m_step(expected, N), rtol=1e-12, atol=0)


def test_an_overflow_is_left_out() -> None:
    noise = NoisePrecision(1, N)
    noise.update(torch.tensor([MSR]))
    before = noise.tau.clone()
    noise.update(torch.tensor([torch.inf]))
    noise.update(torch.tensor([torch.nan]))
    torch.testing.assert_close(noise.tau, before)


def settled() -> NoisePrecision:
    noise = NoisePrecision(1, N)
    for _ in range(3000):
        noise.update(torch.tensor([MSR]))
    return noise


def test_the_final_m_step_replaces_tau_and_keeps_the_running_one() -> None:
    noise = settled()
    before = noise.running_tau.clone()
    assert not noise.is_final
    assert not noise.final_m_step(torch.tensor([0.2]), 25)
    assert noise.is_final
    assert noise.tau.item() == pytest.approx((12.5 - 0.9) / (12.5 * 0.2 + 0.01))
    assert torch.equal(noise.running_tau, before)


@pytest.mark.parametrize(("msr", "factor"), [(1e-6, 4.0), (1e3, 0.25)])
def test_the_final_m_step_is_bounded(msr: float, factor: float) -> None:
    """Residuals of an overfitted network would make tau grow without end."""
    noise = settled()
    assert noise.final_m_step(torch.tensor([msr]), N)
    assert (noise.tau / noise.running_tau).item() == pytest.approx(factor)


def test_training_on_discards_the_final_m_step() -> None:
    noise = settled()
    noise.final_m_step(torch.tensor([0.2]), N)
    noise.update(torch.tensor([MSR]))
    assert not noise.is_final
    assert torch.equal(noise.tau, noise.running_tau)


def test_the_state_dict_has_everything() -> None:
    noise = settled()
    noise.final_m_step(torch.tensor([0.2]), N)
    other = NoisePrecision(1, N)
    other.load_state_dict(noise.state_dict())
    assert torch.equal(other.tau, noise.tau)
    assert torch.equal(other.running_tau, noise.running_tau)
    assert not list(noise.parameters())


@pytest.mark.parametrize("wrong", [{"decay": 1.0}, {"shape": 0.0}, {"rate": -1.0}, {"start_variance": 0.0}])
def test_bad_numbers_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        NoisePrecision(1, N, **wrong)
