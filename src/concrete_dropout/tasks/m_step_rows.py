"""The rows that the final M step of homoscedastic noise is taken on."""

from __future__ import annotations

from collections.abc import Iterable

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.model_helpers import is_overridden
from torch.utils.data import DataLoader, IterableDataset

from concrete_dropout.tasks.base import Batch

M_STEP_ROWS = 4096  # of a batch


def rows_for_the_m_step(trainer: pl.Trainer) -> Iterable[Batch] | None:
    """Validation data if there are any, else training data: of this trainer's fit, or of its data module."""
    held_out, training = trainer.val_dataloaders, trainer.train_dataloader
    data: pl.LightningDataModule | None = getattr(trainer, "datamodule", None)
    if training is None and data is not None:
        held_out = data.val_dataloader() if is_overridden("val_dataloader", data) else None
        training = data.train_dataloader()
    for loaders in (held_out, training):
        loader = (loaders[0] if loaders else None) if isinstance(loaders, list | tuple) else loaders
        if loader is not None:
            return in_order(loader)
    return None


def in_order(loader: Iterable[Batch]) -> Iterable[Batch]:
    """The rows of a loader each once, in order and whole on every process; another iterable as it is."""
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
        return loader
    # Iterating draws a number even where nothing is shuffled: not one of training's.
    generator = torch.Generator()
    return DataLoader(loader.dataset, batch_size=M_STEP_ROWS, collate_fn=loader.collate_fn, generator=generator)
