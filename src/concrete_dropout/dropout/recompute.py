"""Gradient checkpointing with a mask generator of one's own.

``torch.utils.checkpoint`` restores torch's default generators before it recomputes a segment, so layers that
draw from those see the same noise twice. It knows nothing of a ``torch.Generator`` that a layer was given.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

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
        return _Record(generators, states), _Replay(generators, states)

    return contexts


class _Record(AbstractContextManager[None]):
    """Around the forward pass of a segment: notes the generators' states."""

    def __init__(self, generators: tuple[torch.Generator, ...], states: list[torch.Tensor]) -> None:
        self._generators, self._states = generators, states

    def __enter__(self) -> None:
        self._states[:] = _states(self._generators)

    def __exit__(self, *_: object) -> None:
        pass


class _Replay(AbstractContextManager[None]):
    """Around a recomputation, of which a retained graph may have several: goes back to those states for as long."""

    def __init__(self, generators: tuple[torch.Generator, ...], states: list[torch.Tensor]) -> None:
        self._generators, self._states = generators, states
        self._later: list[tuple[set[int], list[torch.Tensor]]] = []

    def __enter__(self) -> None:
        ids = {id(generator) for generator in self._generators} - _restored
        self._later.append((ids, _states(self._generators)))
        _restored.update(ids)
        _set_states(self._generators, self._states)

    def __exit__(self, *_: object) -> None:
        ids, later = self._later.pop()
        _restored.difference_update(ids)
        _set_states(self._generators, later)


def _states(generators: tuple[torch.Generator, ...]) -> list[torch.Tensor]:
    return [generator.get_state() for generator in generators]


def _set_states(generators: tuple[torch.Generator, ...], states: list[torch.Tensor]) -> None:
    for generator, state in zip(generators, states, strict=True):
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
