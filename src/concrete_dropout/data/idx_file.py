"""Files in the idx format of MNIST: a magic number, big-endian sizes, then bytes."""

from __future__ import annotations

import gzip
import math
import zlib
from io import BufferedIOBase
from pathlib import Path

import numpy as np
import numpy.typing as npt

from concrete_dropout.errors import UserError

GZIP_MAGIC = b"\x1f\x8b"
UNSIGNED_BYTE = 8
DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)


def read_idx(path: Path, num_axes: int) -> npt.NDArray[np.uint8]:
    """The array of an idx file of unsigned bytes, compressed by gzip or not.

    Args:
        path: of the file.
        num_axes: that the array must have: 3 for images (N, H, W), 1 for labels (N,).

    Raises:
        UserError: names the file and what is wrong with it.
    """
    content = read_bytes(path)
    expected = bytes([0, 0, UNSIGNED_BYTE, num_axes])
    if content[:4] != expected:
        raise UserError(
            f"{path} does not start with the magic number of an idx file of bytes with {num_axes} axes "
            f"({int.from_bytes(expected, 'big')}, here {int.from_bytes(content[:4], 'big')}). Is it another file?"
        )
    start = 4 + 4 * num_axes
    if len(content) < start:
        raise UserError(f"{path} ends within its header. Replace it by a whole copy.")
    shape = tuple(np.frombuffer(content, ">u4", num_axes, offset=4).tolist())
    promised, found = math.prod(shape), len(content) - start
    if promised != found or promised == 0:
        raise UserError(
            f"{path} should have {' x '.join(map(str, shape))} = {promised} bytes after its header, and has {found}. "
            "Replace it by a whole copy."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def read_bytes(path: Path) -> bytes:
    """What a file holds, decompressed where it was compressed by gzip."""
    try:
        with open_file(path) as file:
            return file.read()
    except DAMAGED as error:
        raise UserError(f"{path} is damaged or cut short ({error}). Replace it by a whole copy.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).") from error


def open_file(path: Path) -> BufferedIOBase:
    """A file to be read, as ``read_bytes`` reads it."""
    with path.open("rb") as file:
        compressed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    return gzip.open(path, "rb") if compressed else path.open("rb")
