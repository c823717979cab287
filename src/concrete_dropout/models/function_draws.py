"""Functions drawn from an MLP, or a SkipMLP: all layers of all draws as one step of autograd.

A rollout calls the dynamics model once per time step with few rows. What takes time there is not arithmetic but the
number of operations. Weights are constants in it, and masks are drawn once, so the whole chain is one node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from concrete_dropout.errors import UserError
from concrete_dropout.models.mlp import SkipMLP
from concrete_dropout.models.stacked_chain import is_gaussian, steps_of

Draw = Callable[[_DropoutNd, int], Tensor]  # a dropout and its width D -> masks (K, D), scaled
Layer = tuple[list[_DropoutNd], nn.Linear]


@dataclass(frozen=True, eq=False)
class FunctionDraws:
    """K functions of an MLP's inputs: x (K, ..., D) -> (K, ..., O), draw k in [k].

    Attributes:
        gain: (K, D) or (1, D), what inputs are multiplied with: the scale of inputs times the first mask.
        offset: of the same shape, what is added then.
        weights: (fan in, fan out) of each layer.
        biases: (fan out,) of each layer.
        masks: (K, width) in front of each layer but the first; None where nothing is dropped.
        slope: (D, O) of a linear path beside the layers, from inputs as they are; its offset is in the last bias.
    """

    gain: Tensor
    offset: Tensor
    weights: tuple[Tensor, ...]
    biases: tuple[Tensor, ...]
    masks: tuple[Tensor | None, ...]
    slope: Tensor | None = None

    @classmethod
    def of(
        cls,
        layers: Sequence[Layer],
        draw: Draw | None,
        inputs: tuple[Tensor, Tensor],
        outputs: tuple[Tensor, Tensor],
        skip: nn.Linear | None = None,
    ) -> FunctionDraws:
        """Draw functions from a network, in the units that (mean, std) of inputs and outputs are in.

        Args:
            layers: see ``layers_of``.
            draw: makes the masks; None for the mean function.
            inputs: mean and std, (D,) each.
            outputs: the same, (O,) each.
            skip: a linear path beside the layers.
        """
        mean, std = outputs
        weights, biases, masks = [], [], []
        for dropouts, linear in layers:
            bias = linear.bias if linear.bias is not None else linear.weight.new_zeros(linear.out_features)
            weights.append(linear.weight.detach().T)
            biases.append(bias.detach())
            drawn = [draw(dropout, linear.in_features) for dropout in dropouts if draw and dropout.p > 0]
            masks.append(math.prod(drawn[1:], start=drawn[0]) if drawn else None)
        # Numbers behind the means are log variances. The scale of outputs is that of the last layer.
        size = mean.numel()
        weights[-1] = (weights[-1][:, :size] * std).contiguous()
        biases[-1] = biases[-1][:size] * std + mean
        slope = None
        if skip is not None:
            slope = skip.weight.detach().T[:, :size] / inputs[1].unsqueeze(1) * std
            biases[-1] = biases[-1] + skip.bias.detach()[:size] * std - inputs[0] @ slope
        gain = (1 / inputs[1]).unsqueeze(0) * (1.0 if masks[0] is None else masks[0])
        return cls(gain, -inputs[0] * gain, tuple(weights), tuple(biases), tuple(masks[1:]), slope)

    def __call__(self, x: Tensor) -> Tensor:
        """The functions at their inputs."""
        out: Tensor = _Chain.apply(x, self)
        return out


def paths_of(network: nn.Module) -> tuple[list[Layer], nn.Linear | None]:
    """The layers of an MLP or a SkipMLP, with or without a head, and the linear path of the latter.

    Raises:
        UserError: the network is something else.
    """
    bare = network.get_submodule("network") if is_gaussian(network) else network
    if type(bare) is SkipMLP:
        return layers_of(bare.network), bare.skip
    return layers_of(network), None


def layers_of(network: nn.Module) -> list[Layer]:
    """The Linear layers of an MLP with ReLU between them, each with the dropouts in front of it.

    Raises:
        UserError: the network is something else.
    """
    found: list[Layer] = []
    dropouts: list[_DropoutNd] = []
    bends: list[bool] = []
    for _, layer in steps_of(network):
        if isinstance(layer, nn.Linear):
            found.append((dropouts, layer))
            dropouts = []
        elif isinstance(layer, _DropoutNd):
            dropouts.append(layer)
        bends += [] if isinstance(layer, _DropoutNd) else [isinstance(layer, nn.ReLU)]
    if dropouts or bends != [bool(i % 2) for i in range(2 * len(found) - 1)]:
        raise UserError("functions are drawn from Linear layers with a ReLU between each two of them")
    return found


class _Chain(torch.autograd.Function):
    """Forward and backward through the chain; only inputs have a gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, draws: FunctionDraws) -> Tensor:
        rows = (x.shape[0], -1)
        h = torch.addcmul(draws.offset.unsqueeze(1), x.reshape(*rows, x.shape[-1]), draws.gain.unsqueeze(1))
        active: list[Tensor] = []
        last = len(draws.weights) - 1
        for layer, (weight, bias) in enumerate(zip(draws.weights, draws.biases, strict=True)):
            h = torch.addmm(bias, h.flatten(0, 1), weight).view(*rows, weight.shape[1])
            if layer < last:
                h = h.relu_()
                active.append(h)
                mask = draws.masks[layer]
                h = h if mask is None else h * mask.unsqueeze(1)
        if draws.slope is not None:
            h = torch.addmm(h.flatten(0, 1), x.reshape(-1, x.shape[-1]), draws.slope)
        ctx.save_for_backward(*active)
        ctx.draws, ctx.shape = draws, x.shape
        return h.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        draws: FunctionDraws = ctx.draws
        active: Sequence[Tensor] = ctx.saved_tensors
        rows = (ctx.shape[0], -1)
        g = gradients[0].reshape(*rows, gradients[0].shape[-1])
        for layer in reversed(range(len(draws.weights))):
            weight = draws.weights[layer]
            g = torch.mm(g.flatten(0, 1), weight.T).view(*rows, weight.shape[0])
            if layer:
                mask = draws.masks[layer - 1]
                g = g if mask is None else g.mul_(mask.unsqueeze(1))
                g = torch.ops.aten.threshold_backward(g, active[layer - 1], 0)
        g = g * draws.gain.unsqueeze(1)
        if draws.slope is not None:
            g = torch.addmm(g.flatten(0, 1), gradients[0].reshape(-1, gradients[0].shape[-1]), draws.slope.T)
        return g.view(ctx.shape), None
