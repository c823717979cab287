"""Scouts: a second population, which climbs the mean model and shows the first one where to search.

Functions drawn from a model that knows little agree on little. Until a policy has found roughly what to do, their
gradients point everywhere, and what all of them grant it is too little to leave a modest habit for. A search among
them alone then stays where it is, and so do the data. The mean model is one function: easy to climb, and often wrong.
Scouts climb that one. The best of them take the places of policies that begin anew, and are made robust among the
functions; and the one that the mean model promises most may act: what the model has wrong there is what to learn next.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from concrete_dropout.control.policies import Population
from concrete_dropout.control.rollouts import Policy
from concrete_dropout.control.search import Objective, SearchSettings, begin_anew, search


class Scouts:
    """A population with a memory of which of its policies was best.

    Args:
        population: like the one that it scouts for.
    """

    def __init__(self, population: Population) -> None:
        self.population = population
        self.best: int | None = None  # before the first search there is none

    def climb(self, objective: Objective, settings: SearchSettings, generator: torch.Generator) -> None:
        """Search in the mean model, after all islands but the one of the best have begun anew."""
        if self.best is not None:
            begin_anew(self.population, self.best, settings.islands, generator)
        search(self.population, objective, replace(settings, iterations=settings.scouting), generator)

    def lead(self, population: Population, places: Tensor, promises: Tensor) -> None:
        """The best scouts, by their promises (P,), take places (n,) in the population that they scout for."""
        order = promises.argsort(descending=True)
        self.best = int(order[0])
        population.put(places, self.population.part(order[: len(places)]))

    def best_policy(self) -> Policy:
        """The one that the mean model promised most when they led."""
        assert self.best is not None, "scouts have not led yet"
        return self.population.single(self.best)

    def beside(self, population: Population, number: int) -> Population:
        """Two policies: the one with this number, and the best scout."""
        assert self.best is not None, "scouts have not led yet"
        both = population.part(torch.tensor([number, number]))
        both.put(torch.tensor([1]), self.population.part(torch.tensor([self.best])))
        return both

    def state_dict(self) -> dict[str, Any]:
        """In tensors and numbers."""
        return {"population": self.population.state_dict(), "best": -1 if self.best is None else self.best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Be the scouts that were saved."""
        self.population.load_state_dict(state["population"])
        self.best = state["best"] if state["best"] >= 0 else None
