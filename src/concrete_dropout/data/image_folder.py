"""The user's own pictures: a folder per class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import torch

from concrete_dropout.data.base import Part
from concrete_dropout.data.checks import choice, fraction, whole_number
from concrete_dropout.data.class_folders import Files, find_pictures
from concrete_dropout.data.classification import ClassificationData
from concrete_dropout.data.decoding import PicturesOnDisk, check_all, decode_all
from concrete_dropout.data.picture_file import Channels
from concrete_dropout.data.pictures import LabelledPictures, Pictures, PictureSet, PicturesInMemory
from concrete_dropout.data.pixels import IMAGENET
from concrete_dropout.data.splits import carve
from concrete_dropout.errors import UserError

Normalise = Literal["train", "imagenet"]
BYTES_PER_MB = 10**6


class ImageFolderData(ClassificationData):
    """Pictures under ``<root>/train/<class>``, and ``val`` and ``test`` beside it; or all under ``<root>/<class>``.

    A part that has no folder is carved at random out of the training pictures. Pictures are turned upright as their
    metadata say, transparent ones laid on white, 16 bits reduced to 8, and all resized without regard to their
    proportions.

    Args:
        root: the folder.
        image_size: H = W, or [H, W].
        channels: 1 makes all pictures grey, 3 red, green and blue.
        val_fraction: share of the training pictures for validation, unless there is a folder; 0 for none.
        test_fraction: share of the training pictures for the test, unless there is a folder; 0 for none.
        normalise: "train" standardises the pixels by the training part; where pictures do not fit into memory, by
            2000 of them. "imagenet" uses the numbers that most pretrained networks expect.
        cache_mb: keep the decoded pictures in memory if all parts together take no more than this. Beyond it, every
            batch decodes its pictures again, which ``num_workers`` processes do ahead of training.
        **loading: of ``ClassificationData``; its seed chooses the pictures of carved parts.
    """

    def __init__(
        self,
        root: str | Path,
        image_size: int | Sequence[int] = 64,
        channels: Channels = 3,
        val_fraction: float = 0.1,
        test_fraction: float = 0.1,
        normalise: Normalise = "train",
        cache_mb: int = 2000,
        **loading: Any,
    ) -> None:
        super().__init__(**loading)
        self.root = Path(root).expanduser()
        self.image_size = _size(image_size)
        if channels not in get_args(Channels):
            raise UserError(f"data.channels={channels!r} must be 1 (grey) or 3 (red, green and blue).")
        self.channels = channels
        self.fractions: dict[Part, tuple[str, float]] = {
            "val": ("data.val_fraction", fraction("data.val_fraction", val_fraction)),
            "test": ("data.test_fraction", fraction("data.test_fraction", test_fraction)),
        }
        self.normalise = cast(Normalise, choice("data.normalise", normalise, get_args(Normalise)))
        if self.normalise == "imagenet" and channels != len(IMAGENET.mean):
            raise UserError(f"data.normalise=imagenet needs data.channels=3, not {channels}.")
        self.cache_mb = whole_number("data.cache_mb", cache_mb, minimum=0)

    def load(self) -> PictureSet:
        """Find the files, decode them if they fit into memory, and carve the parts that have no folder."""
        names, files = find_pictures(self.root)
        num_files = sum(len(entries.paths) for entries in files.values())
        in_memory = num_files * self.channels * self.image_size[0] * self.image_size[1] <= self.cache_mb * BYTES_PER_MB
        parts: dict[Part, LabelledPictures | None] = {
            part: self._labelled(entries, in_memory) for part, entries in files.items()
        }
        whole = parts["train"]
        assert whole is not None
        carved = [part for part in self.fractions if part not in parts]
        shares = dict(self.fractions[part] for part in carved)
        rows = carve(len(whole), shares, (self.seed,), str(self.root), keep=2, unit="pictures")
        for part, own in zip(carved, rows, strict=False):  # what remains comes last
            parts[part] = whole.some(own) if len(own) else None
        scale = IMAGENET if self.normalise == "imagenet" else None
        return PictureSet(whole.some(rows[-1]), parts["val"], parts["test"], names, scale)

    def _labelled(self, files: Files, in_memory: bool) -> LabelledPictures:
        pictures: Pictures
        if in_memory:
            pictures = PicturesInMemory(decode_all(files.paths, self.image_size, self.channels))
        else:
            check_all(files.paths)
            pictures = PicturesOnDisk(files.paths, self.image_size, self.channels)
        names = [path.relative_to(self.root).as_posix() for path in files.paths]
        return LabelledPictures(pictures, torch.from_numpy(np.array(files.labels, dtype=np.int64)), names)


def _size(image_size: int | Sequence[int]) -> tuple[int, int]:
    """(H, W), from one number or two."""
    sides = list(image_size) if isinstance(image_size, Sequence) else [image_size, image_size]
    if len(sides) != 2:
        raise UserError(f"data.image_size={image_size!r} must be a whole number, or two as in [48,64] (height, width).")
    height, width = (whole_number("data.image_size", side, minimum=1) for side in sides)
    return height, width
