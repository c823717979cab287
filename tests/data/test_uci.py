"""The UCI sets: generated ones for what can go wrong, the real ones for what must be right."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from concrete_dropout.data import UCIData, num_splits
from concrete_dropout.data.uci_sets import BY_NAME, SETS
from concrete_dropout.errors import UserError

# Rows, features and splits, as the UCI repository and the paper give them.
SIZES = {
    "boston": (506, 13, 20),
    "concrete": (1030, 8, 20),
    "energy": (768, 8, 20),
    "kin8nm": (8192, 8, 20),
    "power": (9568, 4, 20),
    "protein": (45730, 9, 5),
    "wine": (1599, 11, 20),
    "yacht": (308, 6, 20),
    "naval": (11934, 16, 20),
}


@pytest.fixture
def tiny(tmp_path, write_set) -> Path:
    return write_set(tmp_path / "uci").parents[2]


def files_below(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]}


def test_the_rows_of_a_split(tiny):
    data = UCIData(tiny, "tiny", split=1, seed=4)
    before = files_below(tiny)
    tables = data.tables
    rows = np.loadtxt(tiny / "uci/tiny/data/index_train_1.txt")
    assert np.array_equal(tables.train.x, np.stack([rows, -rows], axis=1))
    assert np.array_equal(tables.train.y[:, 0], 10 * rows)
    assert tables.val is None
    assert tables.test is not None
    assert sorted([*tables.train.x[:, 0], *tables.test.x[:, 0]]) == list(range(12))
    assert (tables.feature_names, tables.target_names) == (("x0", "x1"), ("y",))
    assert data.num_splits == num_splits(tiny, "tiny") == 3
    assert files_below(tiny) == before


def test_validation_rows_come_from_the_training_rows(tiny):
    whole = UCIData(tiny, "tiny", split=2).tables
    carved = UCIData(tiny, "tiny", split=2, val_fraction=0.3).tables
    assert carved.val is not None
    assert len(carved.val) == 3
    assert np.array_equal(carved.test.x, whole.test.x)
    assert sorted([*carved.train.x[:, 0], *carved.val.x[:, 0]]) == sorted(whole.train.x[:, 0])


def test_validation_rows_follow_the_seed(tiny):
    def rows(seed: int) -> list[float]:
        return UCIData(tiny, "tiny", val_fraction=0.5, seed=seed).tables.val.x[:, 0].tolist()

    assert rows(1) == rows(1)
    assert len({tuple(rows(seed)) for seed in range(5)}) > 1


def test_scales_ignore_validation_and_test_rows(tiny):
    data = UCIData(tiny, "tiny", val_fraction=0.3)
    assert data.spec.targets.mean.item() == pytest.approx(data.tables.train.y.mean())
    assert data.spec.num_train == 7


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split": 3}, r"data\.split=3 does not exist: tiny has 3 splits, 0 to 2"),
        ({"split": -1}, r"data\.split=-1 must be a whole number of at least 0"),
        ({"split": 1.0}, r"data\.split=1\.0"),
        ({"val_fraction": 1.0}, r"data\.val_fraction=1\.0 must be a number from 0"),
        ({"val_fraction": 0.99}, r"tiny has 10 rows, of which data\.val_fraction=0\.99 takes 10: at least 1 must"),
        ({"name": "yatch"}, r"data\.name='yatch' is no UCI set.*boston, concrete.*Did you mean yacht\?"),
        ({"name": "../uci/tiny"}, r"data\.name='\.\./uci/tiny' is no UCI set"),
        ({"name": ""}, r"data\.name='' is no UCI set"),
        (
            {"name": "wine", "download": False},
            r"'wine' is not in .*wine-quality-red.data\. Set paths\.data_dir or .*DATA_DIR",
        ),
    ],
)
def test_wrong_settings_are_named(tiny, settings, message):
    with pytest.raises(UserError, match=message):
        UCIData(tiny, **{"name": "tiny", **settings}).setup()


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("data.txt", "1 2 3\n\n4 x 6\n", r"data\.txt, line 3: 'x' is not a number"),
        ("data.txt", "1 2 3\n4 5\n", r"data\.txt, line 2: 2 numbers, where the lines before have 3"),
        ("data.txt", "1 2 3\n4 nan 6\n", r"data\.txt, line 2: 'nan' is not finite"),
        ("data.txt", " \n", r"data\.txt is empty"),
        ("data.txt", b"\xff\xfe\x00", r"data\.txt is not a text file"),
        ("data.txt", "1 2\n3 4\n", r"index_target\.txt names 2, but data\.txt has 2 columns"),
        ("index_train_0.txt", "0\n12\n", r"index_train_0\.txt names 12, but data\.txt has 12 rows"),
        ("index_train_0.txt", "0\n1.5\n", r"index_train_0\.txt: 1\.5 is not a row or column number"),
        ("index_train_0.txt", "0\n-1\n", r"index_train_0\.txt: -1 is not a row"),
        ("index_train_0.txt", "0\n0\n", r"index_train_0\.txt names some rows twice"),
        ("index_train_0.txt", "\n".join(map(str, range(12))), r"split 0 has 2 rows in both"),
        ("index_features.txt", "0\n2\n", r"index_features\.txt names the target's column too"),
        ("n_splits.txt", "twenty", r"n_splits\.txt, line 1: 'twenty' is not a number"),
        ("n_splits.txt", "3 4", r"n_splits\.txt should have one number"),
        ("n_splits.txt", "0", r"n_splits\.txt should have one number"),
        *[
            (name, None, rf"{name} cannot be read \(No such file")
            for name in ("data.txt", "index_test_0.txt", "n_splits.txt")
        ],
    ],
)
def test_damaged_files_are_named(tiny, file, content, message):
    path = tiny / "uci/tiny/data" / file
    if content is None:
        path.unlink()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content)
    with pytest.raises(UserError, match=message):
        UCIData(tiny, "tiny").setup()


def test_index_files_may_have_floats(tiny):
    path = tiny / "uci/tiny/data/index_target.txt"
    path.write_text("2.000000000000000000e+00\n")
    assert UCIData(tiny, "tiny").spec.num_outputs == 1


def test_there_are_nine_sets_with_different_names():
    assert {entry.name for entry in SETS} == set(SIZES)
    assert len({entry.sha256 for entry in SETS}) == 9
    assert all(BY_NAME[entry.name] is BY_NAME[entry.folder] is entry for entry in SETS)


@pytest.mark.parametrize("name", SIZES)
def test_real_sets(real_data_dir, name):
    num_rows, num_features, splits = SIZES[name]
    folder = real_data_dir / "uci" / BY_NAME[name].folder / "data"
    values = np.loadtxt(folder / "data.txt")
    assert hashlib.sha256((folder / "data.txt").read_bytes()).hexdigest() == BY_NAME[name].sha256
    assert num_splits(real_data_dir, name) == splits

    data = UCIData(real_data_dir, name, split=splits - 1, val_fraction=0.1, download=False)
    tables, spec = data.tables, data.spec
    assert len(tables.train) + len(tables.val) + len(tables.test) == num_rows
    assert (spec.num_inputs, spec.num_outputs) == (num_features, 1)
    assert spec.feature_names == BY_NAME[name].features
    assert spec.target_names == (BY_NAME[name].target,)
    test_rows = np.loadtxt(folder / f"index_test_{splits - 1}.txt", dtype=int)
    assert np.array_equal(tables.test.x, values[test_rows][:, :num_features])
    assert np.array_equal(tables.test.y[:, 0], values[test_rows][:, num_features])
    x, y = data.tensors("train")
    assert y.mean().item() == pytest.approx(0, abs=1e-5)
    assert y.std(correction=0).item() == pytest.approx(1, abs=1e-5)
    assert x.mean(0).abs().max() < 1e-4
    variances = x.double().var(0, correction=0)
    # naval has two constant columns
    assert ((variances - 1).abs() < 1e-4).sum() == num_features - (2 if name == "naval" else 0)
    assert (variances < 0.5).sum() == (2 if name == "naval" else 0)
    assert torch.equal(x[:, variances < 0.5], torch.zeros(len(x), int((variances < 0.5).sum())))


def test_a_set_by_its_folder_name(real_data_dir):
    data = UCIData(real_data_dir, "wine-quality-red", download=False)
    assert data.spec.feature_names[-1] == "alcohol"
    # The ranges that the UCI repository gives.
    values = np.concatenate([data.tables.train.x, data.tables.test.x])[:, -1]
    assert (values.min(), values.max()) == (8.4, 14.9)
