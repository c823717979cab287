"""Labelled pictures as bytes, in memory or on disk, and batches of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset

from concrete_dropout.data.base import Part
from concrete_dropout.data.batches import Batch
from concrete_dropout.data.pixels import Augment, PixelScale, augmented, batch_generator

Image = npt.NDArray[np.uint8]
CHUNK = 1000  # pictures taken at once where all are looked at
MOST_DECODED = 2000  # enough for the mean and deviation of pixels


class Pictures(Protocol):
    """N pictures of one size."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of each."""

    @property
    def decoded(self) -> bool:
        """Whether taking a picture is a copy in memory and no more."""

    def __len__(self) -> int: ...

    def take(self, rows: Tensor) -> Tensor:
        """The pictures with these numbers (B,): uint8 (B, C, H, W)."""


class PicturesInMemory:
    """Pictures in one tensor.

    Args:
        pixels: uint8 (N, C, H, W).

    >>> PicturesInMemory(torch.arange(3, dtype=torch.uint8).view(3, 1, 1, 1)).take(torch.tensor([2, 0])).flatten()
    tensor([2, 0], dtype=torch.uint8)
    """

    def __init__(self, pixels: Tensor) -> None:
        if pixels.dtype != torch.uint8 or pixels.ndim != 4:
            raise ValueError(f"pictures must be uint8 (N, C, H, W), not {pixels.dtype} {tuple(pixels.shape)}")
        self.pixels = pixels.contiguous()

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W)."""
        channels, height, width = self.pixels.shape[1:]
        return channels, height, width

    @property
    def decoded(self) -> bool:
        """They are."""
        return True

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, rows: Tensor) -> Tensor:
        """A copy of each picture as a whole: several times faster than indexing with brackets."""
        return self.pixels.index_select(0, rows)


class SomePictures:
    """Those of other pictures which have the given numbers (M,), in this order."""

    def __init__(self, pictures: Pictures, rows: Tensor) -> None:
        self.pictures, self.rows = pictures, rows

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W)."""
        return self.pictures.shape

    @property
    def decoded(self) -> bool:
        """Whether the other pictures are."""
        return self.pictures.decoded

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: Tensor) -> Tensor:
        """What the other pictures have at these places."""
        return self.pictures.take(self.rows[rows])


@dataclass(frozen=True, eq=False)
class LabelledPictures:
    """The pictures of one part.

    Attributes:
        pictures: N of them.
        labels: int64 (N,), numbers of classes.
        names: one per picture, such as its file; None where they have none.
    """

    pictures: Pictures
    labels: Tensor
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not len(self.pictures) == len(self.labels) > 0:
            raise ValueError(f"{len(self.pictures)} pictures and {len(self.labels)} labels: as many, and at least one")

    def __len__(self) -> int:
        return len(self.labels)

    def some(self, rows: npt.NDArray[np.int64]) -> LabelledPictures:
        """Those with the given numbers, without a copy of their pixels."""
        index = torch.from_numpy(rows)
        names = None if self.names is None else [self.names[row] for row in rows.tolist()]
        return replace(self, pictures=SomePictures(self.pictures, index), labels=self.labels[index], names=names)

    def image(self, index: int) -> Image:
        """Picture number ``index``, (H, W) or (H, W, 3)."""
        pixels = self.pictures.take(torch.tensor([index]))[0]
        return pixels[0].numpy() if len(pixels) == 1 else pixels.permute(1, 2, 0).contiguous().numpy()

    def chunks(self) -> Iterator[Tensor]:
        """The pixels in pieces (B, C, H, W): all, or those of 2000 pictures evenly spread if they must be decoded."""
        count = len(self) if self.pictures.decoded else min(MOST_DECODED, len(self))
        for rows in (torch.arange(count) * len(self) // count).split(CHUNK):
            yield self.pictures.take(rows)


@dataclass(frozen=True, eq=False)
class PictureSet:
    """The parts of a data set.

    Attributes:
        train: the training part.
        val: None where there is none.
        test: None where there is none.
        class_names: in the order of the labels.
        scale: for the pixels of all parts; None to fit it on the training part.
    """

    train: LabelledPictures
    val: LabelledPictures | None
    test: LabelledPictures | None
    class_names: tuple[str, ...]
    scale: PixelScale | None = None

    def parts(self) -> dict[Part, LabelledPictures]:
        """The parts that there are, by name."""
        parts: dict[Part, LabelledPictures | None] = {"train": self.train, "val": self.val, "test": self.test}
        return {name: part for name, part in parts.items() if part is not None}


class PictureRows(Dataset[Batch]):
    """Standardised pictures (C, H, W) and their labels; a ``DataLoader`` fetches whole batches.

    Collate with ``batches.as_is``.

    Args:
        part: the pictures.
        scale: from bytes to standardised float32.
        augment: random changes. They follow from the batch's rows, see ``batch_generator``.
    """

    def __init__(self, part: LabelledPictures, scale: PixelScale, augment: Augment = "none") -> None:
        self.part, self.scale, self.augment = part, scale, augment

    def __len__(self) -> int:
        return len(self.part)

    def __getitem__(self, index: int) -> Batch:
        x, y = self.__getitems__([index])
        return x[0], y[0]

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        rows = torch.as_tensor(indices)
        pixels = self.part.pictures.take(rows)
        if self.augment != "none":
            pixels = augmented(pixels, self.augment, batch_generator(rows))
        return self.scale(pixels), self.part.labels[rows]
