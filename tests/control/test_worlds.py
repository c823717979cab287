from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from concrete_dropout.control.cartpole_env import CartPoleSwingUp
from concrete_dropout.control.worlds import CartPoleWorld


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def swing(features: Tensor) -> Tensor:
    """A single policy: push in the direction of the pole's motion."""
    return 5 * torch.sign(features[..., 2:3])


def test_judgements_are_what_the_environment_says() -> None:
    world = CartPoleWorld(observation_noise=0.0)
    judgement = world.judge(swing, 4, generator())
    assert judgement.returns.dtype == torch.float64
    env = CartPoleSwingUp()
    for episode, expected in zip(judgement.episodes, judgement.returns, strict=True):
        env.reset(options={"state": episode.states[0].double().numpy()})
        total = 0.0
        for t, action in enumerate(episode.actions):
            observation, reward, *_ = env.step(action.double().numpy())
            np.testing.assert_allclose(observation, episode.states[t + 1].numpy(), atol=1e-3)
            total += reward
        assert total == pytest.approx(float(expected), abs=1e-3)


def test_noise_is_in_what_is_observed_only() -> None:
    exact, noisy = (CartPoleWorld(observation_noise=noise) for noise in (0.0, 0.01))

    def still(features: Tensor) -> Tensor:
        return torch.zeros(*features.shape[:2], 1)

    first, second = (world.judge(still, 200, generator()) for world in (exact, noisy))
    states = torch.stack([e.states[0] for e in second.episodes]) - torch.stack([e.states[0] for e in first.episodes])
    assert states.std().item() == pytest.approx(0.01, rel=0.1)
    torch.testing.assert_close(first.returns, second.returns)


def test_true_changes_have_no_noise_of_observing_what_follows() -> None:
    exact, noisy = (CartPoleWorld(observation_noise=noise) for noise in (0.0, 0.05))
    episode = exact.judge(swing, 1, generator()).episodes[0]
    torch.testing.assert_close(exact.changes(episode).float(), episode.states.diff(dim=0), atol=1e-4, rtol=1e-3)
    seen = noisy.judge(swing, 40, generator()).episodes
    gaps = torch.cat([e.states.diff(dim=0) - noisy.changes(e) for e in seen])
    assert gaps[:, 0].std().item() == pytest.approx(0.05 * 2**0.5, rel=0.1)  # of x before and after


def test_shaping_reaches_a_hanging_pole() -> None:
    world, hanging = CartPoleWorld(), torch.zeros(4)
    assert world.reward(hanging) < 1e-3
    assert world.shaped_reward(hanging) > 0.1


def test_random_actions_fill_the_range() -> None:
    actions = CartPoleWorld().random_policy(generator())(torch.zeros(5000, 1, 5))
    assert actions.shape == (5000, 1, 1)
    assert 9.9 < actions.abs().max() <= 10
    assert actions.mean().abs() < 0.3


def test_frames_are_of_the_whole_episode() -> None:
    world = CartPoleWorld(steps=4)
    frames = world.frames(swing, generator())
    assert [frame.shape for frame in frames] == [(320, 480, 3)] * 5
    assert (frames[0] != frames[-1]).any()
    assert world.frames_per_second == pytest.approx(10)


@pytest.mark.parametrize(
    ("key", "value"), [("observation_noise", -1), ("shaping", -0.5), ("steps", 0), ("pole_length", 0)]
)
def test_impossible_settings(key: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"env\.{key}={value}"):
        CartPoleWorld(**{key: value})
