"""What every data module of the project has: its parts, N, an example for the network, and the length of an epoch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import pytorch_lightning as pl
from torch import Tensor

Part = Literal["train", "val", "test"]


class ExperimentData(pl.LightningDataModule, ABC):
    """A data module that knows what a model and an objective need to know about the data.

    Subclasses read their data once, on the first use of anything that needs them. ``prepare_data`` is where
    downloads and caches belong: Lightning calls it in one process only.
    """

    def __init__(self) -> None:
        super().__init__()
        self._limit_val_batches: int | float | None = None

    @property
    @abstractmethod
    def spec(self) -> Any:
        """Sizes and names; ``spec.num_train`` is N of the objective, over the whole training part."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The parts that have data, in the order train, val, test."""

    @property
    @abstractmethod
    def example_input(self) -> Tensor:
        """(1, ...): one input as the network gets it."""

    @property
    @abstractmethod
    def steps_per_epoch(self) -> int:
        """Training batches of an epoch in a single process."""

    def setup(self, stage: str | None = None) -> None:
        """Lightning's hook: reads the data, once for all stages; a fit without a validation part skips validation."""
        parts = self.parts
        if stage == "fit" and "val" not in parts and self.trainer is not None:
            # Lightning would warn about a loader without batches, and run an empty validation.
            self._limit_val_batches = self.trainer.limit_val_batches
            self.trainer.limit_val_batches = 0

    def teardown(self, stage: str) -> None:
        """Lightning's hook: the trainer gets back what ``setup`` changed."""
        if self._limit_val_batches is not None and self.trainer is not None:
            self.trainer.limit_val_batches = self._limit_val_batches
            self._limit_val_batches = None
