"""What a dynamics model knows of its own errors: on whole episodes that it was not trained on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from concrete_dropout.data.features import Features
from concrete_dropout.data.transitions import Episode, inputs_of
from concrete_dropout.tasks.dynamics import DynamicsTask

LEVELS = tuple(i / 20 for i in range(1, 20))  # of the central intervals whose coverage is measured


@dataclass(frozen=True, eq=False)
class StepErrors:
    """One step ahead, root mean squares over all transitions, (S,) each, in the units of the state.

    Attributes:
        error: of the predictive mean, from the change that truly follows on what was observed.
        observed: the same from the change that was observed, which has noise that no model can know.
        epistemic: standard deviation over function draws.
        aleatoric: standard deviation of what the model takes for noise.
    """

    error: Tensor
    observed: Tensor
    epistemic: Tensor
    aleatoric: Tensor

    @property
    def ratio(self) -> Tensor:
        """Epistemic standard deviation in units of the error; about 1 is honest, far below 1 too sure."""
        return self.epistemic / self.error


@dataclass(frozen=True, eq=False)
class Bundle:
    """Particles against what happened in one episode: (T + 1, K, S) and (T + 1, S)."""

    particles: Tensor
    observed: Tensor


@dataclass(frozen=True, eq=False)
class Foresight:
    """Many steps ahead, along the actions that were taken.

    Attributes:
        coverage: share of observations, over all steps, inside of the central intervals of ``LEVELS``.
        spread: (T, S), standard deviation of the particles by the number of steps, root mean square over episodes.
        error: (T, S), the same of the particles' mean against what happened.
        bundles: of the first episodes.
    """

    coverage: tuple[float, ...]
    spread: Tensor
    error: Tensor
    bundles: list[Bundle]

    @property
    def calibration_rmse(self) -> float:
        """Distance of the coverage from what the intervals promise."""
        gaps = [(seen - level) ** 2 for seen, level in zip(self.coverage, LEVELS, strict=True)]
        return (sum(gaps) / len(gaps)) ** 0.5


@torch.no_grad()
def one_step(
    task: DynamicsTask,
    features: Features,
    episodes: Sequence[Episode],
    samples: int | None = None,
    true_changes: Callable[[Episode], Tensor] | None = None,
) -> StepErrors:
    """How far off single steps are, and how far off the model thinks they may be.

    Args:
        task: the model.
        features: of states.
        episodes: that it was not trained on.
        samples: stochastic passes; those of tests where it is None.
        true_changes: (T, S) of an episode, without noise; by default those that were observed.
    """
    x = torch.cat([inputs_of(features, episode.states[:-1], episode.actions) for episode in episodes])
    seen = torch.cat([episode.states.diff(dim=0) for episode in episodes]).double()
    true = seen if true_changes is None else torch.cat([true_changes(episode) for episode in episodes]).double()
    prediction = task.predict(x, task.test_samples if samples is None else samples)
    errors = ((prediction.mean - y).square() for y in (true, seen))
    squares = (*errors, prediction.epistemic, prediction.aleatoric)
    return StepErrors(*(square.mean(0).sqrt() for square in squares))


@torch.no_grad()
def many_steps(
    task: DynamicsTask, features: Features, episodes: Sequence[Episode], particles: int, bundles: int = 3, seed: int = 0
) -> Foresight:
    """Follow the actions of episodes through function draws of the model, from the same starts.

    Every observation is compared with particles to which the model's noise of one step is added: an observation has
    noise of its own, which no function explains. Episodes that ended early are left out.
    """
    length = max(len(episode.actions) for episode in episodes)
    whole = [episode for episode in episodes if len(episode.actions) == length]
    observed = torch.stack([episode.states for episode in whole], dim=1)  # (T + 1, N, S)
    actions = torch.stack([episode.actions for episode in whole], dim=1)
    states = [observed[0].expand(particles, -1, -1)]  # (K, N, S)
    with task.function_draws(particles, seed=seed, mask=task.mask) as step:
        for action in actions:
            after = states[-1]
            states.append(step(after, features(after), action.expand(particles, -1, -1)))
    paths = torch.stack(states)[1:].double()  # (T, K, N, S)
    truth = observed[1:].double()
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(paths.shape, generator=generator, dtype=paths.dtype) * _noise(task, features, whole)
    ranks = (paths + noise <= truth.unsqueeze(1)).double().mean(1)  # (T, N, S), where among the particles it lies
    inside = (2 * ranks - 1).abs()  # level of the smallest central interval that holds it
    shown = torch.stack(states)[:, :, :bundles]
    return Foresight(
        coverage=tuple(float((inside <= level).double().mean()) for level in LEVELS),
        spread=paths.var(1, correction=0).mean(1).sqrt(),
        error=(paths.mean(1) - truth).square().mean(1).sqrt(),
        bundles=[Bundle(shown[:, :, n], observed[:, n]) for n in range(shown.shape[2])],
    )


def _noise(task: DynamicsTask, features: Features, episodes: Sequence[Episode]) -> Tensor:
    """Standard deviation (S,) of one step's noise, as the model sees it on these episodes."""
    x = torch.cat([inputs_of(features, episode.states[:-1], episode.actions) for episode in episodes])
    return task.predict(x, 0).aleatoric.mean(0).sqrt()
