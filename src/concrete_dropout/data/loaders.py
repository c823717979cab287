"""Data modules of items that are fetched a batch at a time: their loaders, and how long an epoch is."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sized
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from concrete_dropout.data.base import ExperimentData, Part
from concrete_dropout.data.batches import Batch, JoinedPasses, NoRows, OwnShare, as_is
from concrete_dropout.data.checks import whole_number
from concrete_dropout.data.order import ResumableOrder

log = logging.getLogger(__name__)
Loader = DataLoader[Batch]
_SEVERAL_TIMES = "data.batch_size=%d is more than the %d training items: a batch has some of them several times"
Entry = TypeVar("Entry")


class BatchedData(ExperimentData, ABC):
    """Training batches that are always full, in every process of a distributed run; evaluation in order.

    ``batch_size`` may be changed at any time; the next training loader follows.

    Args:
        batch_size: items of a training batch.
        eval_batch_size: items of a validation or test batch.
        num_workers: processes that make batches.
        min_steps_per_epoch: an epoch has max(ceil(items / batch_size), this) batches.
        seed: of everything random about the data; the order of training batches follows torch's global generator.
    """

    def __init__(
        self, *, batch_size: int, eval_batch_size: int, num_workers: int, min_steps_per_epoch: int, seed: int
    ) -> None:
        super().__init__()
        self.batch_size = whole_number("data.batch_size", batch_size, minimum=1)
        self.eval_batch_size = whole_number("data.eval_batch_size", eval_batch_size, minimum=1)
        self.num_workers = whole_number("data.num_workers", num_workers, minimum=0)
        self.min_steps_per_epoch = whole_number("data.min_steps_per_epoch", min_steps_per_epoch, minimum=1)
        self.seed = whole_number("data.seed", seed, minimum=0)
        self._order: ResumableOrder | None = None
        self._interrupted: tuple[Tensor | None, int] = (None, 0)

    @abstractmethod
    def items(self, part: Part, training: bool = False) -> Dataset[Batch]:
        """The items of a part; a batch is fetched by ``__getitems__``. Only training items are augmented."""

    @property
    @abstractmethod
    def num_items(self) -> int:
        """Training items: rows, pictures, images."""

    @property
    def steps_per_epoch(self) -> int:
        """Training batches of an epoch in a single process."""
        return self._steps(processes=1)

    def sampler(self, length: int) -> Sampler[Any]:
        """What comes when in an epoch of so many items."""
        return JoinedPasses(self.num_items, length, self.seed)

    def train_dataloader(self) -> Loader:
        """Full batches of shuffled items."""
        processes, rank = _processes()
        if self.batch_size > self.num_items:
            log.info(_SEVERAL_TIMES, self.batch_size, self.num_items)
        sampler = self.sampler(self._steps(processes) * self.batch_size * processes)
        start, batches = self._interrupted
        self._interrupted = None, 0
        self._order = ResumableOrder(sampler, start, batches * self.batch_size * processes)
        share = self._order if processes == 1 else OwnShare(self._order, processes, rank)
        return self._loader(self.items("train", training=True), self.batch_size, share)

    def state_dict(self) -> dict[str, Any]:
        """Lightning's hook: before the end of an epoch, what it takes to go on with its items in their order."""
        loop = None if self.trainer is None else self.trainer.fit_loop
        if loop is None or self._order is None or self._order.start is None:
            return {}
        epochs: Any = loop.epoch_progress.current
        done = loop.epoch_loop.batch_progress.current.completed
        return {"start": self._order.start, "batches": done} if epochs.processed < epochs.ready else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Lightning's hook: the next training loader goes on where the checkpoint was saved."""
        self._interrupted = state_dict.get("start"), int(state_dict.get("batches", 0))

    def val_dataloader(self) -> Loader | list[Loader]:
        """All of the validation part in order, or this process's share; an empty list where there is none."""
        return self._eval_loader("val")

    def test_dataloader(self) -> Loader | list[Loader]:
        """All of the test part in order, or this process's share; an empty list where there is none."""
        return self._eval_loader("test")

    def _eval_loader(self, part: Part) -> Loader | list[Loader]:
        if part not in self.parts:
            return []
        items, (processes, rank) = self.items(part), _processes()
        if processes == 1:
            return self._loader(items, self.eval_batch_size)
        rows = len(cast(Sized, items))
        if rank >= rows:  # it takes part all the same: the others wait for it where results are put together
            return self._loader(NoRows(items), None, OwnShare(range(1), 1, 0))
        return self._loader(items, self.eval_batch_size, OwnShare(range(rows), processes, rank))

    def _loader(self, items: Dataset[Batch], batch_size: int | None, sampler: Sampler[Any] | None = None) -> Loader:
        return DataLoader(
            items,
            batch_size=batch_size,
            sampler=sampler,
            # Iterators draw seeds for their workers; how often depends on the workers. From the global generator that
            # would change the training run: by every evaluation, and when it is resumed.
            generator=torch.Generator().manual_seed(self.seed),
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
            pin_memory=self.trainer is not None and self.trainer.strategy.root_device.type == "cuda",
            collate_fn=as_is,
        )

    def _steps(self, processes: int) -> int:
        return max(-(-self.num_items // (self.batch_size * processes)), self.min_steps_per_epoch)


def _processes() -> tuple[int, int]:
    """How many processes train together, and the number of this one."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return 1, 0
    return torch.distributed.get_world_size(), torch.distributed.get_rank()


def part_of(parts: Mapping[Part, Entry], part: Part) -> Entry:
    """An entry, or a ``ValueError`` that names those that there are."""
    if part not in parts:
        raise ValueError(f"there is no {part!r} part, only {', '.join(parts)}")
    return parts[part]
