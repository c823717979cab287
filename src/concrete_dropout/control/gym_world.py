"""The user's own gymnasium environment as a world."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from concrete_dropout.control.rollouts import Policy
from concrete_dropout.control.video import Frame
from concrete_dropout.control.worlds import Judgement, Reward, World
from concrete_dropout.data.features import Features
from concrete_dropout.data.transitions import Episode
from concrete_dropout.errors import UserError

_log = logging.getLogger(__name__)


class GymWorld(World):
    """Any gymnasium environment with continuous actions; its observations are the states.

    Args:
        id: of the environment, for ``gymnasium.make``; "module:Name-v0" imports the module first.
        reward: differentiable, of observations (..., S) after an action; a function, or where it can be imported from,
            as in "my_module.my_reward". Policies are judged by the environment's own.
        steps: of an episode; the environment may end it earlier.
        feature_scale: (S,), roughly how far observations range; by default 1 each.
        options: further arguments of ``gymnasium.make``.
    """

    def __init__(
        self,
        id: str,
        reward: Reward | str,
        steps: int = 100,
        feature_scale: Sequence[float] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if steps < 1:
            raise ValueError(f"env.steps={steps} must be above 0")
        self._make = partial(_make, id, dict(options or {}))
        env, self._reward = self._make(), _imported(reward)
        space, actions = env.observation_space, env.action_space
        if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
            raise UserError(f"env.id={id}: observations must be vectors (a Box of one axis), not {space}")
        if not isinstance(actions, gym.spaces.Box) or not np.allclose(actions.high, -actions.low):
            raise UserError(f"env.id={id}: actions must be numbers within [-limit, limit], not {actions}")
        size = space.shape[0]
        self.env, self.steps = env, steps
        self.features = Features(size)
        self.state_names = tuple(f"observation {i}" for i in range(size))
        self.action_names = tuple(f"action {i}" for i in range(actions.shape[0]))
        self.limits = tuple(float(limit) for limit in actions.high)
        self.feature_scale = tuple(feature_scale or [1.0] * size)
        if len(self.feature_scale) != size:
            raise UserError(f"env.feature_scale={list(self.feature_scale)} must have {size} numbers for env.id={id}")
        self._check_reward(size)

    def reward(self, states: Tensor) -> Tensor:
        """The user's."""
        return self._reward(states)

    def start(self, number: int, generator: torch.Generator) -> Tensor:
        """Observations after resets."""
        return torch.stack([_reset(self.env, generator) for _ in range(number)])

    @torch.no_grad()
    def judge(self, policy: Policy, number: int, generator: torch.Generator) -> Judgement:
        """One start after the other."""
        runs = [self._episode(self.env, policy, generator) for _ in range(number)]
        totals = torch.tensor([total for _, total, _ in runs], dtype=torch.float64)
        return Judgement(totals, [episode for episode, _, _ in runs])

    @property
    def frames_per_second(self) -> float:
        """As the environment says."""
        return float(self.env.metadata.get("render_fps", 10))

    @torch.no_grad()
    def frames(self, policy: Policy, generator: torch.Generator) -> list[Frame]:
        """As the environment renders them; none where it cannot, for want of a package."""
        try:
            env = self._make(render_mode="rgb_array")
            return self._episode(env, policy, generator)[2]
        except (UserError, gym.error.Error, ImportError) as error:
            _log.warning("env.id=%s cannot be drawn: %s", self.env.spec and self.env.spec.id, error)
            return []

    def _episode(
        self, env: gym.Env[Any, Any], policy: Policy, generator: torch.Generator
    ) -> tuple[Episode, float, list[Frame]]:
        """What was observed, the environment's own reward, and frames where it renders."""
        states, actions, total, frames = [_reset(env, generator)], [], 0.0, _frames(env)
        for _ in range(self.steps):
            action = policy(self.features(states[-1]).view(1, 1, -1))[0, 0]
            observation, reward, terminated, truncated, _ = env.step(action.numpy())
            states.append(torch.as_tensor(observation, dtype=torch.float32))
            actions.append(action)
            total += float(reward)
            frames += _frames(env)
            if terminated or truncated:
                break
        return Episode(torch.stack(states), torch.stack(actions)), total, frames

    def _check_reward(self, size: int) -> None:
        """Refuse a reward that cannot be what a search climbs."""
        states = torch.zeros(2, 3, size, requires_grad=True)
        try:
            rewards = self.reward(states)
        except Exception as error:  # the user's code may fail in any way
            raise UserError(f"env.reward fails on states of shape (2, 3, {size}): {error}") from error
        if not isinstance(rewards, Tensor) or rewards.shape != (2, 3) or not rewards.requires_grad:
            raise UserError(
                f"env.reward must map states (..., {size}) to rewards (...) with torch operations, so that it can be "
                "differentiated"
            )


def _make(id: str, options: dict[str, Any], **more: Any) -> gym.Env[Any, Any]:
    try:
        return gym.make(id, **options, **more)
    except (gym.error.Error, ImportError, TypeError) as error:
        raise UserError(f"env.id={id} cannot be made by gymnasium: {error}") from error


def _imported(reward: Reward | str) -> Reward:
    if not isinstance(reward, str):
        return reward
    module, _, name = reward.rpartition(".")
    try:
        found: Reward = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(
            f"env.reward={reward} cannot be imported ({error}): write it as module.function, with the module in the "
            "folder that you start from or on PYTHONPATH"
        ) from error
    return found


def _reset(env: gym.Env[Any, Any], generator: torch.Generator) -> Tensor:
    seed = int(torch.randint(2**31, (), generator=generator))
    return torch.as_tensor(env.reset(seed=seed)[0], dtype=torch.float32)


def _frames(env: gym.Env[Any, Any]) -> list[Frame]:
    return [np.asarray(env.render(), np.uint8)] if env.render_mode == "rgb_array" else []
