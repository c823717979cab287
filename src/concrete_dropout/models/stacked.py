"""R networks of one architecture as one network: one batched matrix product per layer instead of R small ones.

A small network spends its time on overheads; those of a step of 20 networks are hardly larger than those of one.
Replicas never mix: each has its own row in every parameter, its own inputs, masks, p and KL.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from concrete_dropout.dropout.objective import at_least_float32
from concrete_dropout.errors import UserError
from concrete_dropout.models.heads import GaussianHead, bounded_log_var
from concrete_dropout.models.stacked_chain import Step, is_gaussian, require_alike, steps_of
from concrete_dropout.models.stacked_layers import (
    StackedConcreteDropout,
    StackedDropout,
    StackedLayer,
    StackedLinear,
    stacked_dropout,
)
from concrete_dropout.models.stacked_prior import StackedPrior


class StackedNetwork(nn.Module):
    """The parameters of R networks, stacked; every replica computes what its network would.

    Args:
        networks: swapped, of one architecture, made of Linear, ReLU and dropout layers in ``Sequential``, ``MLP`` and,
            outermost, ``GaussianHead``. Weights, initial p, fixed p, length scales and smallest noise may differ.

    Shapes: (R, B, D) -> (R, B, O), or (mean, log_var) of these under a ``GaussianHead``.

    The networks stay as they are until ``write_back`` copies the parameters into them.

    >>> networks = [swap_dropout(nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 1)), "concrete", init_p=p,
    ...             example_input=torch.zeros(1, 3)) for p in (0.1, 0.5)]
    >>> stack = StackedNetwork(networks)
    >>> stack(torch.zeros(2, 8, 3)).shape, stack.kl().shape
    (torch.Size([2, 8, 1]), torch.Size([2]))
    >>> {name: [round(p, 6) for p in ps] for name, ps in stack.probabilities().items()}
    {'0': [0.1, 0.5]}

    Raises:
        UserError: there is something else than such layers in the networks, or they differ.
    """

    min_log_var: Tensor  # (R, 1, 1), of the smallest noise; minus infinity where there is none

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        if not networks:
            raise ValueError("a stack needs at least one network")
        self.num_replicas = len(networks)
        self.is_gaussian = is_gaussian(networks[0])
        if any(is_gaussian(network) != self.is_gaussian for network in networks):
            raise UserError("replicas need networks of one architecture, but only some of them have a GaussianHead")
        chains = [steps_of(network) for network in networks]
        require_alike(chains)
        like = at_least_float32(next(networks[0].parameters()))
        stacks = [_stack(steps, like) for steps in zip(*chains, strict=True)]
        self.layers = nn.Sequential(*stacks)
        dropouts: dict[_DropoutNd, StackedDropout] = {}
        linears: dict[Tensor, StackedLinear] = {}
        for (_, layer), stack in zip(chains[0], stacks, strict=True):
            if isinstance(layer, _DropoutNd) and isinstance(stack, StackedDropout):
                dropouts[layer] = stack
            elif isinstance(layer, nn.Linear) and isinstance(stack, StackedLinear):
                linears[layer.weight] = stack
        self.prior = StackedPrior(networks, dropouts, linears, like)
        floors = torch.tensor([network.min_std if isinstance(network, GaussianHead) else 0.0 for network in networks])
        self.register_buffer("min_log_var", 2 * floors.to(like).log().view(-1, 1, 1), persistent=False)
        self.has_floor = bool(floors.any())

    @property
    def is_stochastic(self) -> bool:
        """Whether any dropout drops something."""
        return any(isinstance(layer, StackedDropout) and layer.kind != "none" for layer in self.layers)

    @property
    def kinds(self) -> dict[str, str]:
        """{dropout: "none", "fixed" or "concrete"}."""
        return {name: dropout.kind for name, dropout in self.prior.dropouts.items()}

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        if x.dim() != 3 or x.shape[0] != self.num_replicas:
            raise ValueError(f"x {tuple(x.shape)} must be (R, B, D) with R = {self.num_replicas}")
        features: Tensor = self.layers(x)
        if not self.is_gaussian:
            return features
        mean, log_var = features.chunk(2, dim=-1)
        log_var = bounded_log_var(log_var)
        return mean, torch.logaddexp(log_var, self.min_log_var) if self.has_floor else log_var

    def kl(self) -> Tensor:
        """KL(q || prior) of each replica in nats, (R,): what ``kl_divergence`` gives for its network."""
        kl: Tensor = self.prior()
        return kl

    def probabilities(self) -> dict[str, list[float]]:
        """{dropout: p of each replica}, names and order as in ``dropout_probabilities``."""
        return {name: dropout.probabilities for name, dropout in self.prior.dropouts.items()}

    def parameter_groups(
        self, *, lr: float, p_lr: float | None = None, weight_decay: float = 0.0
    ) -> list[dict[str, Any]]:
        """Optimiser groups as ``concrete_dropout.parameter_groups`` makes them: p logits apart, without decay."""
        if weight_decay > 0:
            warnings.warn(
                f"weight_decay={weight_decay:g} comes on top of the prior in the KL; the length scale is the "
                "principled knob",
                stacklevel=2,
            )
        concrete = [layer for layer in self.layers if isinstance(layer, StackedConcreteDropout)]
        logits = [layer.p_logit for layer in concrete if layer.p_logit.requires_grad]
        linear = [layer for layer in self.layers if isinstance(layer, StackedLinear)]
        weights = [q for layer in linear for q in layer.parameters() if q.requires_grad]
        groups = [{"name": "weights", "params": weights, "lr": lr, "weight_decay": weight_decay}]
        if logits:
            p_group = {"params": logits, "lr": lr if p_lr is None else p_lr, "weight_decay": 0.0}
            groups.append({"name": "p_logits", **p_group})
        return groups

    def write_back(self) -> None:
        """Copy the parameters into the R networks."""
        for layer in self.layers:
            if isinstance(layer, StackedLayer):
                layer.write_back()


def _stack(steps: Sequence[Step], like: Tensor) -> nn.Module:
    """One layer from the replicas' layers at one place of their networks."""
    layers = [step.layer for step in steps]
    dropouts = [layer for layer in layers if isinstance(layer, _DropoutNd)]
    if dropouts:
        return stacked_dropout(steps[0].name, dropouts, like)
    linears = [layer for layer in layers if isinstance(layer, nn.Linear)]
    return StackedLinear(linears) if linears else nn.ReLU()
