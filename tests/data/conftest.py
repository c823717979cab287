"""A small set in the layout of the published UCI splits, and the real ones where they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

NUM_ROWS, NUM_SPLITS = 12, 3


@pytest.fixture
def write_set() -> Callable[..., Path]:
    """Writes a set of 12 rows, 2 features and 3 splits; row r is (r, -r, 10 r), its target the last column."""

    def write(home: Path, folder: str = "tiny") -> Path:
        data = home / folder / "data"
        data.mkdir(parents=True)
        (data / "data.txt").write_text("".join(f"{r}.0 \t{-r} {10 * r}e0 \n" for r in range(NUM_ROWS)) + "\n")
        (data / "index_features.txt").write_text("0\n1\n")
        (data / "index_target.txt").write_text("2\n")
        (data / "n_splits.txt").write_text(f"{NUM_SPLITS}\n")
        for split in range(NUM_SPLITS):
            order = np.random.default_rng(split).permutation(NUM_ROWS)
            (data / f"index_train_{split}.txt").write_text("".join(f"{row}\n" for row in order[2:]))
            (data / f"index_test_{split}.txt").write_text("".join(f"{row}\n" for row in order[:2]))
        return data

    return write


@pytest.fixture(scope="session")
def real_data_dir() -> Path:
    folder = os.environ.get("DATA_DIR")
    if not folder or not (Path(folder) / "uci").is_dir():
        pytest.skip("the environment variable DATA_DIR names no folder with the UCI sets")
    return Path(folder)
