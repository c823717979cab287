"""Image and label files of every kind, and complaints that name the file."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from concrete_dropout.data.label_files import UNKNOWN, Labels, Pair, read_image, read_mask, read_planes, shrink
from concrete_dropout.data.labelled_images import VOID
from concrete_dropout.errors import UserError

RED, GREEN, BLACK = (255, 0, 0), (0, 255, 0), (0, 0, 0)
BY_VALUE = Labels(("a", "b"), (RED, GREEN), {0: 0, 7: 1, 11: VOID})
BY_COLOUR = Labels(("a", "b"), (RED, GREEN), {0: 0, 1: 1}, {RED: 0, GREEN: 1, BLACK: VOID})
NUMBERS = np.array([[0, 7, 11], [7, 7, 0]], np.uint8)
CLASSES = [[0, 1, VOID], [1, 1, 0]]


def save(path, array, palette=None):
    image = Image.fromarray(np.asarray(array))
    if palette is not None:
        image.putpalette([value for colour in palette for value in colour])
    image.save(path)
    return path


def test_look_up():
    assert BY_VALUE.look_up(np.array([[0, 7, 11, 1, 70000, -1]])).tolist() == [[0, 1, VOID, UNKNOWN, UNKNOWN, UNKNOWN]]
    assert BY_COLOUR.look_up(np.array([[GREEN, BLACK, (1, 0, 0)]])).tolist() == [[1, VOID, UNKNOWN]]


@pytest.mark.parametrize(("dtype", "ending"), [(np.uint8, "png"), (np.uint16, "png"), (np.int32, "tif")])
def test_label_values_of_any_depth(tmp_path, dtype, ending):
    path = save(tmp_path / f"mask.{ending}", NUMBERS.astype(dtype))
    assert read_mask(path, BY_VALUE).tolist() == CLASSES


def test_one_bit_masks(tmp_path):
    Image.fromarray(np.array([[False, True]])).save(tmp_path / "mask.png")
    assert read_mask(tmp_path / "mask.png", BY_COLOUR).tolist() == [[0, 1]]


def test_grey_palettes_stand_for_their_greys(tmp_path):
    """As in CamVid's own files: the numbers of the entries have nothing to do with the labels."""
    path = save(tmp_path / "mask.png", np.array([[2, 0, 1], [0, 0, 2]], np.uint8), [(7,) * 3, (11,) * 3, (0,) * 3])
    with Image.open(path) as file:
        assert file.mode == "P"
    assert read_mask(path, BY_VALUE).tolist() == CLASSES


def test_a_colour_palette_only_shows_the_numbers(tmp_path):
    palette = [RED, *[(index, 0, index) for index in range(1, 12)]]
    assert read_mask(save(tmp_path / "mask.png", NUMBERS, palette), BY_VALUE).tolist() == CLASSES


def test_colours_in_rgb_files_and_in_palettes(tmp_path):
    colours = np.array([[RED, GREEN, BLACK]], np.uint8)
    assert read_mask(save(tmp_path / "rgb.png", colours), BY_COLOUR).tolist() == [[0, 1, VOID]]
    numbers = np.array([[1, 2, 0]], np.uint8)
    assert read_mask(save(tmp_path / "p.png", numbers, [BLACK, RED, GREEN]), BY_COLOUR).tolist() == [[0, 1, VOID]]
    # A list with colours has labels too, for files without colours.
    assert read_mask(save(tmp_path / "l.png", np.array([[0, 1]], np.uint8)), BY_COLOUR).tolist() == [[0, 1]]


def test_rgb_files_of_equal_channels_are_label_values(tmp_path):
    assert read_mask(save(tmp_path / "mask.png", np.stack([NUMBERS] * 3, axis=-1)), BY_VALUE).tolist() == CLASSES


