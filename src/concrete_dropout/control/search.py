"""Search for a policy: gradient ascent of a whole population, with selection in between.

A single policy often ends in a poor local optimum: most restarts never swing the pole up. Now and then the worse half
of the population is therefore replaced by changed copies of the better half.

A population may live on several islands, whose policies only replace each other. After an episode one island begins
anew: in a model that has become better, a fresh search often finds what the old one cannot reach any more.

Starts and function draws stay the same for some iterations. With new ones at every step, gradients point elsewhere each
time, and policies do not get far where functions differ much; with the same ones for ever, they fit these few alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from concrete_dropout.control.policies import Population

Objective = Callable[[Population, int], Tensor]  # a seed -> returns (K, P) of rollouts with its luck, to be maximised


@dataclass(frozen=True)
class SearchSettings:
    """How policies are searched for.

    Attributes:
        iterations: steps of gradient ascent.
        lr: of Adam.
        clip: largest norm of a policy's gradient.
        select_every: iterations between selections; 0 for none.
        spread: how much copies are changed, in standard deviations of each parameter.
        renew_every: iterations with the same starts and function draws.
        islands: parts of the population that do not replace each other; all but the best begin anew in every episode.
        scouting: iterations of scouts in the mean model, before; 0 for no scouts. See ``Scouts``.
    """

    iterations: int = 300
    lr: float = 0.02
    clip: float = 100.0
    select_every: int = 50
    spread: float = 0.2
    renew_every: int = 25
    islands: int = 2
    scouting: int = 0

    def __post_init__(self) -> None:
        for key in ("iterations", "lr", "clip", "renew_every", "islands"):
            if not getattr(self, key) > 0:
                raise ValueError(f"agent.search.{key}={getattr(self, key)} must be above 0")
        for key in ("select_every", "spread", "scouting"):
            if not getattr(self, key) >= 0:
                raise ValueError(f"agent.search.{key}={getattr(self, key)} must be 0 or more")

    def selects_after(self, iteration: int) -> bool:
        """Whether a selection follows; not near the end, where a copy would have no time to improve."""
        done = iteration + 1
        due = self.select_every > 0 and done % self.select_every == 0
        return due and self.iterations - done >= self.select_every // 2


@dataclass(frozen=True, eq=False)
class SearchResult:
    """Smoothed returns (P,) at the end, and the mean and best over the population at every iteration."""

    returns: Tensor
    mean: list[float]
    best: list[float]


def search(
    population: Population,
    objective: Objective,
    settings: SearchSettings,
    generator: torch.Generator,
    on_iteration: Callable[[int, Tensor], None] | None = None,
) -> SearchResult:
    """Improve the policies of a population in place.

    Args:
        population: of policies.
        objective: called in every iteration.
        settings: how.
        generator: of seeds for the objective, and of the changes of copies.
        on_iteration: sees the iteration and the returns (P,), for a progress bar.
    """
    parameters = list(population.parameters())
    optimizer = torch.optim.Adam(parameters, lr=settings.lr)
    smoothed: Tensor | None = None
    means, bests, seed = [], [], 0
    for iteration in range(settings.iterations):
        if iteration % settings.renew_every == 0:
            seed = int(torch.randint(2**62, (), generator=generator))
        returns = objective(population, seed).mean(0)  # (P,)
        gradients = torch.autograd.grad(-returns.sum(), parameters)
        for parameter, gradient in zip(parameters, clipped(gradients, settings.clip), strict=True):
            parameter.grad = gradient
        optimizer.step()
        seen = returns.detach()
        smoothed = seen if smoothed is None else smoothed.lerp(seen, 0.1)
        means.append(float(seen.mean()))
        bests.append(float(seen.max()))
        if on_iteration is not None:
            on_iteration(iteration, seen)
        if settings.selects_after(iteration):
            smoothed = select(population, smoothed, optimizer, settings.spread, generator, settings.islands)
    assert smoothed is not None
    return SearchResult(smoothed, means, bests)


def clipped(gradients: tuple[Tensor, ...], limit: float) -> list[Tensor]:
    """Gradients (P, ...) with the norm of each policy's, over all parameters, at most ``limit``; no NaN stays."""
    finite = [torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0) for gradient in gradients]
    norms = torch.stack([gradient.flatten(1).square().sum(1) for gradient in finite]).sum(0).sqrt()  # (P,)
    factors = (limit / (norms + 1e-12)).clamp(max=1.0)
    return [gradient * factors.view(-1, *(1 for _ in gradient.shape[1:])) for gradient in finite]


def select(
    population: Population,
    returns: Tensor,
    optimizer: torch.optim.Optimizer,
    spread: float,
    generator: torch.Generator | None = None,
    islands: int = 1,
) -> Tensor:
    """On every island the worse half becomes changed copies of the better half, with their optimiser state.

    Returns:
        The returns (P,) of the new population, copies counting as what they were copied from.
    """
    returns = returns.clone()
    for island in islands_of(population.size, islands):
        order = island[returns[island].argsort(descending=True)]
        half = len(order) // 2
        better, worse = order[:half], order[len(order) - half :]
        population.replace(worse, better, spread, generator)
        for state in optimizer.state.values():
            for entry in state.values():
                if isinstance(entry, Tensor) and entry.dim() and entry.shape[0] == population.size:
                    entry[worse] = entry[better]
        returns[worse] = returns[better]
    return returns


def islands_of(size: int, islands: int) -> list[Tensor]:
    """Numbers of the policies on each island.

    >>> [island.tolist() for island in islands_of(5, 2)]
    [[0, 1, 2], [3, 4]]
    """
    return list(torch.arange(size).tensor_split(min(islands, size)))


def begin_anew(population: Population, best: int, islands: int, generator: torch.Generator) -> Tensor:
    """New policies on all islands but the one of the ``best``; their numbers. With one island nothing changes."""
    renewed = [island for island in islands_of(population.size, islands) if best not in island.tolist()]
    for island in renewed:
        population.renew(island, generator)
    return torch.cat([*renewed, torch.empty(0, dtype=torch.long)])
