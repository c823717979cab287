"""Rollouts: policies acting on a system, real or learned, for a number of steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Dynamics = Callable[[Tensor, Tensor, Tensor], Tensor]  # states (..., S), their features, actions -> next states
Seen = Callable[[Tensor], Tensor]  # states (K, P, S) -> features (K, P, D)
Policy = Callable[[Tensor], Tensor]  # features (K, P, D) -> actions (K, P, A)


@dataclass(frozen=True, eq=False)
class Rollout:
    """What happened: states (T + 1, K, P, S), the start first, and actions (T, K, P, A)."""

    states: Tensor
    actions: Tensor


def rollout(policy: Policy, dynamics: Dynamics, features: Seen, start: Tensor, steps: int) -> Rollout:
    """Let policies act from starts (K, P, S) for so many steps; gradients flow through all of it."""
    states, actions = [start], []
    for _ in range(steps):
        seen = features(states[-1])
        actions.append(policy(seen))
        states.append(dynamics(states[-1], seen, actions[-1]))
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
