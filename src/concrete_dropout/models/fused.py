"""Which layers can be computed by fused convolutions, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from concrete_dropout.dropout.kernels import PLAIN, transforms_active
from concrete_dropout.dropout.kinds import plain_class
from concrete_dropout.models.fused_evaluation import evaluate_features
from concrete_dropout.models.fused_training import train_features

MIN_ELEMENTS = 1 << 18  # of the input: below, torch's own operations work in the cache as well, with fewer calls


def fused_features(layers: Sequence[Any], parts: Sequence[Tensor], shared: int | None = None) -> Tensor | None:
    """The features of a stack of layers by fused operations; None where plain torch operations have to do it.

    Args:
        layers: modules with ``norm``, ``conv`` and ``dropout``. Each sees the input and all features in front of it.
        parts: the input, (N, C_i, H, W), in one or several parts.
        shared: number of the part that is the same in every stochastic pass, if there is one.
    """
    if sum(part.numel() for part in parts) < MIN_ELEMENTS:
        return None
    plain: dict[nn.Module, type[nn.Module]] = {}
    for layer in layers:
        plain |= {layer.norm: nn.BatchNorm2d, layer.conv: nn.Conv2d}
    unhooked = all(is_unhooked(part) for layer in layers for part in (layer, layer.dropout))
    droppable = all(plain_class(layer.dropout) is not None for layer in layers)
    if not (unhooked and droppable) or not all(fits(part, plain) for part in parts):
        return None
    modes = {layer.norm.training for layer in layers}
    if modes == {True}:
        return train_features(layers, parts)
    has_statistics = all(layer.norm.running_mean is not None for layer in layers)
    if modes == {False} and has_statistics and not torch.is_grad_enabled():
        return evaluate_features(layers, parts, shared)
    return None


def fits(x: Tensor, modules: Mapping[nn.Module, type[nn.Module]]) -> bool:
    """Whether fused operations may take ``x`` and the weights of ``modules``: all are plain, and nobody looks on.

    Args:
        x: must be an ordinary float32 tensor (N, C, H, W) of several pixels on the CPU, outside of any transform.
        modules: must be of the given classes. Their hooks and replaced forwards (a dropout placed in front of a
            convolution, a dry pass) would not be called, so there must be none.
    """
    return (
        x.is_cpu
        and x.dtype is torch.float32
        and type(x) in PLAIN
        and x.dim() == 4
        and x[:, 0].numel() > 1
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()  # type: ignore[attr-defined]
        and not torch.is_autocast_enabled("cpu")
        and not transforms_active()
        and all(type(m) is cls and "forward" not in vars(m) and is_unhooked(m) for m, cls in modules.items())
    )


def is_unhooked(module: nn.Module) -> bool:
    """Whether nobody asked to be called with the module's inputs, outputs or gradients."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return not any(hooks)
