"""Modes and forwards of modules: set for a while, and put back one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode inside; afterwards, also after an error, every module has the mode that it had."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def override_forward(stack: ExitStack, module: nn.Module, forward: Callable[..., Any]) -> None:
    """Set the forward of one module until the stack unwinds; overrides may be nested."""
    before = vars(module).get("forward")
    module.__dict__["forward"] = forward
    if before is None:
        stack.callback(module.__dict__.pop, "forward")
    else:
        stack.callback(module.__dict__.__setitem__, "forward", before)
