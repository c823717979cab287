"""Images of different sizes in one buffer, in memory and in a file."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from concrete_dropout.data.labelled_images import LabelledImages, channel_statistics, planes_of

SIZES = [(3, 5), (1, 1), (4, 2)]


@pytest.fixture
def planes() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.integers(0, 256, (4, *size), dtype=np.uint8) for size in SIZES]


@pytest.fixture
def images(planes) -> LabelledImages:
    return LabelledImages.stack(planes, "abc")


def test_every_image_comes_back(images, planes):
    assert [tuple(size) for size in images.sizes] == SIZES
    for index, expected in enumerate(planes):
        assert np.array_equal(images.planes(index), expected)
        assert np.array_equal(images.image(index), expected[:3].transpose(1, 2, 0))
        assert np.array_equal(images.mask(index), expected[3])
        assert np.array_equal(planes_of(images.image(index), images.mask(index)), expected)
    assert (len(images), images.num_pixels, images.largest, images.names) == (3, 24, (4, 5), ("a", "b", "c"))


def test_some_images_share_the_buffer(images, planes):
    some = images.take([2, 0])
    assert some.flat is images.flat
    assert some.names == ("c", "a")
    assert np.array_equal(some.planes(0), planes[2])
    assert np.array_equal(some.planes(1), planes[0])
    assert len(images.take([])) == 0


def test_what_is_handed_out_can_be_changed_without_harm(images, planes):
    images.image(0)[:] = 0
    images.mask(0)[:] = 0
    assert np.array_equal(images.planes(0), planes[0])


def test_a_mapped_file_is_pickled_by_its_name(tmp_path, images, planes):
    path = tmp_path / "pixels.bin"
    path.write_bytes(images.flat.tobytes() + b"\0" * 100_000)
    mapped = LabelledImages.map(path, images.sizes, images.names)
    text = pickle.dumps(mapped.take([1, 2]))
    assert len(text) < 2000
    copy = pickle.loads(text)
    assert np.array_equal(copy.planes(1), planes[2])
    with pytest.raises(ValueError, match="read-only"):
        copy.planes(1)[:] = 0
    assert np.array_equal(pickle.loads(pickle.dumps(images)).planes(1), planes[1])


def test_statistics_are_those_of_all_pixels(images, planes):
    pixels = np.concatenate([entry[:3].reshape(3, -1) for entry in planes], axis=1) / 255
    mean, std = channel_statistics(images)
    assert mean == pytest.approx(pixels.mean(axis=1), abs=1e-12)
    assert std == pytest.approx(pixels.std(axis=1), abs=1e-12)


def test_a_constant_channel_keeps_its_unit():
    grey = LabelledImages.stack([np.full((4, 3, 3), 51, np.uint8)], "a")
    mean, std = channel_statistics(grey)
    assert mean == pytest.approx([0.2] * 3)
    assert std.tolist() == [1, 1, 1]


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"image \(2, 3, 3\) and mask \(3, 2\)"):
        planes_of(np.zeros((2, 3, 3), np.uint8), np.zeros((3, 2), np.uint8))
