"""Standardisation of bytes against numpy, and what random changes of pictures do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from concrete_dropout.data.pixels import IMAGENET, PixelScale, augmented, batch_generator, fit_pixel_scale


def some_pixels(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def test_a_fitted_scale_is_that_of_all_pixels_of_a_channel():
    pixels = some_pixels(20, 3, 5, 4)
    pixels[:, 1] //= 3
    scale = fit_pixel_scale(pixels.split(7))
    values = pixels.numpy().astype(np.float64) / 255
    assert scale.mean == pytest.approx(values.mean((0, 2, 3)), rel=1e-13)
    assert scale.std == pytest.approx(values.std((0, 2, 3)), rel=1e-13)
    assert scale == fit_pixel_scale([pixels])  # chunks change nothing at all
    x = scale(pixels)
    assert x.dtype == torch.float32
    assert x.mean((0, 2, 3)).numpy() == pytest.approx(np.zeros(3), abs=1e-6)
    assert x.std((0, 2, 3), correction=0).numpy() == pytest.approx(np.ones(3), abs=1e-6)


def test_bytes_become_standardised_numbers():
    pixels = some_pixels(2, 3, 4, 4)
    mean, std = np.array(IMAGENET.mean).reshape(3, 1, 1), np.array(IMAGENET.std).reshape(3, 1, 1)
    assert IMAGENET(pixels).numpy() == pytest.approx((pixels.numpy() / 255 - mean) / std, abs=1e-6)


def test_the_bytes_themselves_stay_as_they_are():
    pixels = some_pixels(2, 1, 4, 4)
    before = pixels.clone()
    PixelScale((0.5,), (0.1,))(pixels)
    assert torch.equal(pixels, before)


def test_pictures_without_contrast_keep_their_unit():
    scale = fit_pixel_scale([torch.full((3, 1, 2, 2), 51, dtype=torch.uint8)])
    assert scale.mean == pytest.approx((0.2,))
    assert scale.std == (1.0,)


def test_flips_mirror_half_of_the_pictures():
    pixels = some_pixels(2000, 2, 3, 5)
    changed = augmented(pixels, "flip", torch.Generator().manual_seed(0))
    mirrored = (changed == pixels.flip(3)).flatten(1).all(1)
    kept = (changed == pixels).flatten(1).all(1)
    assert bool((mirrored ^ kept).all())
    assert abs(int(mirrored.sum()) - 1000) < 4 * np.sqrt(500)


@pytest.mark.parametrize("augment", ["shift", "flip_shift"])
def test_shifts_move_pictures_and_repeat_their_edges(augment):
    height, width, most_down, most_right = 16, 24, 2, 3
    pixels = some_pixels(300, 1, height, width)
    changed = augmented(pixels, augment, torch.Generator().manual_seed(1))
    assert changed.dtype == torch.uint8
    padded = np.pad(pixels[:, 0].numpy(), ((0, 0), (most_down, most_down), (most_right, most_right)), mode="edge")
    found = set()
    for picture, wide in zip(changed[:, 0].numpy(), padded, strict=True):
        matches = [
            (down - most_down, right - most_right, flip)
            for down in range(2 * most_down + 1)
            for right in range(2 * most_right + 1)
            for flip in (False, True)
            if np.array_equal(picture[:, ::-1] if flip else picture, wide[down : down + height, right : right + width])
        ]
        assert len(matches) == 1
        found.update(matches)
    flips = (False, True) if augment == "flip_shift" else (False,)
    assert {flip for _, _, flip in found} == set(flips)
    assert {down for down, _, _ in found} == set(range(-most_down, most_down + 1))
    assert {right for _, right, _ in found} == set(range(-most_right, most_right + 1))


def test_a_batch_has_its_own_random_state():
    def draw(*rows: int) -> float:
        return float(torch.rand((), generator=batch_generator(torch.tensor(rows))))

    before = torch.get_rng_state()
    assert draw(1, 2, 3) == draw(1, 2, 3)
    assert len({draw(1, 2, 3), draw(1, 3, 2), draw(1, 2, 4), draw(1, 2)}) == 4
    assert torch.equal(torch.get_rng_state(), before)
