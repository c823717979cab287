"""Worlds: systems to be controlled, with what an agent may know of them.

An agent knows how states are seen, where episodes start, and the reward of a state. How states follow from actions it
has to learn. A world is also where it acts, and where its policies are judged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from concrete_dropout.control.cartpole import STATE_NAMES, CartPole
from concrete_dropout.control.cartpole_env import STEPS
from concrete_dropout.control.drawing import draw_cartpole
from concrete_dropout.control.rollouts import Policy, Rollout, rollout, spread, total_reward
from concrete_dropout.control.video import Frame
from concrete_dropout.data.features import Features
from concrete_dropout.data.transitions import Episode

Reward = Callable[[Tensor], Tensor]  # states (..., S) -> (...)


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
    feature_scale: tuple[float, ...]

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

    def changes(self, episode: Episode) -> Tensor:
        """How each observed state truly changes under its action, (T, S): by default as it was observed to."""
        return episode.states.diff(dim=0)

    @property
    def frames_per_second(self) -> float:
        """Of a video that moves as fast as the system."""
        return 10.0

    def frames(self, policy: Policy, generator: torch.Generator) -> list[Frame]:
        """Pictures (H, W, 3) of an episode under a single policy; none where the world cannot be drawn."""
        return []

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
        steps: of an episode.
        observation_noise: standard deviation of what is added to every observed component; rewards are of true states.
        shaping: weight of a second, wider reward in the search, whose gradient does not vanish while the pole hangs.
        shaping_width: of that reward, in m.
        **constants: of ``CartPole``.
    """

    def __init__(
        self,
        steps: int = STEPS,
        observation_noise: float = 0.01,
        shaping: float = 0.5,
        shaping_width: float = 0.75,
        **constants: Any,
    ) -> None:
        for key, value, least in (("observation_noise", observation_noise, 0), ("shaping", shaping, 0)):
            if value < least:
                raise ValueError(f"env.{key}={value} must be {least} or more")
        if steps < 1 or shaping_width <= 0:
            raise ValueError(f"env.steps={steps} and env.shaping_width={shaping_width} must be above 0")
        self.system = CartPole(**constants)
        self.features = Features(size=4, angles=(2,))
        self.state_names, self.action_names = STATE_NAMES, ("force",)
        self.limits, self.steps = (self.system.max_force,), steps
        self.feature_scale = (1.0, 2.0, 5.0, 1.0, 1.0)
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

    def judge(self, policy: Policy, number: int, generator: torch.Generator) -> Judgement:
        """All starts at once, in float64."""
        run, observed = self._run(policy, number, generator)
        episodes = [Episode(observed[:, n], run.actions[:, n, 0].float()) for n in range(number)]
        return Judgement(total_reward(self.reward, run.states)[:, 0], episodes)

    def changes(self, episode: Episode) -> Tensor:
        """One exact step from every observed state: without the noise of observing what comes of it."""
        states = episode.states[:-1].double()
        return self.system.step(states, episode.actions.double()) - states

    @property
    def frames_per_second(self) -> float:
        """One frame per time step."""
        return 1 / self.system.time_step

    def frames(self, policy: Policy, generator: torch.Generator) -> list[Frame]:
        """Drawn from the true states and forces."""
        run = self._run(policy, 1, generator)[0]
        forces = [0.0, *run.actions[:, 0, 0, 0].tolist()]
        return [draw_cartpole(self.system, state[0, 0].numpy(), u) for state, u in zip(run.states, forces, strict=True)]

    def _run(self, policy: Policy, number: int, generator: torch.Generator) -> tuple[Rollout, Tensor]:
        """What happened, in float64, and what was observed of it, (T + 1, N, S)."""
        seen: list[Tensor] = []

        def act(features: Tensor) -> Tensor:
            return policy(features.float()).double()

        def observe(states: Tensor) -> Tensor:
            noise = torch.randn(states.shape, generator=generator, dtype=states.dtype)
            seen.append(states + self.observation_noise * noise)
            return self.features(seen[-1])

        start = spread(self.start(number, generator).double(), 1)
        with torch.no_grad():
            run = rollout(act, lambda states, _, force: self.system.step(states, force), observe, start, self.steps)
            observe(run.states[-1])
        return run, torch.stack(seen)[:, :, 0].float()
