from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from concrete_dropout.plots import pictures
from concrete_dropout.plots.pictures import LEVELS, RIGHT, VOID, WRONG

NONE = np.zeros((1, 3), dtype=bool)


def decoded(content: bytes) -> tuple[str, np.ndarray]:
    with Image.open(io.BytesIO(content)) as image:
        return image.mode, np.asarray(image if image.mode == "L" else image.convert("RGB"))


def lightness(colours: np.ndarray) -> np.ndarray:
    """CIE L* of sRGB colours."""
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    luminance = linear @ np.array([0.2126, 0.7152, 0.0722])
    return np.asarray(np.where(luminance > 0.008856, 116 * np.cbrt(luminance) - 16, 903.3 * luminance))


def test_the_scale_gets_evenly_lighter() -> None:
    light = lightness(pictures.scale_colours() / 255)
    steps = np.diff(light)
    assert (steps > 0).all()
    assert light[-1] - light[0] > 90
    assert steps.max() < 4 * steps.mean()


@pytest.mark.parametrize(
    ("pixels", "mode"),
    [
        (np.arange(12, dtype=np.uint8).reshape(3, 4), "L"),
        (np.arange(36, dtype=np.uint8).reshape(3, 4, 3), "P"),
        (np.random.default_rng(0).integers(0, 256, (20, 20, 3), dtype=np.uint8), "RGB"),
    ],
)
def test_nothing_is_lost_in_a_file(pixels: np.ndarray, mode: str) -> None:
    found_mode, found = decoded(pictures.png(pixels))
    assert found_mode == mode
    np.testing.assert_array_equal(found, pixels)


def test_uncertainties_with_void_fit_into_a_palette() -> None:
    values = np.linspace(0, 1, 4000).reshape(40, 100)
    void = np.random.default_rng(0).uniform(size=values.shape) < 0.5
    mode, found = decoded(pictures.png(pictures.uncertainty_picture(values, 1.0, void)))
    assert mode == "P"
    assert LEVELS < len(np.unique(found.reshape(-1, 3), axis=0)) <= 256


def test_uncertainties_are_clipped_to_the_scale() -> None:
    low, high = pictures.scale_colours()[[0, -1]]
    made = pictures.uncertainty_picture(np.array([[-1e-9, 5.0, np.nan]]), 1.0, NONE)
    np.testing.assert_array_equal(made[0], [low, high, low])


def test_classes_errors_and_void() -> None:
    colours = [(10, 20, 30), (40, 50, 60)]
    labels, predicted, void = np.array([[0, 1, 255]]), np.array([[0, 0, 1]]), np.array([[False, False, True]])
    np.testing.assert_array_equal(pictures.target_picture(labels, colours, void)[0], [colours[0], colours[1], VOID])
    np.testing.assert_array_equal(pictures.error_picture(predicted, labels, void)[0], [RIGHT, WRONG, VOID])
    shown = pictures.class_picture(predicted, colours, void)[0]
    np.testing.assert_array_equal(shown[:2], [colours[0], colours[0]])
    # Faded: between its colour and that of void.
    assert all(colour < channel < grey for colour, channel, grey in zip(colours[1], shown[2], VOID, strict=True))


def test_smaller_images_are_means_and_smaller_labels_are_labels() -> None:
    values = np.arange(16.0, dtype=np.float32).reshape(4, 4)
    np.testing.assert_allclose(pictures.fitted(values, 2), values.reshape(2, 2, 2, 2).mean((1, 3)))
    labels = np.random.default_rng(0).integers(0, 300, (40, 60))
    small = pictures.fitted(labels, 30, labels=True)
    assert small.shape == (20, 30)
    assert small.dtype == labels.dtype
    assert set(small.ravel()) <= set(labels.ravel())
    assert pictures.fitted(labels > 100, 30, labels=True).dtype == np.bool_
    assert pictures.fitted(labels, 60) is labels
    assert pictures.fitted(np.zeros((500, 2, 3), dtype=np.uint8), 10).shape == (10, 1, 3)


def test_default_colours_differ() -> None:
    colours = np.array(pictures.default_colours(12)).astype(int)
    distances = np.abs(colours[:, None] - colours[None]).sum(-1)[~np.eye(12, dtype=bool)]
    assert distances.min() > 30