@pytest.mark.parametrize(
    ("array", "labels", "message"),
    [
        (
            np.array([[0, 7], [3, 3]], np.uint8),
            BY_VALUE,
            r"the label 3 \(first at row 1, column 0; 2 pixels in all\), which",
        ),
        (np.array([[0, 7], [3, 3]], np.uint8), BY_VALUE, r"does not have: 0, 7, 11\. Add it to the classes or"),
        (np.array([[300]], np.uint16), BY_VALUE, "the label 300 "),
        (
            np.array([[RED, (9, 9, 8)]], np.uint8),
            BY_COLOUR,
            r"the colour \(9, 9, 8\) \(first at row 0, column 1; 1 pix",
        ),
        (np.array([[RED]], np.uint8), BY_VALUE, "is a colour image, but the class list has no colours"),
    ],
)
def test_labels_outside_the_class_list_are_named(tmp_path, array, labels, message):
    path = save(tmp_path / "mask.png", array)
    with pytest.raises(UserError, match=rf"mask\.png .*{message}"):
        read_mask(path, labels)


def test_negative_and_fractional_labels_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"m\.tif has the label -1 "):
        read_mask(save(tmp_path / "m.tif", np.array([[0, -1]], np.int32)), BY_VALUE)
    with pytest.raises(UserError, match=r"f\.tif cannot be read as an image \(labels must be whole numbers\)"):
        read_mask(save(tmp_path / "f.tif", np.array([[0.5]], np.float32)), BY_VALUE)


def test_images_of_any_kind_become_rgb(tmp_path):
    grey = np.array([[0, 100], [200, 255]], np.uint8)
    assert np.array_equal(read_image(save(tmp_path / "l.png", grey)), np.stack([grey] * 3, axis=-1))
    sideways = Image.fromarray(np.zeros((2, 5, 3), np.uint8))
    exif = sideways.getexif()
    exif[0x0112] = 6  # to be turned by a quarter
    sideways.save(tmp_path / "turned.jpg", exif=exif)
    assert read_image(tmp_path / "turned.jpg").shape == (5, 2, 3)


@pytest.mark.parametrize("kind", ["missing", "empty", "text", "cut", "damaged", "folder"])
def test_unreadable_files_are_named(tmp_path, kind):
    path = tmp_path / "image.png"
    whole = save(
        tmp_path / "whole.png", np.random.default_rng(0).integers(0, 256, (50, 50, 3), dtype=np.uint8)
    ).read_bytes()
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        damaged = whole[:2000] + bytes(100) + whole[2100:]
        path.write_bytes({"empty": b"", "text": b"no image", "cut": whole[:3000], "damaged": damaged}[kind])
    for read in (read_image, lambda path: read_mask(path, BY_VALUE)):
        with pytest.raises(UserError, match=r"image\.png cannot be read as an image \(.+\)\. Replace") as caught:
            read(path)
        assert "\n" not in str(caught.value)


def test_sizes_must_agree(tmp_path):
    pair = Pair(
        "a",
        save(tmp_path / "a.png", np.zeros((4, 6, 3), np.uint8)),
        save(tmp_path / "m.png", np.zeros((4, 5), np.uint8)),
    )
    with pytest.raises(UserError, match=r"a\.png has 6 x 4 pixels, but its mask .*m\.png has 5 x 4 \(width x height\)"):
        read_planes(pair, BY_VALUE)


def test_half_size_averages_the_image_and_picks_labels():
    random = np.random.default_rng(1)
    planes = random.integers(0, 256, (4, 8, 12), dtype=np.uint8)
    half = shrink(planes, 0.5)
    means = planes[:3].reshape(3, 4, 2, 6, 2).mean(axis=(2, 4))
    assert half.shape == (4, 4, 6)
    assert np.abs(half[:3] - means).max() <= 0.5
    blocks = planes[3].reshape(4, 2, 6, 2).transpose(0, 2, 1, 3).reshape(4, 6, 4)
    assert (blocks == half[3][..., None]).any(axis=-1).all()
    assert shrink(planes, 1.0) is planes
    assert shrink(planes, 0.3).shape == (4, 2, 4)
    assert shrink(planes, 0.01).shape == (4, 1, 1)


def test_both_files_at_once(tmp_path):
    image = np.random.default_rng(2).integers(0, 256, (2, 3, 3), dtype=np.uint8)
    pair = Pair("a", save(tmp_path / "a.png", image), save(tmp_path / "m.png", NUMBERS))
    planes = read_planes(pair, BY_VALUE)
    assert np.array_equal(planes[:3].transpose(1, 2, 0), image)
    assert planes[3].tolist() == CLASSES
