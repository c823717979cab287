"""A model of a system's dynamics: regression whose data grow, and a function that rollouts can call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from concrete_dropout.dropout.sampling import mc_sampling
from concrete_dropout.dropout.streams import Mask
from concrete_dropout.scaling import Affine
from concrete_dropout.tasks.regression import RegressionTask

Step = Callable[[Tensor, Tensor], Tensor]
Inputs = Callable[[Tensor, Tensor], Tensor]


class DynamicsTask(RegressionTask):
    """Predicts how a state changes in one step; the arguments are those of ``RegressionTask``."""

    def follow(self, num_train: int, inputs: Affine, targets: Affine) -> None:
        """Go on with more data: N and both scales are those of the new training part, the weights stay."""
        self.num_train = num_train
        self.inputs, self.targets = inputs.to(self.device), targets.to(self.device)
        if self.noise is not None:
            self.noise.num_train = num_train

    @contextmanager
    def function_draws(
        self, inputs_of: Inputs, particles: int, *, seed: int | None = None, mask: Mask = "bernoulli"
    ) -> Iterator[Step]:
        """Context with a step function of states (K, ..., S) and actions (K, ..., A) to the next states.

        Particle k has one mask of every layer for as long as the context lasts: one function drawn from the posterior,
        which its whole rollout follows. Gradients flow to states and actions; weights get none.

        Args:
            inputs_of: from states and actions to inputs (..., D) in original units.
            particles: K; 0 for the mean model, in which dropout is inactive.
            seed: of the masks.
            mask: "bernoulli" (hard) or "concrete" masks of Concrete layers.
        """
        shift, scale = (value.to(self.dtype) for value in (self.inputs.mean, 1 / self.inputs.std))
        mean, std = (value.to(self.dtype) for value in (self.targets.mean, self.targets.std))

        def step(states: Tensor, actions: Tensor) -> Tensor:
            x = (inputs_of(states, actions) - shift) * scale
            change = self._mean(self.network(x.flatten(0, -2))).view(states.shape)
            return states + mean + std * change

        weights = [(weight, weight.requires_grad) for weight in self.network.parameters()]
        was_training = self.network.training
        self.network.eval()
        for weight, _ in weights:
            weight.requires_grad_(False)
        try:
            if particles:
                with mc_sampling(self.network, seed, frozen_masks=True, draws=particles, mask=mask):
                    yield step
            else:
                yield step
        finally:
            self.network.train(was_training)
            for weight, required in weights:
                weight.requires_grad_(required)

    def _mean(self, output: Any) -> Tensor:
        return output if isinstance(output, Tensor) else torch.as_tensor(output[0])
