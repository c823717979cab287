"""Which parts of a model ``PrefixCache`` takes as one computation."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def chain(modules: list[nn.Module], value: Any) -> Any:
    """What comes out of modules one after the other."""
    for module in modules:
        value = module(value)
    return value


def contains(module: nn.Module, ids: set[int]) -> bool:
    """Whether one of these is the module or part of it."""
    return any(id(descendant) in ids for descendant in module.modules())


def leading_run(module: nn.Module, dropouts: set[int]) -> list[nn.Module]:
    """The children of a plain nn.Sequential in front of its first dropout: one computation."""
    run: list[nn.Module] = []
    if type(module) is nn.Sequential and "forward" not in vars(module):
        for child in module._modules.values():
            if child is None or contains(child, dropouts) or not may_be_noted(child):
                break
            run.append(child)
    return run


def may_be_noted(module: nn.Module) -> bool:
    """TorchScript has a forward of its own kind; a module with a generator draws from it, unseen."""
    return not any(
        isinstance(part, torch.jit.ScriptModule) or any(isinstance(v, torch.Generator) for v in vars(part).values())
        for part in module.modules()
    )
