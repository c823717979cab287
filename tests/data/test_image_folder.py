"""The user's own pictures in folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from concrete_dropout.data.image_folder import ImageFolderData
from concrete_dropout.errors import UserError

CLASSES = ("ant", "bee", "cat")


def write_class(folder: Path, count: int, first: int = 0) -> None:
    """Pictures 10 x 8 with one colour each, by which a test can tell them apart."""
    folder.mkdir(parents=True)
    for number in range(first, first + count):
        Image.new("RGB", (10, 8), (number, 2 * number % 256, 99)).save(folder / f"{number:03}.png")


@pytest.fixture
def flat(tmp_path) -> Path:
    for place, name in enumerate(CLASSES):
        write_class(tmp_path / "mine" / name, 10, first=10 * place)
    return tmp_path / "mine"


@pytest.fixture
def divided(tmp_path) -> Path:
    first = 0
    for part, count in (("train", 10), ("val", 3), ("test", 2)):
        for name in CLASSES:
            write_class(tmp_path / "mine" / part / name, count, first)
            first += count
    return tmp_path / "mine"


def numbers(data: ImageFolderData, part: str) -> list[int]:
    own = getattr(data.pictures, part)
    return own.pictures.take(torch.arange(len(own)))[:, 0, 0, 0].tolist()


@pytest.mark.parametrize("cache_mb", [2000, 0])
def test_folders_of_parts(divided, cache_mb):
    data = ImageFolderData(divided, image_size=[4, 6], cache_mb=cache_mb)
    spec = data.spec
    assert (spec.num_train, spec.num_classes, spec.class_names) == (30, 3, CLASSES)
    assert spec.input_shape == (3, 4, 6)
    assert data.parts == ("train", "val", "test")
    assert numbers(data, "train") == list(range(30))
    assert numbers(data, "val") == list(range(30, 39))
    assert numbers(data, "test") == list(range(39, 45))
    assert data.pictures.test.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert data.label_name("test", 2) == "test/bee/041.png"
    image = data.image("test", 2)
    assert image.shape == (4, 6, 3)
    assert image[0, 0].tolist() == [41, 82, 99]
    assert data.pictures.train.pictures.decoded == (cache_mb > 0)


@pytest.mark.parametrize("cache_mb", [2000, 0])
@pytest.mark.parametrize("num_workers", [0, 1])
def test_batches_are_the_same_from_memory_and_from_disk(divided, cache_mb, num_workers):
    data = ImageFolderData(divided, image_size=4, cache_mb=cache_mb, num_workers=num_workers, batch_size=8)
    torch.manual_seed(0)
    x, y = next(iter(data.train_dataloader()))
    assert x.shape == (8, 3, 4, 4)
    assert x.dtype == torch.float32
    reds = (x[:, 0, 0, 0] * data.scale.std[0] + data.scale.mean[0]) * 255
    assert torch.equal(y, (reds.round() / 10).long())
    loader = data.test_dataloader()
    assert not isinstance(loader, list)
    evaluated = torch.cat([x for x, _ in loader])
    rows = torch.arange(6)
    assert torch.equal(evaluated, data.scale(data.pictures.test.pictures.take(rows)))


def test_a_flat_folder_is_divided_by_the_seed(flat):
    data = ImageFolderData(flat, image_size=4, val_fraction=0.2, test_fraction=0.3)
    found = [numbers(data, part) for part in ("train", "val", "test")]
    assert [len(rows) for rows in found] == [15, 6, 9]
    assert sorted(number for rows in found for number in rows) == list(range(30))
    assert all(rows == sorted(rows) for rows in found)
    for part in data.parts:
        assert getattr(data.pictures, part).labels.tolist() == [number // 10 for number in numbers(data, part)]
    assert data.label_name("val", 0).split("/")[0] in CLASSES
    assert len({tuple(numbers(ImageFolderData(flat, image_size=4, seed=seed), "val")) for seed in range(4)}) > 1
    again = ImageFolderData(flat, image_size=4, val_fraction=0.2, test_fraction=0.3)
    assert [numbers(again, part) for part in ("train", "val", "test")] == found


def test_only_parts_without_a_folder_are_carved(divided):
    for path in sorted((divided / "val").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (divided / "val").rmdir()
    data = ImageFolderData(divided, image_size=4, val_fraction=0.2, test_fraction=0.9)
    assert sorted(numbers(data, "train") + numbers(data, "val")) == list(range(30))
    assert len(numbers(data, "val")) == 6
    assert numbers(data, "test") == list(range(39, 45))


def test_parts_can_be_left_out(flat):
    assert ImageFolderData(flat, val_fraction=0, test_fraction=0).parts == ("train",)


def test_names_of_the_validation_folder_and_odd_files(divided):
    (divided / "val").rename(divided / "validation")
    for place in ("train/ant", "train", "."):
        (divided / place / ".DS_Store").write_bytes(b"x")
        (divided / place / "._hidden.png").write_bytes(b"x")
        (divided / place / "Thumbs.db").write_bytes(b"x")
    (divided / "train/.cache/old").mkdir(parents=True)
    deep = divided / "train/ant/more/below"
    deep.mkdir(parents=True)
    Image.new("L", (5, 5), 200).save(deep / "x.JPG")
    data = ImageFolderData(divided, image_size=4)
    assert data.spec.num_train == 31
    assert data.label_name("train", 10) == "train/ant/more/below/x.JPG"
    assert len(numbers(data, "val")) == 9


def test_a_class_may_be_called_train(tmp_path):
    for place, name in enumerate(("car", "test", "train")):
        write_class(tmp_path / name, 4, 10 * place)
    data = ImageFolderData(tmp_path, val_fraction=0, test_fraction=0)
    assert data.spec.class_names == ("car", "test", "train")
    assert data.spec.num_train == 12


def test_other_folders_beside_the_parts_are_ignored_aloud(divided, caplog):
    write_class(divided / "spare/dog", 2)
    data = ImageFolderData(divided)
    assert data.spec.class_names == CLASSES
    assert "is divided into train and val and test; ignored: spare" in caplog.text


def test_grey_pictures_and_scales(divided):
    grey = ImageFolderData(divided, channels=1, image_size=4)
    assert grey.spec.input_shape == (1, 4, 4)
    assert grey.image("val", 0).shape == (4, 4)
    values = grey.pictures.train.pictures.take(torch.arange(30)).double() / 255
    assert grey.scale.mean == pytest.approx((values.mean().item(),))
    assert ImageFolderData(divided, normalise="imagenet").scale.mean == (0.485, 0.456, 0.406)


def test_scales_ignore_validation_and_test_pictures(divided):
    data = ImageFolderData(divided, image_size=4)
    assert data.scale.mean[0] == pytest.approx(np.arange(30).mean() / 255)


def test_training_subsets(flat):
    data = ImageFolderData(flat, train_size=5)
    assert data.spec.num_train == 5
    assert set(data.pictures.train.names) < set(ImageFolderData(flat, train_size=9).pictures.train.names)


def remove_pictures(folder: Path) -> None:
    for path in folder.glob("*.png"):
        path.unlink()


def only_one_class(root: Path) -> None:
    for part in ("train", "val", "test"):
        for name in CLASSES[1:]:
            remove_pictures(root / part / name)
            (root / part / name).rmdir()


def empty_root(root: Path) -> None:
    root.rename(root.parent / "elsewhere")
    root.mkdir()


def pictures_without_classes(root: Path) -> None:
    empty_root(root)
    Image.new("L", (2, 2)).save(root / "a.png")


def no_train(root: Path) -> None:
    (root / "train").rename(root.parent / "elsewhere")


def unlabelled_test(root: Path) -> None:
    (root / "test").rename(root.parent / "elsewhere")
    (root / "test").mkdir()
    Image.new("L", (2, 2)).save(root / "test/a.png")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda root: root.rename(root.parent / "x"), r"data\.root=.*mine is no folder.*<root>/train/<class>"),
        (empty_root, r"mine has no pictures in folders of classes\. Pictures end in \.bmp, .*the layout is"),
        (pictures_without_classes, r"mine has no pictures in folders of classes"),
        (lambda root: remove_pictures(root / "train/bee"), r"train/bee is a class without pictures .* Add some, or"),
        (lambda root: remove_pictures(root / "val/cat"), r"val/cat is a class without pictures"),
        (only_one_class, r"train has one class only, 'ant'"),
        (
            lambda root: write_class(root / "val/dog", 1),
            r"val/dog is a class that .*train does not have \(ant, bee, cat",
        ),
        (no_train, r"mine has val and test but no folder train"),
        (unlabelled_test, r"mine/test has no folders of classes, as the training pictures have\. Sort"),
        (lambda root: write_class(root / "valid/ant", 1), r"has both val and valid\. Keep one"),
        (lambda root: Image.new("L", (2, 2)).save(root / "train/a.png"), r"train/a\.png is in no folder of a class"),
        (lambda root: (root / "train/cat/a.png").write_bytes(b"x"), r"train/cat/a\.png cannot be read as a picture"),
    ],
)
def test_folders_that_do_not_fit_are_named(divided, change, message):
    change(divided)
    with pytest.raises(UserError, match=message):
        ImageFolderData(divided, image_size=4).setup()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"image_size": 0}, r"data\.image_size=0 must be a whole number of at least 1"),
        ({"image_size": 2.5}, r"data\.image_size=2\.5 must be a whole number"),
        ({"image_size": [4]}, r"data\.image_size=\[4\] must be a whole number, or two as in \[48,64\]"),
        ({"channels": 4}, r"data\.channels=4 must be 1 \(grey\) or 3"),
        ({"channels": 1, "normalise": "imagenet"}, r"data\.normalise=imagenet needs data\.channels=3, not 1"),
        ({"normalise": "none"}, r"data\.normalise='none' is not one of train, imagenet"),
        ({"cache_mb": -1}, r"data\.cache_mb=-1 must be a whole number"),
        ({"val_fraction": 1}, r"data\.val_fraction=1 must be a number from 0"),
        ({"val_fraction": 0.9}, r"has 30 pictures, of which data\.val_fraction=0\.9 takes 27 and"),
        ({"train_size": 1000}, r"data\.train_size=1000 is more than the 24 pictures"),
    ],
)
def test_wrong_settings_are_named(flat, settings, message):
    with pytest.raises(UserError, match=message):
        ImageFolderData(flat, **settings).setup()
