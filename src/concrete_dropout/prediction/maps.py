"""Pictures of a segmentation over the image that it is of, as PNG files."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image

from concrete_dropout.plots.pictures import Colour, Pixels, png, scale_colours, scale_position

COVER = 0.55  # of a class's colour over the image
DIMMED = 0.6  # brightness of the grey image below a map of uncertainty
Floats = npt.NDArray[np.float32]


def class_file(classes: Pixels, colours: Sequence[Colour]) -> bytes:
    """(H, W) class numbers as a PNG that has them as values and shows their colours by its palette.

    >>> file = class_file(np.array([[0, 1]], np.uint8), [(255, 0, 0), (0, 0, 255)])
    >>> np.asarray(Image.open(io.BytesIO(file))).tolist()
    [[0, 1]]
    """
    made = Image.fromarray(classes)
    made.putpalette([value for colour in colours for value in colour])
    file = io.BytesIO()
    made.save(file, "PNG")
    return file.getvalue()


def class_overlay(image: Pixels, classes: Pixels, colours: Sequence[Colour]) -> bytes:
    """The image (H, W, 3) tinted by the colours of its classes (H, W)."""
    tint = np.array(colours, dtype=np.float32)[classes]
    return png((image * np.float32(1 - COVER) + tint * np.float32(COVER)).round().astype(np.uint8))


def uncertainty_overlay(image: Pixels, values: Floats, high: float) -> bytes:
    """The image in grey, covered the more by the colours of the scale the more uncertain it is.

    Args:
        image: (H, W, 3).
        values: (H, W), in nats.
        high: end of the scale.
    """
    position = scale_position(values, high)
    colours = scale_colours()
    heat = colours[(position * (len(colours) - 1)).round().astype(np.intp)].astype(np.float32)
    grey = DIMMED * np.asarray(Image.fromarray(image).convert("L"), np.float32)[..., None]
    cover = np.clip(2 * position, 0, 1).astype(np.float32)[..., None]
    return png((grey * (1 - cover) + heat * cover).round().astype(np.uint8))


def resized(values: Floats, size: tuple[int, int]) -> Floats:
    """A map (h, w) at the size (H, W) of its image."""
    if values.shape == size:
        return values
    return np.asarray(Image.fromarray(values).resize(size[::-1], Image.Resampling.BILINEAR))


def most_probable(probabilities: Floats, size: tuple[int, int]) -> Pixels:
    """Classes (H, W) from probabilities (C, h, w), which are enlarged one by one: all at once would take much memory.

    >>> most_probable(np.array([[[0.9, 0.2]], [[0.1, 0.8]]], np.float32), (1, 4)).tolist()
    [[0, 0, 1, 1]]
    """
    classes, best = np.zeros(size, np.uint8), resized(probabilities[0], size)
    for number, values in enumerate(probabilities[1:], start=1):
        values = resized(values, size)
        better = values > best
        classes[better] = number
        best = np.maximum(best, values)
    return classes


def npy(values: Floats) -> bytes:
    """An array as a .npy file."""
    file = io.BytesIO()
    np.save(file, values, allow_pickle=False)
    return file.getvalue()
