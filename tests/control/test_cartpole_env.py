from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from concrete_dropout.control.cartpole import UPRIGHT, CartPole
from concrete_dropout.control.cartpole_env import ENV_ID, CartPoleSwingUp, register
from concrete_dropout.control.drawing import HEIGHT, WIDTH


@pytest.fixture(autouse=True)
def registered() -> None:
    register()
    register()


@pytest.mark.filterwarnings("ignore:.*(infinity|symmetric and normalized).*")
def test_gymnasium_finds_nothing_wrong() -> None:
    env = gym.make(ENV_ID, render_mode="rgb_array")
    check_env(env.unwrapped)


def test_an_episode_has_25_steps_of_the_batched_dynamics() -> None:
    env = gym.make(ENV_ID)
    observation, _ = env.reset(seed=3)
    env.action_space.seed(0)
    state, rewards, truncated = torch.from_numpy(observation), [], False
    while not truncated:
        action = env.action_space.sample()
        observation, reward, terminated, truncated, _ = env.step(action)
        state = CartPole().step(state, torch.from_numpy(action))
        assert not terminated
        np.testing.assert_allclose(observation, state.numpy(), rtol=0, atol=1e-12)
        assert reward == pytest.approx(float(CartPole().reward(state)))
        rewards.append(reward)
    assert len(rewards) == 25


def test_constants_are_options() -> None:
    env = gym.make(ENV_ID, pole_length=0.6, max_force=3.0)
    assert env.action_space.high.item() == 3.0
    assert env.unwrapped.system.pole_length == 0.6


def test_noise_is_observed_but_not_real() -> None:
    env = CartPoleSwingUp(observation_noise=0.01)
    start = np.array([0.0, 0.0, UPRIGHT, 0.0])
    differences = []
    for seed in range(500):
        observation, info = env.reset(seed=seed, options={"state": start})
        np.testing.assert_array_equal(info["state"], start)
        differences.append(observation - start)
    assert np.std(differences) == pytest.approx(0.01, rel=0.1)
    _, reward, *_ = env.step(np.zeros(1))
    assert reward == pytest.approx(1.0)


def test_the_same_seed_starts_the_same() -> None:
    env = CartPoleSwingUp()
    np.testing.assert_array_equal(env.reset(seed=5)[0], env.reset(seed=5)[0])
    assert not np.array_equal(env.reset(seed=5)[0], env.reset(seed=6)[0])


def test_frames_show_where_the_pole_is() -> None:
    env = CartPoleSwingUp(render_mode="rgb_array")
    rows = {}
    for name, angle in (("hanging", 0.0), ("upright", UPRIGHT)):
        env.reset(options={"state": [0.0, 0.0, angle, 0.0]})
        frame = env.render()
        assert frame is not None
        assert (frame.shape, frame.dtype) == ((HEIGHT, WIDTH, 3), np.uint8)
        red = (frame[..., 0] > 150) & (frame[..., 1] < 90)
        rows[name] = np.nonzero(red)[0].mean()
    assert rows["upright"] < rows["hanging"] - 40
    assert CartPoleSwingUp().render() is None


def test_wrong_options() -> None:
    with pytest.raises(ValueError, match="render_mode='human'"):
        CartPoleSwingUp(render_mode="human")
    with pytest.raises(ValueError, match="observation_noise=-1"):
        CartPoleSwingUp(observation_noise=-1)
