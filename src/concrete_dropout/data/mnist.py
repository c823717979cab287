"""MNIST: handwritten digits, 28 x 28 (section 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from concrete_dropout.data.checks import whole_number
from concrete_dropout.data.classification import ClassificationData
from concrete_dropout.data.idx_file import read_idx
from concrete_dropout.data.mnist_download import (
    MIRRORS,
    fetch_missing,
    find_file,
    missing_files,
    ways_out,
    what_is_missing,
)
from concrete_dropout.data.pictures import LabelledPictures, PictureSet, PicturesInMemory
from concrete_dropout.errors import UserError

NUM_CLASSES = 10
PREFIXES = {"train": "train", "test": "t10k"}


class MNISTData(ClassificationData):
    """The official files, or others of the same form; ``<data_dir>/mnist`` has them, compressed by gzip or not.

    The official test set is the test part. Validation pictures are taken from the official training set.

    Args:
        data_dir: the folder of all data. What is complete is only read, so that it may be read-only.
        val_size: how many of the training pictures are for validation, chosen by the seed; 0 for none.
        download: fetch missing files from the network.
        mirrors: where from: addresses that are tried one after the other; None for the well-known ones.
        **loading: of ``ClassificationData``.
    """

    def __init__(
        self,
        data_dir: str | Path,
        val_size: int = 10_000,
        download: bool = True,
        mirrors: Sequence[str] | None = None,
        **loading: Any,
    ) -> None:
        super().__init__(**loading)
        self.folder = Path(data_dir).expanduser() / "mnist"
        self.val_size = whole_number("data.val_size", val_size, minimum=0)
        self.download, self.mirrors = download, MIRRORS if mirrors is None else tuple(mirrors)

    def prepare_data(self) -> None:
        """Lightning's hook, in one process only: have the files in place."""
        if not self.download and missing_files(self.folder):
            raise UserError(
                f"{what_is_missing(self.folder)} {ways_out(self.folder, self.mirrors)}, or data.download=true to fetch "
                "them."
            )
        fetch_missing(self.folder, self.mirrors)

    def load(self) -> PictureSet:
        """Read the files and split the training set."""
        self.prepare_data()
        whole, test = read_mnist(self.folder, "train"), read_mnist(self.folder, "test")
        if whole.pictures.shape != test.pictures.shape:
            raise UserError(
                f"{self.folder}: training pictures (C, H, W) are {whole.pictures.shape}, test pictures "
                f"{test.pictures.shape}. Are the files of one data set?"
            )
        if self.val_size >= len(whole):
            raise UserError(
                f"data.val_size={self.val_size} leaves no picture for training: there are {len(whole)}. Lower it."
            )
        order = np.random.default_rng(self.seed).permutation(len(whole))
        val, train = np.sort(order[: self.val_size]), np.sort(order[self.val_size :])
        names = tuple(map(str, range(NUM_CLASSES)))
        return PictureSet(whole.some(train), whole.some(val) if len(val) else None, test, names)


def read_mnist(folder: Path, part: str) -> LabelledPictures:
    """The official "train" or "test" pictures."""
    images, labels = (find_file(folder, f"{PREFIXES[part]}-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1"))
    assert images is not None, "the files are in place"
    assert labels is not None, "the files are in place"
    pixels, classes = read_idx(images, num_axes=3), read_idx(labels, num_axes=1)
    if len(pixels) != len(classes):
        raise UserError(f"{images} has {len(pixels)} pictures, but {labels} has {len(classes)} labels.")
    if classes.max() >= NUM_CLASSES:
        raise UserError(f"{labels} has the label {classes.max()}; the digits are 0 to {NUM_CLASSES - 1}.")
    # A copy each: what is read from bytes cannot be written to, and torch warns about that.
    return LabelledPictures(
        PicturesInMemory(torch.from_numpy(pixels.copy()).unsqueeze(1)), torch.from_numpy(classes.astype(np.int64))
    )
