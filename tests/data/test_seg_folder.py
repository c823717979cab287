"""Folders of images and masks as users have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from concrete_dropout.data.labelled_images import VOID
from concrete_dropout.data.seg_folder import SegFolderData, match
from concrete_dropout.errors import UserError

CLASSES = ["road", "car", "sky"]
COLOURS = np.array([[10, 20, 30], [40, 50, 60], [70, 80, 90], [0, 0, 0]], np.uint8)


def fill(images: Path, masks: Path, count: int, first: int = 0, mask_suffix: str = "", colours: bool = False) -> None:
    """Images of changing sizes; the labels are 0 to 2, or colours, of which the last does not count."""
    images.mkdir(parents=True)
    masks.mkdir(parents=True)
    for number in range(first, first + count):
        random, size = np.random.default_rng(number), (10 + number % 3, 12)
        Image.fromarray(random.integers(0, 256, (*size, 3), dtype=np.uint8)).save(images / f"im{number}.jpg")
        labels = random.integers(0, 4 if colours else 3, size, dtype=np.uint8)
        Image.fromarray(COLOURS[labels] if colours else labels).save(masks / f"im{number}{mask_suffix}.png")


@pytest.fixture
def root(tmp_path) -> Path:
    """Four, two and three images."""
    root = tmp_path / "mine"
    for part, count, first in (("train", 4, 0), ("val", 2, 4), ("test", 3, 6)):
        fill(root / part / "images", root / part / "masks", count, first)
    return root


@pytest.fixture
def flat(tmp_path) -> Path:
    root = tmp_path / "flat"
    fill(root / "images", root / "masks", 20)
    return root


def make(root: Path, **settings) -> SegFolderData:
    return SegFolderData(root, root.parent / "data", **{"classes": CLASSES, "crop": 8, **settings})


def names(data: SegFolderData, part: str) -> list[str]:
    return [data.name(part, number) for number in range(data.num_images(part))]


def test_folders_of_three_parts(root):
    data = make(root)
    assert [names(data, part) for part in ("train", "val", "test")] == [
        ["im0", "im1", "im2", "im3"],
        ["im4", "im5"],
        ["im6", "im7", "im8"],
    ]
    assert data.spec.class_names == ("road", "car", "sky")
    assert data.spec.image_size == (12, 12)
    assert np.array_equal(data.mask("val", 1), np.asarray(Image.open(root / "val/masks/im5.png")))
    assert np.array_equal(data.image("val", 1), np.asarray(Image.open(root / "val/images/im5.jpg")))
    assert next(iter(data.train_dataloader()))[0].shape == (3, 3, 8, 8)


def test_parts_inside_of_the_folders(root, tmp_path):
    other = tmp_path / "other"
    for part in ("train", "val"):
        for kind, name in (("images", "pictures"), ("masks", "labels")):
            (other / name).mkdir(parents=True, exist_ok=True)
            (root / part / kind).rename(other / name / part)
    data = make(other, image_dir="pictures", mask_dir="labels", test_fraction=0)
    assert data.parts == ("train", "val")
    assert names(data, "val") == ["im4", "im5"]


def test_other_names_of_parts_and_masks(tmp_path):
    root = tmp_path / "mine"
    fill(root / "training/images", root / "training/masks", 3, mask_suffix="_mask")
    fill(root / "valid/images", root / "valid/masks", 1, first=3, mask_suffix="_mask")
    data = make(root, train_dir="training", val_dir="valid", mask_suffix="_mask", test_fraction=0)
    assert names(data, "train") == ["im0", "im1", "im2"]
    assert names(data, "val") == ["im3"]


def test_missing_parts_are_carved_by_the_seed(flat):
    first, again, other = (make(flat, val_fraction=0.2, test_fraction=0.1, seed=seed) for seed in (0, 0, 1))
    parts = [names(first, part) for part in ("train", "val", "test")]
    assert [len(part) for part in parts] == [14, 4, 2]
    assert sorted(name for part in parts for name in part) == sorted(f"im{number}" for number in range(20))
    assert [names(again, part) for part in ("train", "val", "test")] == parts
    assert names(other, "val") != parts[1]
    # One cache for all seeds.
    (place,) = (flat.parent / "data/cache").iterdir()
    assert len([path for path in place.iterdir() if path.is_dir()]) == 1


def test_only_what_is_missing_is_carved(root):
    for path in (root / "test").rglob("*.*"):
        path.unlink()
    (root / "test/images").rmdir()
    (root / "test/masks").rmdir()
    data = make(root, test_fraction=0.25, val_fraction=0.5)
    assert [data.num_images(part) for part in ("train", "val", "test")] == [3, 2, 1]
    assert names(data, "val") == ["im4", "im5"]
    assert make(root, test_fraction=0).parts == ("train", "val")


def test_colour_coded_masks_and_a_class_list_in_the_root(tmp_path):
    root = tmp_path / "mine"
    fill(root / "images", root / "masks", 6, colours=True)
    (root / "classes.csv").write_text("name,r,g,b\nroad,10,20,30\ncar,40,50,60\nsky,70,80,90\nother,0,0,0\n")
    data = make(root, classes=None, void=["other"])
    assert data.spec.class_names == ("road", "car", "sky")
    assert data.spec.class_colours == ((10, 20, 30), (40, 50, 60), (70, 80, 90))
    for number, name in enumerate(names(data, "train")):
        colours = np.asarray(Image.open(root / f"masks/{name}.png"))
        expected = np.argmax((colours[..., None, :] == COLOURS).all(-1), axis=-1)
        assert np.array_equal(data.mask("train", number), np.where(expected == 3, VOID, expected))


def test_label_values_of_a_class_file(flat):
    path = flat.parent / "list.txt"
    path.write_text("sky,2\nroad,0\n")
    data = make(flat, classes=str(path), void=[1])
    assert data.spec.class_names == ("sky", "road")
    labels = np.asarray(Image.open(flat / f"masks/{data.name('train', 0)}.png"))
    assert np.array_equal(data.mask("train", 0), np.array([1, VOID, 0])[labels])


def test_other_files_do_not_disturb(root):
    for name in (".DS_Store", "Thumbs.db", "notes.txt", ".im0.png"):
        (root / "train/images" / name).write_text("")
    assert make(root).num_images("train") == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda root: (root / "val/masks/im5.png").unlink(),
            r"val/images/im5\.jpg has no mask: .*val/masks has no image ",
        ),
        (
            lambda root: (root / "val/images/im5.jpg").unlink(),
            r"mask .*val/masks/im5\.png has no image: .*val/images has",
        ),
        (lambda root: (root / "val/images/im5.png").write_bytes(b""), r"im5\.jpg and .*im5\.png have the same name"),
        (
            lambda root: (root / "val/images/im5.jpg").write_bytes(b"x"),
            r"val/images/im5\.jpg cannot be read as an image",
        ),
        (lambda root: [path.unlink() for path in (root / "val/images").iterdir()], r"val/images has no images \(bmp"),
        (lambda root: (root / "val/masks").rename(root / "val/other"), r"There is no folder .*val/masks\."),
        (
            lambda root: (root / "train").rename(root / "other"),
            r"data\.root=.*mine should have the folders train/images and",
        ),
        (
            lambda root: Image.fromarray(np.full((10, 12), 3, np.uint8)).save(root / "train/masks/im0.png"),
            r"train/masks/im0\.png has the label 3 .* does not have: 0, 1, 2, 255\.",
        ),
        (
            lambda root: Image.fromarray(np.zeros((9, 12), np.uint8)).save(root / "train/masks/im0.png"),
            r"train/images/im0\.jpg has 12 x 10 pixels, but its mask .*im0\.png has 12 x 9",
        ),
    ],
)
def test_what_is_wrong_is_named(root, change, message):
    change(root)
    with pytest.raises(UserError, match=message):
        make(root).setup()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"classes": None}, r"There is no class list .*classes\.csv or .*classes\.txt\. Name the classes in the order"),
        ({"classes": "no/such/file.csv"}, r"There is no class list no/such/file\.csv\."),
        ({"classes": ["road"]}, r"data\.classes has 1 classes"),
        ({"void": ["raod"]}, r"data\.void names 'raod'.*Did you mean road"),
        ({"val_fraction": 1.0}, r"data\.val_fraction=1\.0"),
    ],
)
def test_wrong_settings_are_named(root, settings, message):
    with pytest.raises(UserError, match=message):
        make(root, **settings).setup()


def test_a_root_that_is_no_folder(tmp_path):
    with pytest.raises(UserError, match=r"data\.root=.*nowhere is no folder"):
        make(tmp_path / "nowhere").setup()


def test_pairs_are_in_the_order_of_their_names(root):
    assert [pair.name for pair in match(root / "train/images", root / "train/masks")] == ["im0", "im1", "im2", "im3"]
