"""Worlds: systems to be controlled, with what an agent may know of them.

An agent knows how states are seen, where episodes start, and the reward of a state. How states follow from actions it
has to learn. A world is also where it acts, and where its policies are judged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from concrete_dropout.control.cartpole import STATE_NAMES, CartPole
from concrete_dropout.control.cartpole_env import STEPS
from concrete_dropout.control.rollouts import rollout, spread, total_reward
from concrete_dropout.data.features import Features
from concrete_dropout.data.transitions import Episode

Reward = Callable[[Tensor], Tensor]  # states (..., S) -> (...)
Policy = Callable[[Tensor], Tensor]  # features (K, P, D) -> actions (K, P, A)


@dataclass(frozen=True, eq=False)
class Judgement:
    """What one policy achieved from N starts.

    Attributes:
        returns: (N,), the true reward summed over an episode.
        episodes: what was observed meanwhile, never to be trained on.
    """

    returns: Tensor
    episodes: list[Episode]


class World(ABC):
    """A system to be controlled for episodes of a fixed length.

    Attributes:
        features: how its states are seen.
        state_names: S names.
        action_names: A names.
        limits: the largest action in each of A directions.
        steps: T, of an episode.
        feature_scale: (D,), roughly how far features range, so that policies see numbers around 1.
    """

    features: Features
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    limits: tuple[float, ...]
    steps: int
    feature_scale: Tensor

    @abstractmethod
    def reward(self, states: Tensor) -> Tensor:
        """The reward (...) of states (..., S) after an action, differentiable."""

    def shaped_reward(self, states: Tensor) -> Tensor:
        """What a search climbs: by default the reward itself."""
        return self.reward(states)

    @abstractmethod
    def start(self, number: int, generator: torch.Generator) -> Tensor:
        """States (number, S) like those that episodes start from."""

    @abstractmethod
    def judge(self, policy: Policy, number: int, generator: torch.Generator) -> Judgement:
        """Let a single policy (P = 1) act in the world from ``number`` starts."""

    def random_policy(self, generator: torch.Generator) -> Policy:
        """Actions that do not look at the state: uniform within the limits."""
        limits = torch.tensor(self.limits)

        def act(features: Tensor) -> Tensor:
            shape = (*features.shape[:2], len(limits))
            return limits * (2 * torch.rand(shape, generator=generator) - 1).to(features.dtype)

        return act


class CartPoleWorld(World):
    """The cart-pole swing-up, with exact batched dynamics to judge policies by.

    Args:
        system: its constants.
        steps: of an episode.
        observation_noise: standard deviation of what is added to every observed component; rewards are of true states.
        shaping: weight of a second, wider reward in the search, whose gradient does not vanish while the pole hangs.
        shaping_width: of that reward, in m.
    """

    def __init__(
        self,
        system: CartPole | None = None,
        steps: int = STEPS,
        observation_noise: float = 0.01,
        shaping: float = 0.5,
        shaping_width: float = 0.75,
    ) -> None:
        self.system = system or CartPole()
        self.features = Features(size=4, angles=(2,))
        self.state_names, self.action_names = STATE_NAMES, ("force",)
        self.limits, self.steps = (self.system.max_force,), steps
        self.feature_scale = torch.tensor([1.0, 2.0, 5.0, 1.0, 1.0])
        self.observation_noise, self.shaping, self.shaping_width = observation_noise, shaping, shaping_width

    def reward(self, states: Tensor) -> Tensor:
        """That of ``CartPole``."""
        return self.system.reward(states)

    def shaped_reward(self, states: Tensor) -> Tensor:
        """With the wider one."""
        return self.system.reward(states) + self.shaping * self.system.reward(states, self.shaping_width)

    def start(self, number: int, generator: torch.Generator) -> Tensor:
        """Hanging, near rest."""
        return self.system.start(number, generator)

    @torch.no_grad()
    def judge(self, policy: Policy, number: int, generator: torch.Generator) -> Judgement:
        """All starts at once, in float64."""
        seen: list[Tensor] = []

        def act(features: Tensor) -> Tensor:
            return policy(features.float()).double()

        def observe(states: Tensor) -> Tensor:
            noise = torch.randn(states.shape, generator=generator, dtype=states.dtype)
            seen.append(states + self.observation_noise * noise)
            return self.features(seen[-1])

        run = rollout(act, self.system.step, observe, spread(self.start(number, generator).double(), 1), self.steps)
        observe(run.states[-1])
        observed = torch.stack(seen)[:, :, 0].float()  # (T + 1, N, S)
        episodes = [Episode(observed[:, n], run.actions[:, n, 0].float()) for n in range(number)]
        return Judgement(total_reward(self.reward, run.states)[:, 0], episodes)


class GymWorld(World):
    """Any gymnasium environment with continuous actions; its observations are the states.

    Args:
        env: the environment.
        reward: differentiable, of observations (..., S) after an action. Policies are judged by the environment's own.
        steps: of an episode; the environment may end it earlier.
        feature_scale: (S,), roughly how far observations range; by default 1 each.
    """

    def __init__(self, env: gym.Env, reward: Reward, steps: int, feature_scale: Sequence[float] | None = None) -> None:
        space, actions = env.observation_space, env.action_space
        if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
            raise ValueError(f"env: observations must be vectors (a Box of one axis), not {space}")
        if not isinstance(actions, gym.spaces.Box) or not np.allclose(actions.high, -actions.low):
            raise ValueError(f"env: actions must be numbers within [-limit, limit], not {actions}")
        size = space.shape[0]
        self.env, self._reward, self.steps = env, reward, steps
        self.features = Features(size)
        self.state_names = tuple(f"observation {i}" for i in range(size))
        self.action_names = tuple(f"action {i}" for i in range(actions.shape[0]))
        self.limits = tuple(float(limit) for limit in actions.high)
        self.feature_scale = torch.tensor(feature_scale or [1.0] * size)

    def reward(self, states: Tensor) -> Tensor:
        """The user's."""
        return self._reward(states)

    def start(self, number: int, generator: torch.Generator) -> Tensor:
        """Observations after resets."""
        return torch.stack([self._reset(generator) for _ in range(number)])

    @torch.no_grad()
    def judge(self, policy: Policy, number: int, generator: torch.Generator) -> Judgement:
        """One start after the other."""
        returns, episodes = [], []
        for _ in range(number):
            states, actions, total = [self._reset(generator)], [], 0.0
            for _ in range(self.steps):
                action = policy(self.features(states[-1]).view(1, 1, -1))[0, 0]
                observation, reward, terminated, truncated, _ = self.env.step(action.numpy())
                states.append(torch.as_tensor(observation, dtype=torch.float32))
                actions.append(action)
                total += float(reward)
                if terminated or truncated:
                    break
            returns.append(total)
            episodes.append(Episode(torch.stack(states), torch.stack(actions)))
        return Judgement(torch.tensor(returns, dtype=torch.float64), episodes)

    def _reset(self, generator: torch.Generator) -> Tensor:
        seed = int(torch.randint(2**31, (), generator=generator))
        return torch.as_tensor(self.env.reset(seed=seed)[0], dtype=torch.float32)
