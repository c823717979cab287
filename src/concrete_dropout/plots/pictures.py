"""Pictures of segmentations: classes, uncertainties and errors as coloured pixels, and pixels as PNG files.

Arrays in, arrays or bytes out. Void pixels, which have no true class, are light grey; where something was
predicted for them they are faded instead.
"""

from __future__ import annotations

import colorsys
import functools
import io
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image
from plotly.colors import sample_colorscale, unlabel_rgb

Pixels = NDArray[np.uint8]
Colour = tuple[int, int, int]

VOID: Colour = (224, 228, 232)
RIGHT: Colour = (13, 8, 35)
WRONG: Colour = (253, 160, 96)
FADED = 0.25  # what is left of a colour
# Together with as many faded ones they fit into the palette of a PNG, which makes files three times smaller.
LEVELS = 120
GOLDEN_TURN = 0.618034
# Mutual information hardly ever comes near the largest entropy: on the scale of the latter it would always be dark.
EPISTEMIC_SHARE = 0.25


@functools.cache
def scale_colours(count: int = LEVELS) -> Pixels:
    """(count, 3): the colours from no uncertainty to the highest, perceptually even and ever lighter (magma)."""
    found = sample_colorscale("Magma", np.linspace(0.0, 1.0, count).tolist())
    colours = np.array([unlabel_rgb(colour) for colour in found]).round().astype(np.uint8)
    colours.flags.writeable = False  # all callers share it
    return colours


def scale_position(values: ArrayLike, high: float) -> NDArray[np.float64]:
    """Where uncertainties lie on the colour scale, from 0 to 1: the root of their share of ``high``.

    A scale must be the same for all pictures, or they could not be compared. Most pixels lie far below the highest
    entropy that is possible; on a linear scale they would all be black.

    >>> scale_position([-1e-9, 0.25, 1.0, 2.0], high=1.0).tolist()
    [0.0, 0.5, 1.0, 1.0]
    """
    shares = np.nan_to_num(np.asarray(values, dtype=np.float64) / high)
    return np.asarray(np.sqrt(np.clip(shares, 0.0, 1.0)))


def uncertainty_scales(num_classes: int) -> dict[str, float]:
    """The ends of the colour scales, in nats: they depend on C alone, so that pictures can be compared.

    >>> uncertainty_scales(2)["aleatoric"]
    0.6931471805599453
    """
    highest = math.log(max(num_classes, 2))  # the largest entropy of C classes
    return {"epistemic": EPISTEMIC_SHARE * highest, "aleatoric": highest}


def uncertainty_picture(values: NDArray[np.floating], high: float, void: NDArray[np.bool_]) -> Pixels:
    """Entropies in the colours of the scale.

    Args:
        values: (H, W), for example the mutual information, in nats.
        high: end of the scale, for example log C, the highest entropy of C classes; what lies above has its colour.
        void: (H, W), pixels without a true class.

    Returns:
        (H, W, 3).
    """
    index = (scale_position(values, high) * (LEVELS - 1)).round().astype(np.intp)
    return _coloured(index, scale_colours(), void)


def class_picture(labels: NDArray[np.integer], colours: Sequence[Colour], void: NDArray[np.bool_]) -> Pixels:
    """Predicted classes in their colours, void faded: (H, W) -> (H, W, 3)."""
    return _coloured(np.asarray(labels, dtype=np.intp), np.array(colours, dtype=np.uint8), void)


def target_picture(labels: NDArray[np.integer], colours: Sequence[Colour], void: NDArray[np.bool_]) -> Pixels:
    """True classes in their colours, void grey: (H, W) -> (H, W, 3)."""
    made = np.array(colours, dtype=np.uint8)[np.where(void, 0, labels)]
    made[void] = VOID
    return made


def error_picture(predicted: NDArray[np.integer], labels: NDArray[np.integer], void: NDArray[np.bool_]) -> Pixels:
    """Wrong pixels bright on dark, so that they compare with bright uncertainty: (H, W) -> (H, W, 3)."""
    made = np.array([RIGHT, WRONG], dtype=np.uint8)[(predicted != labels).astype(np.intp)]
    made[void] = VOID
    return made


def fitted(array: NDArray[np.generic], max_size: int, *, labels: bool = False) -> NDArray[np.generic]:
    """An image whose longer side has at most ``max_size`` pixels; smaller ones stay as they are.

    Args:
        array: (H, W) or (H, W, 3) of uint8, or (H, W) of floats, integers or truth values.
        max_size: in pixels.
        labels: take single pixels; otherwise pixels that become one are averaged.

    >>> fitted(np.zeros((30, 60), dtype=np.float32), max_size=20).shape
    (10, 20)
    """
    height, width = array.shape[:2]
    share = max_size / max(height, width)
    if share >= 1:
        return array
    kind = array.dtype
    if kind == np.bool_:
        array = array.astype(np.uint8)
    elif kind != np.uint8:
        array = array.astype(np.int32 if labels else np.float32)
    size = max(1, round(width * share)), max(1, round(height * share))
    method = Image.Resampling.NEAREST if labels else Image.Resampling.BOX
    return np.asarray(Image.fromarray(array).resize(size, method)).astype(kind)


def png(pixels: Pixels) -> bytes:
    """(H, W) or (H, W, 3) as a PNG file; with a palette where that has room for all colours. Nothing is lost."""
    file = io.BytesIO()
    _image(np.ascontiguousarray(pixels)).save(file, "PNG")
    return file.getvalue()


def default_colours(count: int) -> list[Colour]:
    """Colours for classes that have none: hues a golden turn apart, so that neighbours differ."""
    turns = [colorsys.hsv_to_rgb((index * GOLDEN_TURN) % 1, 0.65, 0.8) for index in range(count)]
    return [(round(255 * red), round(255 * green), round(255 * blue)) for red, green, blue in turns]


def _coloured(index: NDArray[np.intp], colours: Pixels, void: NDArray[np.bool_]) -> Pixels:
    faded = FADED * colours + (1 - FADED) * np.array(VOID)
    both = np.concatenate([colours, faded.round().astype(np.uint8)])
    return both[index + len(colours) * void]


def _image(pixels: Pixels) -> Image.Image:
    if pixels.ndim == 2:
        return Image.fromarray(pixels)
    packed = pixels.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], dtype=np.uint32)
    colours, index = np.unique(packed, return_inverse=True)
    if len(colours) > 256:
        return Image.fromarray(pixels)
    made = Image.fromarray(index.reshape(pixels.shape[:2]).astype(np.uint8))
    made.putpalette(b"".join(int(colour).to_bytes(3, "big") for colour in colours))
    return made
