"""Gradient checkpointing with a mask generator of one's own.

``torch.utils.checkpoint`` restores torch's default generators before it recomputes a segment, so layers that
draw from those see the same noise twice. It knows nothing of a ``torch.Generator`` that a layer was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

_restored: set[int] = set()  # ids of the generators that a recomputation in progress has restored

ContextPair = tuple[AbstractContextManager[None], AbstractContextManager[None]]


def preserve_masks(*generators: torch.Generator) -> Callable[[], ContextPair]:
    """A ``context_fn`` for ``torch.utils.checkpoint.checkpoint`` that repeats the masks of ``generators``.

    >>> generator = torch.Generator().manual_seed(0)
    >>> layer = ConcreteDropout(0.5, generator=generator)
    >>> x = torch.ones(4, requires_grad=True)
    >>> y = checkpoint(layer, x, use_reentrant=False, context_fn=preserve_masks(generator))
    >>> y.sum().backward()
    >>> bool(torch.allclose(x.grad, y))
    True
    """

    def contexts() -> ContextPair:
        states: list[torch.Tensor] = []
        return _record(generators, states), _replay(generators, states)

    return contexts


@contextmanager
def _record(generators: tuple[torch.Generator, ...], states: list[torch.Tensor]) -> Iterator[None]:
    states[:] = [generator.get_state() for generator in generators]
    yield


@contextmanager
def _replay(generators: tuple[torch.Generator, ...], states: list[torch.Tensor]) -> Iterator[None]:
    later = [generator.get_state() for generator in generators]
    ids = {id(generator) for generator in generators} - _restored
    _restored.update(ids)
    try:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
        yield
    finally:
        _restored.difference_update(ids)
        for generator, state in zip(generators, later, strict=True):
            generator.set_state(state)


def refuse_unrestored(generator: torch.Generator) -> None:
    """Raise where a recomputation would draw other noise than the forward pass: its gradient would be wrong."""
    if torch.compiler.is_compiling() or torch._C._current_graph_task_id() == -1 or id(generator) in _restored:
        return
    raise RuntimeError(
        "a Concrete dropout with its own generator is being recomputed by gradient checkpointing, which would draw "
        "another mask; pass context_fn=preserve_masks(generator) to torch.utils.checkpoint.checkpoint "
        "(use_reentrant=False), or use torch's default generator"
    )
