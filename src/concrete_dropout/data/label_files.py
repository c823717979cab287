"""Image and label files, and which value of a label file is which class. Every complaint names the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from concrete_dropout.data.labelled_images import Bytes, Integers, planes_of
from concrete_dropout.data.picture_file import plain, refuse_large
from concrete_dropout.errors import UserError

Colour = tuple[int, int, int]
UNKNOWN = 254  # in lookup tables only
MAX_CLASSES = 254
MAX_LABEL = 2**16 - 1


@dataclass(frozen=True, eq=False)
class Labels:
    """What the values of label files mean.

    Attributes:
        names: of the C classes.
        colours: C, for figures, and for files that code classes by colour.
        classes: {label value: class}, VOID (255) for a value that does not count.
        colour_classes: {colour: class}, VOID for a colour that does not count; empty where no file has colours.

    >>> labels = Labels(("sky", "road"), ((0, 0, 255), (90, 90, 90)), {0: 0, 7: 1, 11: 255})
    >>> labels.look_up(np.array([[7, 0, 11]]))
    array([[  1,   0, 255]], dtype=uint8)
    """

    names: tuple[str, ...]
    colours: tuple[Colour, ...]
    classes: Mapping[int, int]
    colour_classes: Mapping[Colour, int] = field(default_factory=dict)

    def look_up(self, values: Integers) -> Bytes:
        """Classes (H, W) of label values (H, W), or of colours (H, W, 3); UNKNOWN for what is none."""
        if values.ndim == 3:
            return self._by_colour[_packed(values)]
        return self._by_value[np.where((values >= 0) & (values <= MAX_LABEL), values, MAX_LABEL + 1)]

    @cached_property
    def _by_value(self) -> Bytes:
        return _table(MAX_LABEL + 2, self.classes)  # the last entry is that of impossible values

    @cached_property
    def _by_colour(self) -> Bytes:
        packed = {int(_packed(np.array(colour))): number for colour, number in self.colour_classes.items()}
        return _table(2**24, packed)


def _table(size: int, entries: Mapping[int, int]) -> Bytes:
    table = np.full(size, UNKNOWN, np.uint8)
    for value, number in entries.items():
        table[value] = number
    return table


def _packed(colours: Integers) -> Integers:
    """One number per colour (..., 3)."""
    red, green, blue = np.moveaxis(colours.astype(np.int64), -1, 0)
    return (red << 16) | (green << 8) | blue


@dataclass(frozen=True)
class Pair:
    """An image and its label file."""

    name: str
    image: Path
    mask: Path


def read_planes(pair: Pair, labels: Labels, scale: float = 1.0) -> Bytes:
    """(4, H, W): red, green, blue and class.

    Args:
        pair: the files.
        labels: what their values mean.
        scale: 0.5 halves height and width: the image by area, the classes by the nearest pixel.

    Raises:
        UserError: a file cannot be read, the sizes differ, or a label is not in the class list.
    """
    image, mask = read_image(pair.image), read_mask(pair.mask, labels)
    if image.shape[:2] != mask.shape:
        raise UserError(
            f"{pair.image} has {_size(image)} pixels, but its mask {pair.mask} has {_size(mask)} (width x height). "
            "Both must have the same size."
        )
    return shrink(planes_of(image, mask), scale)


def read_image(path: Path) -> Bytes:
    """(H, W, 3): 8 bits of red, green and blue, whatever the file has; upright."""
    with _named(path), Image.open(path) as file:
        refuse_large(file)
        return np.asarray(plain(ImageOps.exif_transpose(file), channels=3))


def read_mask(path: Path, labels: Labels) -> Bytes:
    """(H, W) of classes or VOID, from a file of label values (grey or with a palette) or of colours (RGB)."""
    values = read_values(path, by_colour=bool(labels.colour_classes))
    if values.ndim == 3 and not labels.colour_classes:
        if (values != values[..., :1]).any():
            raise UserError(
                f"{path} is a colour image, but the class list has no colours. Give every class its colour, or save "
                "the masks as 8-bit images of label values."
            )
        values = values[..., 0]
    classes = labels.look_up(values)
    unknown = classes == UNKNOWN
    if unknown.any():
        row, column = np.argwhere(unknown)[0]
        value = tuple(values[row, column].tolist()) if values.ndim == 3 else int(values[row, column])
        kind = "colour" if values.ndim == 3 else "label"
        known = sorted(labels.colour_classes) if values.ndim == 3 else sorted(labels.classes)
        raise UserError(
            f"{path} has the {kind} {value} (first at row {row}, column {column}; {unknown.sum()} pixels in all), "
            f"which the class list does not have: {_some(known)}. Add it to the classes or to the void labels, or mend "
            "the mask."
        )
    return classes


def read_values(path: Path, by_colour: bool = False) -> Integers:
    """The values of a label file: (H, W) numbers, or (H, W, 3) colours.

    A palette of greys stands for the numbers that its greys are: tools that make PNG files smaller number the greys of
    a file anew and keep them in its palette. CamVid's masks are such files. A palette of colours only says how to show
    the numbers, unless ``by_colour`` is set.
    """
    with _named(path), Image.open(path) as file:
        refuse_large(file)
        if file.mode == "F":
            raise ValueError("labels must be whole numbers")
        if file.mode in ("1", "L") or file.mode.startswith("I"):
            return np.asarray(file).astype(np.int64)
        if file.mode != "P":
            return np.asarray(file.convert("RGB")).astype(np.int64)
        numbers = np.asarray(file)
        palette = np.zeros((256, 3), np.int64)
        entries = np.array(file.getpalette("RGB")).reshape(-1, 3)
        palette[: len(entries)] = entries
        if by_colour:
            return palette[numbers]
        greys = (palette == palette[:, :1]).all()
        return palette[:, 0][numbers] if greys else numbers.astype(np.int64)


def shrink(planes: Bytes, scale: float) -> Bytes:
    """Planes (4, H, W) at a fraction of their size, at least 1 x 1.

    >>> shrink(np.arange(16, dtype=np.uint8).reshape(4, 2, 2), 0.5)[:, 0, 0]
    array([ 2,  6, 10, 15], dtype=uint8)
    """
    if scale == 1:
        return planes
    size = max(1, round(scale * planes.shape[2])), max(1, round(scale * planes.shape[1]))  # Pillow's order
    # In floating point: Pillow would round bytes along either axis, half of them upwards.
    means = [Image.fromarray(plane.astype(np.float32)).resize(size, Image.Resampling.BOX) for plane in planes[:3]]
    classes = Image.fromarray(planes[3]).resize(size, Image.Resampling.NEAREST)
    return np.stack([*(np.rint(np.asarray(mean)).astype(np.uint8) for mean in means), np.asarray(classes)])


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Whatever goes wrong with a file is the user's to mend, under its name."""
    try:
        yield
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        reason = getattr(error, "strerror", None) or str(error).strip().rstrip(".") or type(error).__name__
        raise UserError(f"{path} cannot be read as an image ({reason}). Replace the file.") from error


def _size(pixels: Bytes) -> str:
    return f"{pixels.shape[1]} x {pixels.shape[0]}"


def _some(values: Sequence[object], limit: int = 20) -> str:
    return ", ".join(map(str, values[:limit])) + (f" and {len(values) - limit} more" if len(values) > limit else "")
