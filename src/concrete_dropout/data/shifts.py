"""Inputs that are not those of the data: corrupted, replaced, or of another data set.

Corruptions of pictures work on pixels from 0 to 1. Networks get standardised ones, so there is a way there and back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from concrete_dropout.data.base import ExperimentData, Part
from concrete_dropout.data.classification import ClassificationData
from concrete_dropout.data.corruptions import PICTURES, ROWS, corrupted, rotated
from concrete_dropout.data.regression import RegressionData
from concrete_dropout.data.segmentation import SegmentationData
from concrete_dropout.errors import UserError

NO_LABELS = ("rotation",)  # corruptions of pictures under which the labels of pixels no longer hold
REPLACEMENTS = {"noise": "generated noise", "inverted": "bright for dark", "rotated": "turned by 90 degrees"}
NOISE_FACTOR = 3.0  # standard deviations of generated rows, in those of the training part
VOID_CLASS = -1


@dataclass(frozen=True, eq=False)
class PixelSpace:
    """Between what a network gets and pixels from 0 to 1; mean and std (C, 1, 1).

    >>> space = PixelSpace(torch.full((1, 1, 1), 0.5), torch.full((1, 1, 1), 0.25))
    >>> space.pixels(torch.tensor([[[[-2.0, 0.0]]]])), space.standardised(torch.tensor([[[[1.0]]]]))
    (tensor([[[[0.0000, 0.5000]]]]), tensor([[[[2.]]]]))
    """

    mean: Tensor
    std: Tensor

    def pixels(self, x: Tensor) -> Tensor:
        """(B, C, H, W) from 0 to 1."""
        return (x * self.std.to(x) + self.mean.to(x)).clamp(0, 1)

    def standardised(self, pixels: Tensor) -> Tensor:
        """(B, C, H, W) as the network gets them."""
        return (pixels - self.mean.to(pixels)) / self.std.to(pixels)


def pixel_space(data: ExperimentData) -> PixelSpace | None:
    """That of a data set of pictures; None of rows."""
    if isinstance(data, ClassificationData):
        mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (data.scale.mean, data.scale.std))
        return PixelSpace(mean, std)
    if isinstance(data, SegmentationData):
        scale = data.items("train").standardise
        if scale is None:
            return PixelSpace(torch.zeros(3, 1, 1), torch.ones(3, 1, 1))
        return PixelSpace(torch.from_numpy(scale.mean), torch.from_numpy(scale.std))
    return None


def corruption_names(data: ExperimentData) -> tuple[str, ...]:
    """The corruptions that fit a data set, under which its labels stay true."""
    if isinstance(data, RegressionData):
        return tuple(ROWS)
    return tuple(name for name in PICTURES if not (isinstance(data, SegmentationData) and name in NO_LABELS))


def corrupt_batch(data: ExperimentData, x: Tensor, name: str, severity: int, seed: int, number: int) -> Tensor:
    """Inputs as a network gets them, under a corruption."""
    space = pixel_space(data)
    if space is None:
        return corrupted(x, name, severity, seed, number)
    return space.standardised(corrupted(space.pixels(x), name, severity, seed, number))


def replace_batch(data: ExperimentData, x: Tensor, name: str, seed: int, number: int) -> Tensor:
    """Inputs of the same shape that are none of the data's: one of ``REPLACEMENTS``."""
    space = pixel_space(data)
    generator = torch.Generator().manual_seed(seed * 1_000_003 + number)
    if space is None:
        return NOISE_FACTOR * torch.randn(x.shape, generator=generator).to(x)
    if name == "noise":
        return space.standardised(torch.rand(x.shape, generator=generator).to(x))
    pixels = space.pixels(x)
    if name == "inverted":
        return space.standardised(1 - pixels)
    return space.standardised(rotated(pixels, torch.full((len(x),), torch.pi / 2).to(x)))


class OtherData:
    """Another data set as inputs for a network that was trained on ours; its labels mean nothing here.

    Pictures are made grey or coloured, and resized. Rows must have as many columns, and are taken in original units.

    Args:
        data: the other data set; its test part is taken, or the last one that there is.
        most: items that are taken, evenly spread over the part; None for all.
    """

    def __init__(self, data: ExperimentData, most: int | None = None) -> None:
        self.data = data
        self.part: Part = data.parts[-1]
        self.most = most

    def __len__(self) -> int:
        whole = len(self._items())
        return whole if self.most is None else min(self.most, whole)

    def num_batches(self, own: ExperimentData) -> int:
        """How many there will be."""
        return -(-len(self) // _batch_rows(own))

    def batches(self, own: ExperimentData) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches (x, y) for networks that were trained on ``own``, of its size; y is void, or 0 for regression."""
        items, number = self._items(), len(self)
        chosen = [index * len(items) // number for index in range(number)]
        for start in range(0, number, _batch_rows(own)):
            yield self._adapted(own, *items.__getitems__(chosen[start : start + _batch_rows(own)]))

    def _items(self) -> Any:
        assert isinstance(self.data, RegressionData | ClassificationData | SegmentationData)
        return self.data.items(self.part)

    def _adapted(self, own: ExperimentData, x: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
        if isinstance(own, RegressionData) and isinstance(self.data, RegressionData):
            if x.shape[1] != own.spec.num_inputs:
                raise UserError(
                    f"ood: the other data have {x.shape[1]} columns, the network takes {own.spec.num_inputs}"
                )
            original = self.data.spec.inputs.restore(x)
            return own.spec.inputs.normalise(original), torch.zeros(len(x), own.spec.num_outputs)
        theirs, ours = pixel_space(self.data), pixel_space(own)
        if theirs is None or ours is None:
            raise UserError("ood: pictures are no rows of numbers: choose another data set of the same kind")
        shape = own.example_input.shape[1:]
        size = own.spec.image_size if isinstance(own, SegmentationData) else tuple(shape[1:])
        pixels = F.interpolate(_with_channels(theirs.pixels(x), shape[0]), size, mode="bilinear", antialias=True)
        labels = (len(x), *size) if isinstance(own, SegmentationData) else (len(x),)
        return ours.standardised(pixels.clamp(0, 1)), torch.full(labels, VOID_CLASS)


def _batch_rows(own: ExperimentData) -> int:
    return int(getattr(own, "eval_batch_size", 1000))


def _with_channels(pixels: Tensor, channels: int) -> Tensor:
    """Grey from colours, or the same grey in all of them."""
    if pixels.shape[1] == channels:
        return pixels
    return pixels.mean(1, keepdim=True).expand(-1, channels, -1, -1)
