"""scikit-learn's handwritten digits, 8 x 8: real pictures that come with a library."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from concrete_dropout.data.checks import fraction
from concrete_dropout.data.classification import ClassificationData
from concrete_dropout.data.pictures import LabelledPictures, PictureSet, PicturesInMemory
from concrete_dropout.data.splits import carve

BRIGHTEST = 16  # what the library's pictures have where ours have 255


class DigitsData(ClassificationData):
    """1797 pictures of the digits 0 to 9, split at random into training, validation and test part.

    Args:
        val_fraction: share of the pictures for validation; 0 for none.
        test_fraction: share of the pictures for the test; 0 for none.
        **loading: of ``ClassificationData``; its seed chooses the pictures of each part.

    >>> data = DigitsData(val_fraction=0.1, test_fraction=0.2)
    >>> data.spec.num_train, data.spec.input_shape, data.parts
    (1258, (1, 8, 8), ('train', 'val', 'test'))
    """

    def __init__(self, val_fraction: float = 0.1, test_fraction: float = 0.2, **loading: Any) -> None:
        super().__init__(**loading)
        self.fractions = {
            "data.val_fraction": fraction("data.val_fraction", val_fraction),
            "data.test_fraction": fraction("data.test_fraction", test_fraction),
        }

    def load(self) -> PictureSet:
        """Take the library's arrays and split them."""
        from sklearn.datasets import load_digits  # takes a second, and no other data need it

        digits = load_digits()
        pixels = np.rint(digits.images * (255 / BRIGHTEST)).astype(np.uint8)  # (N, 8, 8), 17 grey values
        whole = LabelledPictures(
            PicturesInMemory(torch.from_numpy(pixels).unsqueeze(1)), torch.from_numpy(digits.target.astype(np.int64))
        )
        val, test, train = (
            whole.some(rows) if len(rows) else None
            for rows in carve(len(whole), self.fractions, (self.seed,), "The set of digits")
        )
        assert train is not None  # carve keeps one
        return PictureSet(train, val, test, tuple(map(str, digits.target_names)))
