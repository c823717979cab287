"""Dropout in front of layers that have none: most vision models carry at most one dropout.

A placed dropout becomes a child named ``dropout`` of the layer it stands in front of, called by a forward pre-hook.
No name in the state dict changes: ``head.weight`` stays, ``head.dropout.p_logit`` is new.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx, nn
from torch.nn.modules.dropout import _DropoutNd

from concrete_dropout.dropout.kinds import PLAIN_IN_FRONT_OF
from concrete_dropout.dropout.owners import layer_sizes
from concrete_dropout.dropout.sites import Owner, Site

CHILD = "dropout"


def placeable(model: nn.Module) -> dict[str, nn.Module]:
    """Linear and convolution layers by name, without those inside of attention, which never calls them."""
    attentions = [module for module in model.modules() if isinstance(module, nn.MultiheadAttention)]
    attention = {id(child) for module in attentions for child in module.modules()}
    layers = tuple(PLAIN_IN_FRONT_OF)
    modules = model.named_modules()
    return {name: module for name, module in modules if isinstance(module, layers) and id(module) not in attention}


def drop_input(
    layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Forward pre-hook of a layer with a placed dropout."""
    dropout = getattr(layer, CHILD)
    if args:
        return (dropout(args[0]), *args[1:]), kwargs
    return args, {**kwargs, "input": dropout(kwargs["input"])}


def is_placed(layer: nn.Module) -> bool:
    """Whether a dropout was placed in front of this layer already."""
    return drop_input in layer._forward_pre_hooks.values()


def place_dropout(layer: nn.Module) -> None:
    """Put an ordinary dropout, channel-wise for convolutions, in front of ``layer``."""
    if hasattr(layer, CHILD):
        raise ValueError(f"{type(layer).__name__} has an attribute {CHILD!r} already: no dropout can be placed there")
    dropout = next(plain for base, plain in PLAIN_IN_FRONT_OF.items() if isinstance(layer, base))(p=0.5)
    dropout.training = layer.training
    layer.add_module(CHILD, dropout)
    layer.register_forward_pre_hook(drop_input, with_kwargs=True)


def unplace_dropout(layer: nn.Module) -> None:
    """Undo ``place_dropout``."""
    delattr(layer, CHILD)
    _remove_hook(layer)


def site_in_front_of(name: str, layer: nn.Module) -> Site:
    """What a dropout placed in front of ``layer`` masks: the columns of its weight."""
    sizes = layer_sizes(layer)
    assert sizes is not None
    return Site((Owner(f"{name}.weight" if name else "weight", sizes.fan_in),), sizes.inputs, "columns")


def hook_plainly(layer: nn.Module) -> None:
    """Let the placed dropout be called by torch's own classes alone, so that a pickle needs nothing of ours."""
    _remove_hook(layer)
    layer.register_forward_pre_hook(_plain_hook(getattr(layer, CHILD)))


def _remove_hook(layer: nn.Module) -> None:
    for key in [key for key, hook in layer._forward_pre_hooks.items() if hook is drop_input]:
        del layer._forward_pre_hooks[key]
        layer._forward_pre_hooks_with_kwargs.pop(key, None)


def _plain_hook(dropout: _DropoutNd) -> fx.GraphModule:
    """``drop_input`` as a graph of torch.fx, which pickles as its own source."""
    graph = fx.Graph()
    graph.placeholder("layer")
    args = graph.placeholder("args")
    first = graph.call_function(operator.getitem, (args, 0))
    rest = graph.call_function(operator.getitem, (args, slice(1, None)))
    dropped = graph.call_module(CHILD, (first,))
    graph.output(graph.call_function(operator.add, ((dropped,), rest)))
    return fx.GraphModule(torch.nn.ModuleDict({CHILD: dropout}), graph)
