"""CamVid: a generated set in its layout for what can go wrong, the real one for what must be right."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from concrete_dropout.data.camvid import CamVidData
from concrete_dropout.data.camvid_download import content_sha256
from concrete_dropout.data.camvid_sets import CAMVID_LABELS, CLASSES, CONTENT_SHA256, camvid_pairs
from concrete_dropout.data.label_files import read_mask
from concrete_dropout.data.labelled_images import VOID
from concrete_dropout.errors import UserError

COUNTS = {"train": 3, "val": 1, "test": 2}
# Shares of the classes in the training part as the data set's users give them, from Sky to Bicyclist.
SHARES = [0.17, 0.23, 0.01, 0.32, 0.045, 0.10, 0.012, 0.011, 0.059, 0.0064, 0.0029]


@pytest.fixture
def data_dir(tmp_path) -> Path:
    """Images of 6 x 8 pixels whose order in the lists is not that of their names."""
    random, folder = np.random.default_rng(0), tmp_path / "data/camvid"
    for part, count in COUNTS.items():
        lines = []
        for number in reversed(range(count)):
            name = f"{part}_{number}.png"
            for kind, size in (("", (6, 8, 3)), ("annot", (6, 8))):
                (folder / f"{part}{kind}").mkdir(parents=True, exist_ok=True)
                pixels = random.integers(0, 256 if kind == "" else 12, size, dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{part}{kind}" / name)
            lines.append(f"/SegNet/CamVid/{part}/{name} /SegNet/CamVid/{part}annot/{name}")
        (folder / f"{part}.txt").write_text("\n".join(lines) + "\n")
    return folder.parent


def make(data_dir: Path, **settings) -> CamVidData:
    return CamVidData(data_dir, **{"crop": 4, "batch_size": 2, **settings})


def test_images_are_found_by_name_in_the_order_of_the_lists(data_dir):
    data = make(data_dir)
    assert [data.name("train", number) for number in range(3)] == ["train_2", "train_1", "train_0"]
    for part, count in COUNTS.items():
        assert data.num_images(part) == count
        for number in range(count):
            name = f"{data.name(part, number)}.png"
            assert np.array_equal(data.image(part, number), np.asarray(Image.open(data_dir / "camvid" / part / name)))
            labels = np.asarray(Image.open(data_dir / "camvid" / f"{part}annot" / name))
            assert np.array_equal(data.mask(part, number), np.where(labels == 11, VOID, labels))
    assert data.spec.num_train == 3 * 48
    assert data.spec.class_names == tuple(CLASSES)
    (place,) = (data_dir / "cache").iterdir()
    assert place.name.startswith("camvid-")


def test_lists_may_be_one_line_and_masks_have_other_names(data_dir):
    folder = data_dir / "camvid"
    for path in (folder / "trainannot").iterdir():
        path.rename(path.with_name(f"annot_{path.name}"))
    names = [f"/x/train_{number}.png /y/annot_train_{number}.png" for number in range(3)]
    (folder / "train.txt").write_text(" ".join(names))
    assert make(data_dir).num_images("train") == 3


def test_only_the_cache_is_written(data_dir, tmp_path):
    folder = data_dir / "camvid"
    before = {path: path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]}
    make(data_dir, cache_dir=tmp_path / "elsewhere").setup()
    assert {path: path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]} == before
    assert not (data_dir / "cache").exists()
    assert list((tmp_path / "elsewhere").iterdir())


def test_both_resolutions_have_a_cache(data_dir):
    assert make(data_dir, scale=0.5).spec.image_size == (3, 4)
    assert make(data_dir).spec.image_size == (6, 8)
    (place,) = (data_dir / "cache").iterdir()
    assert len([path for path in place.iterdir() if path.is_dir()]) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "val.txt").write_text(" \n"), r"val\.txt names no images"),
        (lambda folder: (folder / "val.txt").write_text("a.png\n"), r"val\.txt should name images and masks in turn"),
        (lambda folder: (folder / "val.txt").write_bytes(b"\xff\xfe"), r"val\.txt cannot be read \(not a text file\)"),
        (lambda folder: (folder / "val.txt").unlink(), r"camvid lacks some of the lists train\.txt, val\.txt and test"),
        (
            lambda folder: (folder / "test/test_1.png").unlink(),
            r"test\.txt names test_1\.png, but there is no .*camvid/",
        ),
        (
            lambda folder: (folder / "testannot/test_1.png").unlink(),
            r"test\.txt names test_1\.png, but there is no .*annot",
        ),
        (lambda folder: (folder / "test/test_1.png").write_bytes(b""), r"test/test_1\.png cannot be read as an image"),
        (
            lambda folder: Image.fromarray(np.zeros((6, 9), np.uint8)).save(folder / "valannot/val_0.png"),
            r"val/val_0\.png has 8 x 6 pixels, but its mask .*valannot/val_0\.png has 9 x 6",
        ),
        (
            lambda folder: Image.fromarray(np.full((6, 8), 12, np.uint8)).save(folder / "valannot/val_0.png"),
            r"valannot/val_0\.png has the label 12 ",
        ),
    ],
)
def test_what_is_wrong_is_named(data_dir, change, message):
    change(data_dir / "camvid")
    with pytest.raises(UserError, match=message):
        make(data_dir).setup()


def test_a_missing_set_without_download(tmp_path):
    with pytest.raises(
        UserError, match=r"CamVid is not in .*camvid \(paths\.data_dir, .* or copy the folder CamVid of"
    ):
        make(tmp_path, download=False).setup()


@pytest.fixture(scope="module")
def real_data_dir() -> Path:
    folder = os.environ.get("DATA_DIR")
    if not folder or not (Path(folder) / "camvid").is_dir():
        pytest.skip("the environment variable DATA_DIR names no folder with CamVid")
    return Path(folder)


@pytest.fixture(scope="module")
def real(real_data_dir, tmp_path_factory) -> CamVidData:
    return CamVidData(real_data_dir, cache_dir=tmp_path_factory.mktemp("cache"), scale=0.5, crop=128, download=False)


def test_the_real_set(real):
    assert {part: real.num_images(part) for part in real.parts} == {"train": 367, "val": 101, "test": 233}
    assert real.spec.image_size == (180, 240)
    assert real.spec.num_train == 367 * 180 * 240
    counts = sum(np.bincount(real.mask("train", number).reshape(-1), minlength=256) for number in range(367))
    shares = counts / counts.sum()
    assert shares[:11] == pytest.approx(SHARES, rel=0.1)
    assert shares[VOID] == pytest.approx(0.04, abs=0.005)
    assert (shares[11:VOID] == 0).all()
    assert real.name("val", 0) == "0016E5_07959"


def test_the_real_road_is_below_the_real_sky(real):
    """Labels that were read through the wrong table would be anywhere."""
    masks = np.stack([real.mask("test", number) for number in range(0, 233, 10)])
    rows = {name: np.nonzero(masks == number)[1].mean() for number, name in enumerate(real.spec.class_names)}
    assert rows["Sky"] < rows["Building"] < rows["Car"] < rows["Road"]


def test_the_real_files_are_read_as_pillow_shows_them(real_data_dir):
    """An independent way: what a mask looks like in grey is what it means."""
    pairs = camvid_pairs(real_data_dir / "camvid")
    for pair in (pairs["train"][0], pairs["val"][50], pairs["test"][-1]):
        grey = np.asarray(Image.open(pair.mask).convert("RGB"))[..., 0]
        assert np.array_equal(read_mask(pair.mask, CAMVID_LABELS), np.where(grey == 11, VOID, grey))


@pytest.mark.slow
def test_the_real_set_is_the_published_one(real_data_dir):
    assert content_sha256(real_data_dir / "camvid") == CONTENT_SHA256
