"""One picture file to bytes of a given size, whatever its format: colours, depth, transparency, rotation."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from concrete_dropout.errors import UserError

Channels = Literal[1, 3]
SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
MAX_16_BIT = 65535
LARGEST = 80_000_000  # pixels: more take seconds and gigabytes; Pillow itself warns of files beyond 89 million


class UnreadablePictureError(UserError):
    """A file that is no whole picture.

    A worker of a ``DataLoader`` sends an exception as text, its traceback before its message, and torch builds another
    one from that text. The user needs the message only.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message.rpartition(f"{type(self).__name__}: ")[2].strip())


def read_picture(path: Path, size: tuple[int, int], channels: Channels) -> npt.NDArray[np.uint8]:
    """The picture in a file, upright and resized without regard to its proportions.

    Args:
        path: of the file, with a single picture.
        size: (H, W) of the result.
        channels: 1 for grey, 3 for red, green and blue.

    Returns:
        (C, H, W).

    Raises:
        UnreadablePictureError: names the file.
    """
    height, width = size
    with _named(path), Image.open(path) as file:
        refuse_large(file)
        _refuse_films(file)
        # A large JPEG is decoded at a fraction of its size, still twice the one we want; a rotated one may lie.
        file.draft(_mode(channels), (2 * max(size), 2 * max(size)))
        image = plain(ImageOps.exif_transpose(file), channels)
        pixels = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR))  # averages where it shrinks
        return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def check_picture(path: Path) -> None:
    """Refuse a file whose beginning is not that of a picture; the rest is not read."""
    with _named(path), Image.open(path) as file:
        refuse_large(file)
        _refuse_films(file)


def refuse_large(file: Image.Image) -> None:
    """Refuse a picture by the size that its beginning names, before its pixels are read.

    Raises:
        ValueError: it has more than LARGEST pixels.
    """
    width, height = file.size
    if width * height > LARGEST:
        raise ValueError(
            f"it has {width} x {height} pixels, {round(width * height / 1e6)} million, and {round(LARGEST / 1e6)} are "
            "the most; make it smaller, or cut it into parts"
        )


def plain(image: Image.Image, channels: Channels) -> Image.Image:
    """Eight bits of grey or of red, green and blue, from any kind of pixels.

    Transparent pictures are laid on white. Sixteen bits keep their range: the largest number that the format can
    hold is white. Floating-point pixels have no such number, and are refused.

    >>> plain(Image.new("RGBA", (1, 1), (0, 0, 0, 0)), channels=1).getpixel((0, 0))
    255
    """
    if image.mode == "F":
        raise ValueError("its pixels are floating-point numbers of unknown range; save it with 8 or 16 bits")
    if image.mode.startswith("I"):  # Pillow's own conversion cuts everything above 255
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > MAX_16_BIT:
            raise ValueError("its pixels have more than 16 bits; save it with 8 or 16 bits")
        image = Image.fromarray(((values + 128) // 257).astype(np.uint8))
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert(_mode(channels))


def _refuse_films(file: Image.Image) -> None:
    frames = getattr(file, "n_frames", 1)
    if frames > 1:
        raise ValueError(f"it is animated or has several pages, {frames}; save the one that counts as a picture")


def _mode(channels: Channels) -> str:
    return "L" if channels == 1 else "RGB"


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's remarks on odd metadata
            yield
    except Exception as error:  # decoders of damaged files raise all kinds
        reason = " ".join(str(getattr(error, "strerror", None) or error or type(error).__name__).split()).rstrip(".")
        if isinstance(error, UnidentifiedImageError):
            reason = "no known format"
        raise UnreadablePictureError(
            f"{path} cannot be read as a picture ({reason}). Replace it, or move it elsewhere."
        ) from error
