"""A picture from anywhere: what a network must not be given is refused by name, with the way out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image, UnidentifiedImageError

from concrete_dropout.data.labelled_images import Bytes
from concrete_dropout.data.picture_file import LARGEST
from concrete_dropout.errors import UserError

# Cameras write a small copy for their own display, or a depth map, into the same file: its first picture is the one.
WITH_COMPANIONS = {"MPO"}


def read_source(path: Path, read: Callable[[Path], Bytes]) -> Bytes:
    """The pixels that ``read`` finds in a file, once its beginning has been looked at.

    Raises:
        UserError: the file is empty, damaged, animated, too large, or no picture.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's remarks on odd metadata and on sizes that are looked at here
        try:
            _check(path)
            return read(path)
        except UserError:
            raise
        except Exception as error:  # decoders of damaged files raise all kinds
            reason = " ".join(str(getattr(error, "strerror", None) or error or type(error).__name__).split())
            raise UserError(f"{path} cannot be read as a picture ({reason.rstrip('.')}). Replace it.") from error


def _check(path: Path) -> None:
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty (0 bytes). Replace it.")
    try:
        with Image.open(path) as file:
            _check_header(path, file)
    except UnidentifiedImageError as error:
        raise UserError(f"{path} is no picture of a known format. Save it as PNG or JPEG.") from error
    except Image.DecompressionBombError as error:
        raise UserError(f"{path} has more than {_millions(LARGEST)} megapixels. {_SHRINK}") from error


def _check_header(path: Path, file: Image.Image) -> None:
    width, height = file.size
    if width * height == 0:
        raise UserError(f"{path} has {width} x {height} pixels. Replace it.")
    if width * height > LARGEST:
        raise UserError(
            f"{path} has {width} x {height} pixels, {_millions(width * height)} million; {_millions(LARGEST)} are the "
            f"most. {_SHRINK}"
        )
    frames: Any = getattr(file, "n_frames", 1)
    if frames > 1 and file.format not in WITH_COMPANIONS:
        raise UserError(
            f"{path} is animated or has several pages ({frames}). Save those that you want as pictures of their own."
        )


_SHRINK = "Cut it into parts or make it smaller, for example with: magick in.tif -resize 25% out.png"


def _millions(pixels: int) -> int:
    return round(pixels / 1e6)
