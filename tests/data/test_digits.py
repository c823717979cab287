"""scikit-learn's digits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from concrete_dropout.data.digits import DigitsData
from concrete_dropout.errors import UserError


def everything(data: DigitsData) -> tuple[np.ndarray, np.ndarray]:
    parts = [getattr(data.pictures, part) for part in data.parts]
    pixels = torch.cat([part.pictures.take(torch.arange(len(part))) for part in parts])
    return pixels[:, 0].numpy(), torch.cat([part.labels for part in parts]).numpy()


def test_every_picture_is_in_one_part_with_its_label():
    data = DigitsData(val_fraction=0.1, test_fraction=0.2)
    assert [len(getattr(data.pictures, part)) for part in data.parts] == [1258, 180, 359]
    assert data.spec.class_names == tuple("0123456789")
    original = load_digits()
    pixels, labels = everything(data)
    ours = sorted(
        (int(label), (image / 255 * 16).round().tolist()) for image, label in zip(pixels, labels, strict=True)
    )
    theirs = sorted((int(label), image.tolist()) for image, label in zip(original.images, original.target, strict=True))
    assert ours == theirs
    assert (pixels.min(), pixels.max()) == (0, 255)


def test_parts_follow_the_seed():
    def labels(seed: int) -> tuple[int, ...]:
        return tuple(DigitsData(seed=seed).pictures.test.labels.tolist())

    assert labels(3) == labels(3)
    assert len({labels(seed) for seed in range(4)}) == 4


def test_parts_can_be_left_out():
    data = DigitsData(val_fraction=0, test_fraction=0, train_size=100)
    assert data.parts == ("train",)
    assert data.spec.num_train == 100
    assert data.image("train", 0).shape == (8, 8)


def test_wrong_fractions_are_named():
    with pytest.raises(UserError, match=r"data\.test_fraction=1 must be a number from 0"):
        DigitsData(test_fraction=1)
    with pytest.raises(UserError, match=r"The set of digits has 1797 rows, of which data\.val_fraction=0\.6"):
        DigitsData(val_fraction=0.6, test_fraction=0.5).setup()
