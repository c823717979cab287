"""Deep PILCO: act, learn the dynamics, improve the policy inside of what was learned, and again.

Gal, McAllister and Rasmussen (2016), with Concrete dropout in the dynamics model as in section 4.5 of the paper, and
with a population of policies in place of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from concrete_dropout.control.policies import Population
from concrete_dropout.control.rollouts import Policy, match_moments, rollout, spread, total_reward
from concrete_dropout.control.scouting import Scouts
from concrete_dropout.control.search import begin_anew, islands_of, search
from concrete_dropout.control.settings import AgentSettings
from concrete_dropout.control.worlds import Judgement, Reward, World
from concrete_dropout.data.transitions import TransitionsData
from concrete_dropout.tasks.dynamics import DynamicsTask


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of an episode.

    Attributes:
        episode: its number; the first with a learned policy is 1.
        promising: the policy of the population that function draws promise most of.
        chosen: the one that was judged: the same, or a scout in a place of its own.
        model_return: what function draws promise of the chosen one.
        scout_acted: whether a scout made the experience of this episode.
        scout_chosen: whether it was chosen for that, or for what function draws promise of it.
        acted_return: what came of the experience.
        judgement: of the chosen policy, in the true world. Its episodes are not trained on.
    """

    episode: int
    promising: int
    chosen: int
    model_return: float
    scout_acted: bool
    scout_chosen: bool
    acted_return: float
    judgement: Judgement


class Agent:
    """A dynamics model, a population of policies, and all that was seen so far.

    Args:
        world: where it acts.
        task: its dynamics model.
        data: its experience, with at least one episode: see ``explore``.
        population: its policies.
        settings: what it does.
        make_trainer: a Lightning trainer for one fit of the model.
        generator: of everything random besides the fits, which take torch's own.
    """

    def __init__(
        self,
        world: World,
        task: DynamicsTask,
        data: TransitionsData,
        population: Population,
        settings: AgentSettings,
        make_trainer: Callable[[], pl.Trainer],
        generator: torch.Generator,
    ) -> None:
        self.world, self.task, self.data, self.population = world, task, data, population
        self.settings, self.make_trainer, self.generator = settings, make_trainer, generator
        self.scouts = Scouts(population.part(torch.arange(population.size)))
        self.episode = 0  # played so far
        self.chosen = 0  # the policy that was judged last

    def play(self) -> Outcome:
        """One episode: learn, scout, improve, choose, act, choose by what came of it, be judged."""
        self.fit()
        new = torch.arange(self.population.size)
        if self.episode:
            new = begin_anew(self.population, self.chosen, self.settings.search.islands, self.generator)
        if self.settings.search.scouting:
            self.scouts.climb(partial(self.climb, mean_model=True), self.settings.search, self.generator)
            self.scouts.lead(self.population, new, self.promises(self.scouts.population, mean_model=True))
        search(self.population, self.climb, self.settings.search, self.generator)
        promises = self.promises(self.population)
        self.chosen = promising = int(promises.argmax())
        promise, scout_promise, scout_acts = self.compare_with_scout(promises)
        acted = self.world.judge(self.scouts.best_policy() if scout_acts else self.policy(), 1, self.generator)
        self.data.add(acted.episodes[0])
        done = float(acted.returns[0])
        scout_chosen = scout_acts and max(done, scout_promise) > promise
        if scout_chosen:
            self.take_up_scout(promises)
        judgement = self.world.judge(self.policy(), self.settings.starts, self.generator)
        self.episode += 1
        promise = scout_promise if scout_chosen else promise
        return Outcome(self.episode, promising, self.chosen, promise, scout_acts, scout_chosen, done, judgement)

    def fit(self) -> None:
        """Train the model on all that was seen, from where it is."""
        self.follow()
        self.make_trainer().fit(self.task, datamodule=self.data)

    def follow(self) -> None:
        """Tell the model how much data there are, and on which scale."""
        spec = self.data.spec
        self.task.follow(spec.num_train, spec.inputs, spec.targets)

    def climb(self, population: Population, seed: int, mean_model: bool = False) -> Tensor:
        """Shaped returns (K, P) of all policies in the model, or in the mean model: what a search climbs."""
        particles = self.settings.scouting_starts if mean_model else self.settings.particles
        return self.imagine(population, particles, self.world.shaped_reward, seed, mean_model)

    @torch.no_grad()
    def promises(self, population: Population, mean_model: bool = False) -> Tensor:
        """True rewards (P,) in the model, means over function draws, or in the mean model alone."""
        seed = int(torch.randint(2**62, (), generator=self.generator))
        return self.imagine(population, self.settings.choosing_particles, self.world.reward, seed, mean_model).mean(0)

    def compare_with_scout(self, promises: Tensor) -> tuple[float, float, bool]:
        """What function draws promise of the chosen policy and of the best scout, and whether the scout acts.

        It does where the mean model promises more of it: if that is wrong, it is what to learn next.
        """
        if self.scouts.best is None or not self.settings.scouts_act:
            return float(promises[self.chosen]), -math.inf, False
        both = self.scouts.beside(self.population, self.chosen)
        mine, its = self.promises(both, mean_model=True).tolist()
        return (*self.promises(both).tolist(), its > mine)

    def take_up_scout(self, promises: Tensor) -> None:
        """Choose the best scout: what it has done, or what functions promise of it, is more than they do of the other.

        It takes the place of the least promising policy (P,) on the chosen one's island, so that both stay.
        """
        islands = islands_of(self.population.size, self.settings.search.islands)
        island = next(island for island in islands if self.chosen in island.tolist())
        place = island[promises[island].argsort()[:1]]
        self.population.put(place, self.scouts.population.part(torch.tensor([self.scouts.best])))
        self.chosen = int(place)

    def policy(self, number: int | None = None) -> Policy:
        """One policy of the population, by default the chosen one, for features (K, 1, D)."""
        return self.population.single(self.chosen if number is None else number)

    def state_dict(self) -> dict[str, Any]:
        """All that the agent knows besides the weights of its model, in tensors and numbers."""
        return {
            "population": self.population.state_dict(),
            "generator": self.generator.get_state(),
            "episode": self.episode,
            "chosen": self.chosen,
            "data": self.data.state_dict(),
            "scouts": self.scouts.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Be the agent that was saved."""
        self.population.load_state_dict(state["population"])
        self.generator.set_state(state["generator"])
        self.episode, self.chosen = state["episode"], state["chosen"]
        self.data.load_state_dict(state["data"])
        if "scouts" in state:  # agents of before had none
            self.scouts.load_state_dict(state["scouts"])

    def imagine(
        self, population: Population, particles: int, reward: Reward, seed: int, mean_model: bool = False
    ) -> Tensor:
        """Returns (K, P) of rollouts through K function draws of the model; starts and draws are those of the seed."""
        luck = torch.Generator().manual_seed(seed)
        start = spread(self.world.start(particles, luck), population.size)
        draws = 0 if mean_model or self.settings.mean_model else particles
        with self.task.function_draws(draws, seed=seed, mask=self.task.mask) as step:

            def dynamics(states: Tensor, seen: Tensor, actions: Tensor) -> Tensor:
                after = step(states, seen, actions)
                return match_moments(after, luck) if self.settings.moment_matching else after

            run = rollout(population.acting(), dynamics, self.world.features, start, self.world.steps)
        return total_reward(reward, run.states)


def explore(world: World, data: TransitionsData, episodes: int, generator: torch.Generator) -> None:
    """The first experience: episodes with random actions."""
    for _ in range(episodes):
        data.add(world.judge(world.random_policy(generator), 1, generator).episodes[0])
