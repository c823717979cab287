"""Data modules of items that are fetched a batch at a time: their loaders, and how long an epoch is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from concrete_dropout.data.base import ExperimentData, Part
from concrete_dropout.data.batches import Batch, JoinedPasses, as_is
from concrete_dropout.data.checks import whole_number

Loader = DataLoader[Batch]
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
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        processes = torch.distributed.get_world_size() if distributed else 1
        length = self._steps(processes) * self.batch_size * processes
        return self._loader(self.items("train", training=True), self.batch_size, self.sampler(length))

    def val_dataloader(self) -> Loader | list[Loader]:
        """All of the validation part in order; an empty list where there is none."""
        return self._eval_loader("val")

    def test_dataloader(self) -> Loader | list[Loader]:
        """All of the test part in order; an empty list where there is none."""
        return self._eval_loader("test")

    def _eval_loader(self, part: Part) -> Loader | list[Loader]:
        return self._loader(self.items(part), self.eval_batch_size) if part in self.parts else []

    def _loader(self, items: Dataset[Batch], batch_size: int, sampler: Sampler[Any] | None = None) -> Loader:
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


def part_of(parts: Mapping[Part, Entry], part: Part) -> Entry:
    """An entry, or a ``ValueError`` that names those that there are."""
    if part not in parts:
        raise ValueError(f"there is no {part!r} part, only {', '.join(parts)}")
    return parts[part]
