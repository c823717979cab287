"""The order of an epoch's items, which can be taken up in its middle."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Sampler


class ResumableOrder(Sampler[Any]):
    """What another sampler yields, and the state of torch's generator from which it has drawn that.

    Args:
        source: draws all that is random about an epoch before it yields the first item.
        start: of an epoch that was interrupted: the state from which it was drawn.
        skip: items of that epoch that are done. They are left out of the first pass alone.

    >>> from concrete_dropout.data.batches import JoinedPasses
    >>> whole = ResumableOrder(JoinedPasses(num_rows=5, length=5))
    >>> order = list(whole)
    >>> rest = ResumableOrder(JoinedPasses(num_rows=5, length=5), start=whole.start, skip=2)
    >>> list(rest) == order[2:], len(list(rest))
    (True, 5)
    """

    def __init__(self, source: Sampler[Any], start: Tensor | None = None, skip: int = 0) -> None:
        self.source, self.start = source, start
        self._pending = None if start is None else skip

    def __len__(self) -> int:
        return len(self.source)  # type: ignore[arg-type]

    def set_epoch(self, epoch: int) -> None:
        """Lightning's announcement of an epoch."""
        if hasattr(self.source, "set_epoch"):
            self.source.set_epoch(epoch)

    def __iter__(self) -> Iterator[Any]:
        skip, self._pending = self._pending, None
        if skip is None or self.start is None:
            self.start = torch.get_rng_state()
            yield from self.source
            return
        now = torch.get_rng_state()
        torch.set_rng_state(self.start)
        rest = islice(self.source, skip, None)
        first = next(rest, None)  # which makes the source draw
        torch.set_rng_state(now)
        if first is not None:
            yield first
        yield from rest
