"""Bytes of pictures to what a network gets: standardised float32, and random flips and shifts in training."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Augment = Literal["none", "flip", "shift", "flip_shift"]
MAX_SHIFT = 1 / 8  # of the height and the width, but at least one pixel


@dataclass(frozen=True)
class PixelScale:
    """(pixel / 255 - mean) / std, channel by channel.

    Attributes:
        mean: C numbers, of pixels from 0 to 1.
        std: C numbers above 0.

    >>> PixelScale((0.5,), (0.25,))(torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1)).flatten()
    tensor([-2., 2.])
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, pixels: Tensor) -> Tensor:
        """Standardised float32 (B, C, H, W), from uint8 of the same shape."""
        mean, std = (torch.tensor(values, dtype=torch.float64).view(-1, 1, 1) for values in (self.mean, self.std))
        # Two passes in place over the new tensor: this runs for every batch.
        return pixels.float().mul_((1 / (255 * std)).float()).sub_((mean / std).float())


IMAGENET = PixelScale((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def fit_pixel_scale(chunks: Iterable[Tensor]) -> PixelScale:
    """Mean and standard deviation of each channel over all pixels of all chunks, uint8 (B, C, H, W).

    They come from exact counts of the 256 values, so that neither chunks nor threads change a digit. A channel
    without any contrast keeps its unit.

    >>> fit_pixel_scale([torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1)])
    PixelScale(mean=(0.5,), std=(0.5,))
    """
    counts = sum(torch.stack([torch.bincount(c.flatten(), minlength=256) for c in p.unbind(1)]) for p in chunks)
    assert isinstance(counts, Tensor), "there are no pictures to fit a scale on"
    values = torch.arange(256, dtype=torch.float64) / 255
    shares = counts / counts.sum(1, keepdim=True).double()  # (C, 256)
    mean = shares @ values
    std = (shares * (values - mean.unsqueeze(1)).square()).sum(1).sqrt()
    flat = (counts > 0).sum(1) == 1
    return PixelScale(tuple(mean.tolist()), tuple(std.masked_fill(flat, 1.0).tolist()))


def augmented(pixels: Tensor, augment: Augment, generator: torch.Generator) -> Tensor:
    """Each picture of (B, C, H, W) mirrored with probability 1/2 and/or shifted, all in one index operation.

    Shifts are uniform, up to an eighth of the height and width; the pixels at the edge fill what becomes free.
    """
    size, height, width = len(pixels), pixels.shape[2], pixels.shape[3]
    rows, columns = torch.arange(height).expand(size, -1), torch.arange(width).expand(size, -1)
    if augment in ("shift", "flip_shift"):
        rows, columns = _shifted(rows, generator), _shifted(columns, generator)
    if augment in ("flip", "flip_shift"):
        mirrored = torch.rand(size, 1, generator=generator) < 0.5
        columns = torch.where(mirrored, width - 1 - columns, columns)
    # (B, 1, 1), (B, H, 1), (B, 1, W) index (B, H, W, C)
    picked = pixels.permute(0, 2, 3, 1)[torch.arange(size)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return picked.permute(0, 3, 1, 2)


def batch_generator(rows: Tensor) -> torch.Generator:
    """A generator seeded by which rows make up a batch, and in which order.

    The order is random itself, and it is all that a resumed run or a worker process has to get right: there is no
    further state to restore.
    """
    return torch.Generator().manual_seed(zlib.crc32(rows.numpy().tobytes()))


def _shifted(positions: Tensor, generator: torch.Generator) -> Tensor:
    """Positions (B, L) moved by a whole number of pixels each, and held at the ends."""
    size, length = positions.shape
    most = max(1, int(length * MAX_SHIFT))
    return (positions + torch.randint(-most, most + 1, (size, 1), generator=generator)).clamp(0, length - 1)
