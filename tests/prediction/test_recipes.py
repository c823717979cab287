"""Recipes of every data set survive a checkpoint, and know what the data module knew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.vision_files import write_camvid, write_mnist

from concrete_dropout.data import CamVidData, DigitsData, MNISTData, ScenesData, SyntheticData
from concrete_dropout.data.recipes import read_recipe, recipe_of
from concrete_dropout.scaling import Affine


def made(name: str, folder: Path) -> Any:
    rng = np.random.default_rng(0)
    if name == "mnist":
        write_mnist(folder / "mnist", rng)
        return MNISTData(folder, val_size=20)
    if name == "camvid":
        write_camvid(folder / "camvid", rng)
        return CamVidData(folder, crop=32, scale=0.5, normalise="standardise", cache_dir=folder / "cache")
    if name == "scenes":
        return ScenesData(num_train=2, num_val=1, num_test=0, height=40, width=60, crop=None)
    return SyntheticData(num_data=10) if name == "synthetic" else DigitsData()


@pytest.mark.parametrize("name", ["synthetic", "digits", "mnist", "scenes", "camvid"])
def test_a_recipe_knows_what_the_data_know(name: str, tmp_path: Path) -> None:
    data = made(name, tmp_path)
    recipe = recipe_of(data)
    assert recipe is not None
    torch.save(recipe.plain(), tmp_path / "recipe")
    read = read_recipe(torch.load(tmp_path / "recipe", weights_only=True))
    assert read == recipe
    assert read.example_input.shape == data.example_input.shape
    for key, value in vars(data.spec).items():
        if not isinstance(value, Affine) and key != "num_images":
            assert getattr(read.spec, key) == value


def test_other_data_have_none() -> None:
    assert recipe_of(None) is None
