"""Rollouts: policies acting on a system, real or learned, for a number of steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Dynamics = Callable[[Tensor, Tensor], Tensor]  # state (..., S), action (..., A) -> next state (..., S)
Policy = Callable[[Tensor], Tensor]  # features (K, P, D) -> actions (K, P, A)


@dataclass(frozen=True)
class Features:
    """States as policies and models see them: angles as sine and cosine, so that a whole turn changes nothing.

    Attributes:
        size: S, components of a state.
        angles: which of them are angles.

    >>> Features(size=4, angles=(2,))(torch.tensor([1.0, 2.0, 0.0, 3.0]))
    tensor([1., 2., 3., 0., 1.])
    """

    size: int
    angles: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(not 0 <= angle < self.size for angle in self.angles):
            raise ValueError(f"env.angles={list(self.angles)} must be among the components 0 to {self.size - 1}")

    @property
    def number(self) -> int:
        """D: the other components, then sines, then cosines."""
        return self.size + len(self.angles)

    def __call__(self, states: Tensor) -> Tensor:
        """(..., S) -> (..., D)."""
        straight = [i for i in range(self.size) if i not in self.angles]
        angles = states[..., list(self.angles)]
        return torch.cat([states[..., straight], torch.sin(angles), torch.cos(angles)], dim=-1)


@dataclass(frozen=True, eq=False)
class Rollout:
    """What happened: states (T + 1, K, P, S), the start first, and actions (T, K, P, A)."""

    states: Tensor
    actions: Tensor


def rollout(policy: Policy, dynamics: Dynamics, features: Features, start: Tensor, steps: int) -> Rollout:
    """Let policies act from starts (K, P, S) for so many steps; gradients flow through all of it."""
    states, actions = [start], []
    for _ in range(steps):
        actions.append(policy(features(states[-1])))
        states.append(dynamics(states[-1], actions[-1]))
    return Rollout(torch.stack(states), torch.stack(actions))


def spread(start: Tensor, policies: int) -> Tensor:
    """Starts (K, S) for every policy alike, (K, P, S): the same luck for all, so that they can be compared."""
    return start.unsqueeze(1).expand(-1, policies, -1)


def match_moments(states: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Particles (K, P, S) drawn anew from a Gaussian with their mean and standard deviation: Deep PILCO's step.

    It smooths what policies climb, at the price of forgetting which particle belongs to which function.
    """
    noise = torch.randn(states.shape, generator=generator, dtype=states.dtype).to(states.device)
    return states.mean(0) + states.std(0, correction=0) * noise


def total_reward(reward: Callable[[Tensor], Tensor], states: Tensor) -> Tensor:
    """Rewards (K, P) of the states after each action, summed over time."""
    return reward(states[1:]).sum(0)
