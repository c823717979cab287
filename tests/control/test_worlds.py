from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from concrete_dropout.control.cartpole_env import CartPoleSwingUp
from concrete_dropout.control.policies import RBFPolicies
from concrete_dropout.control.worlds import CartPoleWorld, GymWorld


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def swing(features: Tensor) -> Tensor:
    """A single policy: push in the direction of the pole's motion."""
    return 5 * torch.sign(features[..., 2:3])


def pendulum_reward(states: Tensor) -> Tensor:
    angle = torch.atan2(states[..., 1], states[..., 0])
    return -(angle.square() + 0.1 * states[..., 2].square())


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


def test_shaping_reaches_a_hanging_pole() -> None:
    world, hanging = CartPoleWorld(), torch.zeros(4)
    assert world.reward(hanging) < 1e-3
    assert world.shaped_reward(hanging) > 0.1


def test_random_actions_fill_the_range() -> None:
    actions = CartPoleWorld().random_policy(generator())(torch.zeros(5000, 1, 5))
    assert actions.shape == (5000, 1, 1)
    assert 9.9 < actions.abs().max() <= 10
    assert actions.mean().abs() < 0.3


def test_a_users_environment() -> None:
    world = GymWorld(gym.make("Pendulum-v1"), pendulum_reward, steps=20)
    assert (world.features.number, world.limits) == (3, (2.0,))
    policies = RBFPolicies(3, world.limits, size=1, generator=generator())
    judgement = world.judge(policies, 2, generator())
    again = world.judge(policies, 2, generator())
    torch.testing.assert_close(judgement.returns, again.returns)
    for episode, expected in zip(judgement.episodes, judgement.returns, strict=True):
        assert (episode.states.shape, episode.actions.shape) == ((21, 3), (20, 1))
        # The environment's reward is of the state before the action, and has a small price of the action.
        own = pendulum_reward(episode.states[:-1]).sum() - 0.001 * episode.actions.square().sum()
        assert float(own) == pytest.approx(float(expected), rel=1e-4)
    assert world.start(3, generator()).shape == (3, 3)


@pytest.mark.parametrize(("name", "problem"), [("CartPole-v1", "actions must be"), ("FrozenLake-v1", "observations")])
def test_environments_that_do_not_fit(name: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        GymWorld(gym.make(name), pendulum_reward, steps=20)
