from __future__ import annotations

import pytest
import torch

from concrete_dropout import swap_dropout
from concrete_dropout.control.measures import LEVELS, many_steps, one_step
from concrete_dropout.data.features import Features
from concrete_dropout.data.transitions import Episode
from concrete_dropout.models import MLP
from concrete_dropout.scaling import Affine
from concrete_dropout.tasks.dynamics import DynamicsTask

S, T, N = 2, 6, 200
FEATURES = Features(S)


def make(kind: str = "none", noise_std: float = 0.1) -> DynamicsTask:
    """A model that predicts no change (of a linear network with zero weights), and a known noise."""
    torch.manual_seed(0)
    network = MLP(S + 1, S, hidden=(8,))
    swap_dropout(network, kind, example_input=torch.zeros(1, S + 1))  # type: ignore[arg-type]
    task = DynamicsTask(
        network,
        num_train=1000,
        inputs=Affine.identity(S + 1),
        targets=Affine.identity(S),
        noise="homoscedastic",
        mask="bernoulli",
    )
    assert task.noise is not None
    for _ in range(3000):
        task.noise.update(torch.full((S,), noise_std**2))
    if kind == "none":
        torch.nn.init.zeros_(network.layers[-1].weight)
        torch.nn.init.zeros_(network.layers[-1].bias)
    return task


def still(noise: float, seed: int = 0) -> list[Episode]:
    """Episodes in which nothing moves, but is observed with noise."""
    generator = torch.Generator().manual_seed(seed)
    return [Episode(noise * torch.randn(T + 1, S, generator=generator), torch.zeros(T, 1)) for _ in range(N)]


def test_errors_one_step_ahead() -> None:
    errors = one_step(make(), FEATURES, still(0.1))
    torch.testing.assert_close(errors.error, torch.full((S,), 0.1 * 2**0.5, dtype=torch.float64), rtol=0.1, atol=0)
    torch.testing.assert_close(errors.aleatoric, torch.full((S,), 0.1, dtype=torch.float64), rtol=0.01, atol=0)
    assert errors.ratio.tolist() == [0.0, 0.0]
    assert torch.equal(errors.error, errors.observed)
    still_there = one_step(make(), FEATURES, still(0.1), true_changes=lambda episode: torch.zeros(T, S))
    assert still_there.error.tolist() == [0.0, 0.0]
    assert torch.equal(still_there.observed, errors.observed)
    unsure = one_step(make("fixed"), FEATURES, still(0.1), samples=30)
    assert (unsure.epistemic > 0).all()
    torch.testing.assert_close(unsure.ratio, unsure.epistemic / unsure.error)


@pytest.mark.parametrize(("noise_std", "verdict"), [(0.1 * 2**0.5, "right"), (0.02, "sure"), (1.0, "unsure")])
def test_calibration_of_whole_episodes(noise_std: float, verdict: str) -> None:
    """Without motion an observation differs from the start by noise of both: std 0.1 * sqrt(2)."""
    foresight = many_steps(make(noise_std=noise_std), FEATURES, still(0.1), particles=64)
    assert len(foresight.coverage) == len(LEVELS)
    assert list(foresight.coverage) == sorted(foresight.coverage)
    middle = foresight.coverage[LEVELS.index(0.5)]
    if verdict == "right":
        assert foresight.calibration_rmse < 0.06
    else:
        assert foresight.calibration_rmse > 0.2
        assert middle < 0.3 if verdict == "sure" else middle > 0.8


def test_bundles_start_where_the_episode_did() -> None:
    episodes = still(0.1)
    foresight = many_steps(make("fixed"), FEATURES, episodes, particles=5, bundles=2)
    assert len(foresight.bundles) == 2
    for bundle, episode in zip(foresight.bundles, episodes, strict=False):
        assert bundle.particles.shape == (T + 1, 5, S)
        torch.testing.assert_close(bundle.observed, episode.states)
        torch.testing.assert_close(bundle.particles[0], episode.states[0].expand(5, -1))
    assert (foresight.spread.shape, foresight.error.shape) == ((T, S), (T, S))
    assert (foresight.spread[-1] > 0).all()


def test_episodes_that_ended_early_are_left_out() -> None:
    short = Episode(torch.zeros(3, S), torch.zeros(2, 1))
    foresight = many_steps(make(), FEATURES, [short, *still(0.1)], particles=4, bundles=N)
    assert len(foresight.bundles) == N
