"""The layers of an MLP in the order in which they are called, and whether several MLPs can be stacked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from torch import nn
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.utils.parametrize import is_parametrized

from concrete_dropout.dropout.layers import ConcreteDropout
from concrete_dropout.dropout.place import CHILD, drop_input, is_placed
from concrete_dropout.errors import UserError
from concrete_dropout.models.heads import GaussianHead
from concrete_dropout.models.mlp import MLP


class Step(NamedTuple):
    """One layer on the way through a network: its name, and the layer, a Linear, a ReLU or a dropout."""

    name: str
    layer: nn.Module


def is_gaussian(network: nn.Module) -> bool:
    """Whether a network ends in a ``GaussianHead``."""
    return type(network).forward is GaussianHead.forward


def steps_of(network: nn.Module) -> list[Step]:
    """All layers of a network, without its head.

    >>> [(step.name, type(step.layer).__name__) for step in steps_of(MLP(3, 1, hidden=()))]
    [('layers.0', 'Dropout'), ('layers.1', 'Linear')]

    Raises:
        UserError: there is something else than these in it.
    """
    steps: list[Step] = []
    if is_gaussian(network):
        _refuse_hooks("", network)
        steps += _walk("network", network.get_submodule("network"))
    else:
        steps += _walk("", network)
    seen: set[int] = set()
    for name, layer in steps:
        if id(layer) in seen and not isinstance(layer, nn.ReLU):
            raise _refusal(name, layer, "is used more than once")
        seen.add(id(layer))
    if not any(isinstance(layer, nn.Linear) for _, layer in steps):
        raise _refusal("", network, "has no Linear layer")
    return steps


def require_alike(chains: Sequence[Sequence[Step]]) -> None:
    """Refuse networks whose layers differ in name, type or size."""
    first = [_signature(step) for step in chains[0]]
    for index, chain in enumerate(chains[1:], start=1):
        other = [_signature(step) for step in chain]
        if other == first:
            continue
        pairs = (pair for pair in zip(first, other, strict=False) if pair[0] != pair[1])
        mine, its = next(pairs, (f"{len(first)} layers", f"{len(other)} layers"))
        raise UserError(
            f"replicas need networks of one architecture, but replica {index} has {its} where replica 0 has {mine}: "
            "train these apart"
        )


def _walk(name: str, module: nn.Module) -> Iterator[Step]:
    forward = type(module).forward
    placed = isinstance(module, nn.Linear) and is_placed(module)
    _refuse_hooks(name, module)
    if forward in (nn.Sequential.forward, MLP.forward):
        for child, layer in module._modules.items():  # named_children would leave out a layer's second call
            assert layer is not None
            yield from _walk(f"{name}.{child}" if name else child, layer)
    elif forward is nn.Linear.forward and not is_parametrized(module):
        if placed:
            yield from _walk(f"{name}.{CHILD}" if name else CHILD, module.get_submodule(CHILD))
        yield Step(name, module)
    elif isinstance(module, (nn.ReLU, ConcreteDropout)) or forward is nn.Dropout.forward:
        yield Step(name, module)
    elif not isinstance(module, nn.Identity):
        raise _refusal(name, module, "cannot be stacked")


def _refuse_hooks(name: str, module: nn.Module) -> None:
    before = [hook for hook in module._forward_pre_hooks.values() if hook is not drop_input]
    if before or module._forward_hooks:
        raise _refusal(name, module, "has hooks")


def _refusal(name: str, module: nn.Module, problem: str) -> UserError:
    return UserError(
        f"replicas need an MLP (Linear, ReLU and dropout layers in a row, a GaussianHead at the end), but "
        f"{name or 'the network'!r}, a {type(module).__name__}, {problem}. Choose model=mlp, or train without replicas"
    )


def _signature(step: Step) -> str:
    name, layer = step
    if isinstance(layer, nn.Linear):
        without = "" if layer.bias is not None else " without a bias"
        return f"a Linear layer {layer.in_features} -> {layer.out_features}{without} ({name})"
    # The kind of a dropout is compared where dropouts are stacked.
    return f"{'a dropout' if isinstance(layer, _DropoutNd) else 'a ReLU'} ({name})"
