"""Gradient checkpointing of a module with dropout and BatchNorm: the same loss, gradients and statistics as without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from concrete_dropout.dropout import preserve_masks

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def checkpointed(module: nn.Module, *inputs: Tensor) -> Tensor:
    """``module(*inputs)``, of which the inputs alone are kept for the backward pass, where it is computed again.

    Masks are the same then, also from generators of one's own, and running statistics do not move a second time.

    >>> block = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout(0.5))
    >>> checkpointed(block, torch.ones(2, 1, 5, 5)).sum().backward()
    >>> block[1].num_batches_tracked
    tensor(1)
    """
    masks = preserve_masks(*_generators(module))

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        first, again = masks()
        return first, _together(again, _still_statistics(module))

    out: Tensor = checkpoint(module, *inputs, use_reentrant=False, context_fn=contexts)
    return out


def _generators(module: nn.Module) -> list[torch.Generator]:
    found = {id(value): value for part in module.modules() for value in vars(part).values()}
    return [value for value in found.values() if isinstance(value, torch.Generator)]


@contextmanager
def _still_statistics(module: nn.Module) -> Iterator[None]:
    """BatchNorm layers of ``module`` update copies of their running statistics inside.

    Copies, since autograd keeps these tensors as well: their number must not change, nor they themselves.
    """
    norms = [part for part in module.modules() if isinstance(part, _BatchNorm) and part.running_mean is not None]
    kept = [{name: getattr(norm, name) for name in STATISTICS} for norm in norms]
    try:
        for norm, buffers in zip(norms, kept, strict=True):
            for name, buffer in buffers.items():
                setattr(norm, name, buffer.clone())
        yield
    finally:
        for norm, buffers in zip(norms, kept, strict=True):
            for name, buffer in buffers.items():
                setattr(norm, name, buffer)


@contextmanager
def _together(*contexts: AbstractContextManager[None]) -> Iterator[None]:
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield
