from __future__ import annotations

import pytest
import torch
from torch import Tensor

from concrete_dropout.control.gym_world import GymWorld
from concrete_dropout.control.policies import RBFPolicies
from concrete_dropout.control.rewards import pendulum
from concrete_dropout.errors import UserError


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def detached(states: Tensor) -> Tensor:
    return states.detach()[..., 0]


def of_everything(states: Tensor) -> Tensor:
    return states


def broken(states: Tensor) -> Tensor:
    raise RuntimeError("not today")


def test_the_environments_own_reward_judges() -> None:
    world = GymWorld("Pendulum-v1", "concrete_dropout.control.rewards.pendulum", steps=20)
    assert (world.features.number, world.limits) == (3, (2.0,))
    policies = RBFPolicies(3, world.limits, size=1, generator=generator())
    judgement = world.judge(policies, 2, generator())
    again = world.judge(policies, 2, generator())
    torch.testing.assert_close(judgement.returns, again.returns)
    for episode, expected in zip(judgement.episodes, judgement.returns, strict=True):
        assert (episode.states.shape, episode.actions.shape) == ((21, 3), (20, 1))
        # The environment's reward is of the state before the action, and has a small price of the action.
        own = pendulum(episode.states[:-1]).sum() - 0.001 * episode.actions.square().sum()
        assert float(own) == pytest.approx(float(expected), rel=1e-4)
    assert world.start(3, generator()).shape == (3, 3)


def test_frames_are_rendered_or_none() -> None:
    world = GymWorld("Pendulum-v1", pendulum, steps=3)
    frames = world.frames(RBFPolicies(3, world.limits, size=1, generator=generator()), generator())
    assert len(frames) in (0, 4)  # pygame, which draws them, is not needed for anything else
    assert world.frames_per_second == 30


def test_the_pendulums_reward_has_a_gradient_everywhere() -> None:
    states = torch.tensor([[0.0, 0.0, 0.0], [-1.0, 0.1, 3.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(pendulum(states).sum(), states)
    assert gradient.isfinite().all()


@pytest.mark.parametrize(
    ("id", "problem"),
    [("CartPole-v1", "actions must be"), ("FrozenLake-v1", "observations"), ("Nothing-v0", "cannot be made")],
)
def test_environments_that_do_not_fit(id: str, problem: str) -> None:
    with pytest.raises(UserError, match=rf"env\.id={id}.*{problem}"):
        GymWorld(id, pendulum, steps=20)


@pytest.mark.parametrize(
    ("reward", "problem"),
    [
        ("no.such.module", "cannot be imported"),
        ("plain", "cannot be imported"),
        ("math.nothing", "cannot be imported"),
        (detached, "differentiated"),
        (of_everything, "differentiated"),
        (broken, "not today"),
    ],
)
def test_rewards_that_do_not_fit(reward: object, problem: str) -> None:
    with pytest.raises(UserError, match=rf"env\.reward.*{problem}"):
        GymWorld("Pendulum-v1", reward, steps=20)  # type: ignore[arg-type]


def test_scales_of_another_number() -> None:
    with pytest.raises(UserError, match=r"env\.feature_scale=\[1.0\] must have 3 numbers"):
        GymWorld("Pendulum-v1", pendulum, feature_scale=[1.0])
