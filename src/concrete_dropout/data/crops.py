"""Images to batches: crops and flips whose randomness is drawn with the order, and padding where sizes differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Dataset, Sampler

from concrete_dropout.data.batches import Batch, JoinedPasses, epoch_seed
from concrete_dropout.data.labelled_images import VOID, Bytes, LabelledImages

Floats = npt.NDArray[np.float32]


class Draw(NamedTuple):
    """An image of a training batch, and all that is random about it.

    Attributes:
        number: of the image.
        down: where the crop begins, from 0 (top) to below 1 (as low as it goes).
        right: the same from left to right.
        flip: whether left and right change places.
    """

    number: int
    down: float = 0.0
    right: float = 0.0
    flip: bool = False


class CropDraws(Sampler[Draw]):
    """Shuffled passes over N images, each entry with its place of the crop and its flip.

    All of it is drawn in the main process when an epoch begins. Hence the number of workers changes nothing, a resumed
    run repeats what it would have done, and the processes of a distributed run, which take their parts of one list,
    never see the same crop.

    Args:
        num_images: N.
        length: number of entries.
        flips: flip one half of the images, on average.
        seed: for distributed runs.

    >>> draws = list(CropDraws(num_images=3, length=4, flips=True))
    >>> len(draws), len({draw.number for draw in draws}), all(0 <= draw.down < 1 for draw in draws)
    (4, 3, True)
    """

    def __init__(self, num_images: int, length: int, flips: bool, seed: int = 0) -> None:
        self.passes = JoinedPasses(num_images, length, seed)
        self.flips, self.seed = flips, seed

    def __len__(self) -> int:
        return len(self.passes)

    def set_epoch(self, epoch: int) -> None:
        """Lightning's announcement of an epoch."""
        self.passes.set_epoch(epoch)

    def __iter__(self) -> Iterator[Draw]:
        order = list(self.passes)
        random = np.random.default_rng(epoch_seed(self.seed, self.passes.epoch))
        places = random.random((len(order), 2)).tolist()
        flips = (random.random(len(order)) < 0.5).tolist()
        for index, (down, right), flip in zip(order, places, flips, strict=True):
            yield Draw(index, down, right, flip and self.flips)


@dataclass(frozen=True, eq=False)
class Standardise:
    """(pixels / 255 - mean) / std, with one mean and one std (3, 1, 1) per channel."""

    mean: Floats
    std: Floats

    def __call__(self, x: Floats) -> None:
        """In place, on (3, H, W)."""
        x -= self.mean
        x /= self.std


class ImageBatches(Dataset[Batch]):
    """Batches x (B, 3, H, W) in float32 and y (B, H, W) in int64, fetched as a whole; collate them with ``as_is``.

    What an image does not fill of its place in a batch is 0 in x and VOID in y.

    Args:
        images: whence.
        crop: side of a square; None for whole images, in a batch of the largest height and width among them.
        standardise: what follows the division by 255.

    >>> image, mask = np.full((4, 6, 3), 255, np.uint8), np.full((4, 6), 2, np.uint8)
    >>> from concrete_dropout.data.labelled_images import planes_of
    >>> batches = ImageBatches(LabelledImages.stack([planes_of(image, mask)], ["a"]), crop=2)
    >>> batches.__getitems__([Draw(0, down=0.9, right=0.1)])
    (tensor([[[[1., 1.], [1., 1.]], [[1., 1.], [1., 1.]], [[1., 1.], [1., 1.]]]]), tensor([[[2, 2], [2, 2]]]))
    """

    def __init__(self, images: LabelledImages, crop: int | None = None, standardise: Standardise | None = None) -> None:
        self.images, self.crop, self.standardise = images, crop, standardise

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, entry: Draw | int) -> Batch:
        x, y = self.__getitems__([entry])
        return x[0], y[0]

    def __getitems__(self, entries: Sequence[Draw | int]) -> Batch:
        """One batch; a bare number stands for an image from its top left corner."""
        draws = [Draw(entry) if isinstance(entry, int) else entry for entry in entries]
        sizes = self.images.sizes[[draw.number for draw in draws]]
        height, width = (self.crop, self.crop) if self.crop is not None else sizes.max(axis=0)
        if (sizes >= (height, width)).all():
            pixels = np.empty((len(draws), 3, height, width), np.float32)
            labels = np.empty((len(draws), height, width), np.int64)
        else:
            pixels = np.zeros((len(draws), 3, height, width), np.float32)
            labels = np.full((len(draws), height, width), VOID, np.int64)
        for row, draw in enumerate(draws):
            shown = _fill(pixels[row], labels[row], self.images.planes(draw.number), draw)
            shown /= np.float32(255)
            if self.standardise is not None:
                self.standardise(shown)
        return torch.from_numpy(pixels), torch.from_numpy(labels)


def _fill(pixels: Floats, labels: npt.NDArray[np.int64], planes: Bytes, draw: Draw) -> Floats:
    """Copy what a crop shows of an image into its place (3, H, W) and (H, W); returns the part of it that is filled."""
    (top, rows), (left, columns) = (
        _overlap(size, room, share)
        for size, room, share in zip(planes.shape[1:], labels.shape, (draw.down, draw.right), strict=True)
    )
    height, width = rows.stop - rows.start, columns.stop - columns.start
    shown = planes[:, top : top + height, left : left + width]
    if draw.flip:
        shown = shown[:, :, ::-1]
    # Each is one pass over the bytes: cut, flipped and converted.
    pixels[:, rows, columns], labels[rows, columns] = shown[:3], shown[3]
    return pixels[:, rows, columns]


def _overlap(size: int, room: int, share: float) -> tuple[int, slice]:
    """Along one axis: the first pixel that is shown, and where in the room the image is.

    >>> _overlap(10, 4, 0.99), _overlap(4, 4, 0.99), _overlap(3, 4, 0.99)
    ((6, slice(0, 4, None)), (0, slice(0, 4, None)), (0, slice(1, 4, None)))
    """
    place = int(share * (abs(size - room) + 1))
    return (place, slice(0, room)) if size >= room else (0, slice(place, place + size))
