"""A model of a system's dynamics: regression whose data grow, and a function that rollouts can call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from concrete_dropout.dropout.sampling import mc_sampling
from concrete_dropout.dropout.streams import Mask
from concrete_dropout.errors import UserError
from concrete_dropout.models.function_draws import FunctionDraws, Layer, paths_of
from concrete_dropout.scaling import Affine
from concrete_dropout.tasks.regression import RegressionTask

Step = Callable[[Tensor, Tensor, Tensor], Tensor]  # states, their features, actions -> next states


class DynamicsTask(RegressionTask):
    """Predicts how a state changes in one step; arguments are those of ``RegressionTask``."""

    def follow(self, num_train: int, inputs: Affine, targets: Affine) -> None:
        """Go on with more data: N and both scales are those of the new training part, the weights stay."""
        self.num_train = num_train
        self.inputs, self.targets = inputs.to(self.device), targets.to(self.device)
        if self.noise is not None:
            self.noise.num_train = num_train

    @contextmanager
    def function_draws(
        self, particles: int, *, seed: int | None = None, mask: Mask = "bernoulli", fused: bool = True
    ) -> Iterator[Step]:
        """Context with a step function of states (K, ..., S), features (K, ..., D) and actions (K, ..., A).

        Particle k has one mask of every layer for as long as the context lasts: one function drawn from the posterior,
        which its whole rollout follows. Gradients flow to states and actions; weights get none.

        Args:
            particles: K; 0 for the mean model, in which dropout is inactive.
            seed: of the masks.
            mask: "bernoulli" (hard) or "concrete" masks of Concrete layers.
            fused: take all layers of an MLP in one step of autograd, which gives the same numbers sooner.
        """
        was_training = self.network.training
        self.network.eval()
        weights = [(weight, weight.requires_grad) for weight in self.network.parameters()]
        for weight, _ in weights:
            weight.requires_grad_(False)
        paths = self._paths() if fused else None  # before sampling, which hooks into the network
        sampling = mc_sampling(self.network, seed, frozen_masks=True, draws=particles, mask=mask)
        try:
            with sampling if particles else nullcontext():
                change = self._layer_by_layer if paths is None else self._fused(*paths, particles)

                def step(states: Tensor, features: Tensor, actions: Tensor) -> Tensor:
                    return states + change(torch.cat([features, actions], dim=-1))

                yield step
        finally:
            self.network.train(was_training)
            for weight, required in weights:
                weight.requires_grad_(required)

    def _paths(self) -> tuple[list[Layer], nn.Linear | None] | None:
        """Layers and linear path of an MLP; None of any other network."""
        try:
            return paths_of(self.network)
        except UserError:
            return None

    def _fused(self, layers: list[Layer], skip: nn.Linear | None, particles: int) -> FunctionDraws:
        """Functions drawn under the sampling that is active."""
        inputs, outputs = (
            (scale.mean.to(self.dtype), scale.std.to(self.dtype)) for scale in (self.inputs, self.targets)
        )

        def draw(dropout: _DropoutNd, width: int) -> Tensor:
            masks: Tensor = dropout(torch.ones(particles, width, device=self.device).to(self.dtype))
            return masks

        return FunctionDraws.of(layers, draw if particles else None, inputs, outputs, skip)

    def _layer_by_layer(self, x: Tensor) -> Tensor:
        """Changes (..., S) from inputs (..., D + A), through any network."""
        normalised = (x - self.inputs.mean.to(x.dtype)) / self.inputs.std.to(x.dtype)
        mean = _mean(self.network(normalised.flatten(0, -2)))
        return (self.targets.mean.to(x.dtype) + self.targets.std.to(x.dtype) * mean).view(*x.shape[:-1], -1)


def _mean(output: Any) -> Tensor:
    return output if isinstance(output, Tensor) else torch.as_tensor(output[0])
