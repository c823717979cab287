"""Deep PILCO: act, learn the dynamics, improve the policy inside of what was learned, and again.

Gal, McAllister and Rasmussen (2016), with Concrete dropout in the dynamics model as in section 4.5 of the paper, and
with a population of policies in place of one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from concrete_dropout.control.policies import Population
from concrete_dropout.control.rollouts import match_moments, rollout, spread, total_reward
from concrete_dropout.control.search import SearchSettings, search
from concrete_dropout.control.worlds import Judgement, Policy, World
from concrete_dropout.data.transitions import TransitionsData, inputs_of
from concrete_dropout.dropout.streams import Mask
from concrete_dropout.tasks.dynamics import DynamicsTask


@dataclass(frozen=True)
class AgentSettings:
    """What the agent does in an episode.

    Attributes:
        episodes: with a learned policy, after those with random actions.
        random_episodes: at the start.
        particles: K, function draws that a rollout of the search has.
        choosing_particles: the same, when the best policy is chosen by its true reward.
        starts: that a policy is judged from, in the true world.
        mask: of Concrete layers in rollouts, "bernoulli" (hard) or "concrete".
        mean_model: roll out through the model without dropout instead of function draws: a control.
        moment_matching: draw particles anew from a Gaussian after every step, as Deep PILCO does.
        search: of policies.
    """

    episodes: int = 15
    random_episodes: int = 1
    particles: int = 8
    choosing_particles: int = 32
    starts: int = 50
    mask: Mask = "bernoulli"
    mean_model: bool = False
    moment_matching: bool = False
    search: SearchSettings = field(default_factory=SearchSettings)

    def __post_init__(self) -> None:
        for key, least in (("episodes", 0), ("random_episodes", 1), ("particles", 2), ("choosing_particles", 2)):
            if getattr(self, key) < least:
                raise ValueError(f"agent.{key}={getattr(self, key)} must be at least {least}")


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of an episode.

    Attributes:
        episode: its number; 0 has random actions.
        chosen: which policy of the population acted.
        model_return: of that policy, inside of the learned model.
        judgement: of it, in the true world.
    """

    episode: int
    chosen: int
    model_return: float
    judgement: Judgement


class Agent:
    """A dynamics model, a population of policies, and all that was seen so far.

    Args:
        world: where it acts.
        task: its dynamics model.
        data: its experience.
        population: its policies.
        settings: what it does.
        make_trainer: a Lightning trainer for one fit of the model.
        seed: of everything random besides the fits.
    """

    def __init__(
        self,
        world: World,
        task: DynamicsTask,
        data: TransitionsData,
        population: Population,
        settings: AgentSettings,
        make_trainer: Callable[[], pl.Trainer],
        seed: int = 0,
    ) -> None:
        self.world, self.task, self.data, self.population = world, task, data, population
        self.settings, self.make_trainer = settings, make_trainer
        self.generator = torch.Generator().manual_seed(seed)
        self.episode = 0  # the next one

    def explore(self) -> None:
        """The first episodes, with random actions."""
        for _ in range(self.settings.random_episodes):
            self._act(self.world.random_policy(self.generator))

    def play(self, on_iteration: Callable[[int, Tensor], None] | None = None) -> Outcome:
        """One episode: learn, improve, choose, be judged, act."""
        self.fit()
        search(self.population, self.climb, self.settings.search, self.generator, on_iteration)
        chosen, model_return = self.choose()
        judgement = self.world.judge(self.policy(chosen), self.settings.starts, self.generator)
        self._act(self.policy(chosen))
        self.episode += 1
        return Outcome(self.episode, chosen, model_return, judgement)

    def fit(self) -> None:
        """Train the model on all that was seen, from where it is."""
        spec = self.data.spec
        self.task.follow(spec.num_train, spec.inputs, spec.targets)
        self.make_trainer().fit(self.task, datamodule=self.data)

    def climb(self, population: Population) -> Tensor:
        """Shaped returns (K, P) of all policies in the model: what the search climbs."""
        return self._imagined(population, self.settings.particles, self.world.shaped_reward)

    @torch.no_grad()
    def choose(self) -> tuple[int, float]:
        """The policy with the highest true reward in the model, and that."""
        returns = self._imagined(self.population, self.settings.choosing_particles, self.world.reward).mean(0)
        return int(returns.argmax()), float(returns.max())

    def policy(self, number: int) -> Policy:
        """One policy of the population, for features (K, 1, D)."""

        def act(features: Tensor) -> Tensor:
            everyone = (features / self.world.feature_scale).expand(-1, self.population.size, -1)
            return self.population(everyone)[:, number : number + 1]

        return act

    def state_dict(self) -> dict[str, Any]:
        """All that the agent knows, in tensors and numbers."""
        return {
            "task": self.task.state_dict(),
            "population": self.population.state_dict(),
            "generator": self.generator.get_state(),
            "episode": self.episode,
            "data": self.data.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Be the agent that was saved."""
        self.task.load_state_dict(state["task"])
        self.population.load_state_dict(state["population"])
        self.generator.set_state(state["generator"])
        self.episode = state["episode"]
        self.data.load_state_dict(state["data"])

    def _act(self, policy: Policy) -> None:
        """Gain experience: one episode in the world."""
        self.data.add(self.world.judge(policy, 1, self.generator).episodes[0])

    def _imagined(self, population: Population, particles: int, reward: Callable[[Tensor], Tensor]) -> Tensor:
        """Returns (K, P) of a rollout through function draws of the model, new ones each time."""
        features, matching = self.data.features, self.settings.moment_matching
        seed = int(torch.randint(2**62, (), generator=self.generator))
        start = spread(self.world.start(particles, self.generator), population.size)
        draws = 0 if self.settings.mean_model else particles
        with self.task.function_draws(
            lambda states, actions: inputs_of(features, states, actions), draws, seed=seed, mask=self.settings.mask
        ) as step:

            def dynamics(states: Tensor, actions: Tensor) -> Tensor:
                after = step(states, actions)
                return match_moments(after, self.generator) if matching else after

            run = rollout(
                population, dynamics, lambda s: features(s) / self.world.feature_scale, start, self.world.steps
            )
        return total_reward(reward, run.states)
