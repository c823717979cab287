"""Evenly spaced rows of a stream of unknown length, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

OVERSAMPLING = 8  # the more, the evener the spacing


class EvenRows:
    """Keeps at most ``max_rows`` rows, evenly spaced over all that were added.

    Several times as many are held while the stream goes on, and every second one is thrown away when they become
    too many, so the memory does not grow with the data.

    Args:
        max_rows: of the result.

    >>> rows = EvenRows(max_rows=3)
    >>> for start in range(0, 100, 10):
    ...     rows.add(torch.arange(start, start + 10.0)[:, None])
    >>> rows.compute().squeeze(1).tolist(), rows.num_seen
    ([0.0, 48.0, 96.0], 100)
    """

    def __init__(self, max_rows: int) -> None:
        if max_rows < 1:
            raise ValueError(f"max_rows={max_rows} must be at least 1")
        self.max_rows = max_rows
        self.num_seen = 0
        self._stride = 1
        self._blocks: list[Tensor] = []

    def add(self, block: Tensor) -> None:
        """Add rows (B, columns)."""
        first = -self.num_seen % self._stride
        self.num_seen += len(block)
        # a copy: a slice would keep the whole block alive
        self._blocks.append(block[first :: self._stride].detach().cpu().clone())
        while sum(map(len, self._blocks)) > OVERSAMPLING * self.max_rows:
            self._blocks = [torch.cat(self._blocks)[::2].clone()]
            self._stride *= 2

    def compute(self) -> Tensor:
        """(rows, columns), in the order of the stream."""
        if not self._blocks:
            return torch.empty(0, 0)
        rows = torch.cat(self._blocks)
        if len(rows) <= self.max_rows:
            return rows
        return rows[torch.linspace(0, len(rows) - 1, self.max_rows).round().long()]


def in_turn(shares: Sequence[Tensor], max_rows: int) -> Tensor:
    """Rows of several processes in the order of the data, which they have taken in turn; at most ``max_rows``.

    >>> in_turn([torch.tensor([[0.0], [2.0], [4.0]]), torch.tensor([[1.0], [3.0]])], 5).squeeze(1).tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    ordered = [share[row] for row in range(max(map(len, shares))) for share in shares if row < len(share)]
    rows = EvenRows(max_rows)
    rows.add(torch.stack(ordered))
    return rows.compute()
