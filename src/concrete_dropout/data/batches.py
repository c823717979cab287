"""Rows to batches: one index operation per batch, and training batches that are always full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, DistributedSampler, Sampler

Batch = tuple[Tensor, Tensor]


class TensorRows(Dataset[Batch]):
    """Inputs (N, D) and targets (N, O) in memory.

    A ``DataLoader`` fetches a whole batch through ``__getitems__``; collate it with ``as_is``.

    >>> rows = TensorRows(torch.arange(6.0).view(3, 2), torch.zeros(3, 1))
    >>> rows.__getitems__([2, 0])[0]
    tensor([[4., 5.], [0., 1.]])
    """

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Batch:
        return self.x[index], self.y[index]

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        rows = torch.as_tensor(indices)
        return self.x[rows], self.y[rows]


class NoRows(Dataset[Batch]):
    """One batch without rows, of the shape and kind that a dataset's batches have.

    >>> len(NoRows(TensorRows(torch.zeros(3, 2), torch.zeros(3, 1)))[0][0])
    0
    """

    def __init__(self, source: Any) -> None:
        self.source = source

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Batch:
        inputs, targets = self.source.__getitems__([0])
        return inputs[:0], targets[:0]


def as_is(batch: Any) -> Any:
    """The collate function of a dataset that hands over whole batches."""
    return batch


class JoinedPasses(Sampler[int]):
    """Shuffled passes over N rows, joined and cut to a given length.

    No row comes a second time before every row has come once. The shuffling starts from one draw of torch's global
    generator, so that restoring its state restores the order. Processes of a distributed run may hold different
    states; there the order follows from seed and epoch, and all processes share it before they take their parts.

    Args:
        num_rows: N.
        length: number of rows to yield.
        seed: for distributed runs.

    >>> torch.bincount(torch.tensor(list(JoinedPasses(num_rows=3, length=8)))).sort().values
    tensor([2, 3, 3])
    """

    def __init__(self, num_rows: int, length: int, seed: int = 0) -> None:
        self.num_rows, self.length, self.seed = num_rows, length, seed
        self.epoch = 0

    def __len__(self) -> int:
        return self.length

    def set_epoch(self, epoch: int) -> None:
        """Lightning's announcement of an epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        # All passes are drawn at once: drawn one by one, they would depend on how far a loader reads ahead.
        generator = torch.Generator().manual_seed(epoch_seed(self.seed, self.epoch))
        passes = -(-self.length // self.num_rows)
        order = torch.cat([torch.randperm(self.num_rows, generator=generator) for _ in range(passes)])
        yield from order[: self.length].tolist()


class OwnShare(DistributedSampler[Any]):
    """The share of a process in what a sampler yields: processes take its entries in turn, each entry once.

    Lightning leaves a ``DistributedSampler`` as it is. Its own would shuffle the order anew, and repeat rows of an
    evaluation until all processes have as many: they would count twice. In an evaluation the last batches therefore
    differ in size or number, and no step may wait for other processes.

    Args:
        source: yields the same entries in all processes, after ``set_epoch`` where it has that.
        num_processes: of the run.
        rank: of this process.

    >>> [list(OwnShare(range(5), 2, rank)) for rank in (0, 1)]
    [[0, 2, 4], [1, 3]]
    """

    def __init__(self, source: Any, num_processes: int, rank: int) -> None:
        super().__init__(source, num_processes, rank, shuffle=False)
        self.source = source
        self.num_samples = len(range(rank, len(source), num_processes))

    def __iter__(self) -> Iterator[Any]:
        yield from islice(self.source, self.rank, None, self.num_replicas)

    def set_epoch(self, epoch: int) -> None:
        """Lightning's announcement of an epoch."""
        super().set_epoch(epoch)
        if hasattr(self.source, "set_epoch"):
            self.source.set_epoch(epoch)


def epoch_seed(seed: int, epoch: int) -> int:
    """A seed for what is random about an epoch: one draw of torch's global generator.

    In a distributed run, whose processes may hold different states, it follows from ``seed`` and ``epoch`` instead.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return seed * 1_000_003 + epoch
    return int(torch.empty((), dtype=torch.int64).random_().item())
