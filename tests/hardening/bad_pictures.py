"""Pictures, masks and idx files of kinds that nobody expects."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
from PIL import Image
from tests.hardening import bad_files as bad


def mask(folder: Path) -> Path:
    """The path of a mask in a good folder of scenes."""
    return bad.scenes(folder) / "train" / "masks" / "1.png"


def as_tiff(path: Path, values: np.ndarray) -> None:
    """In place of a PNG file, a TIFF file of the same stem, which takes any kind of numbers."""
    path.unlink()
    Image.fromarray(values).save(path.with_suffix(".tif"))


def noise(path: Path, size: tuple[int, int] = (36, 48)) -> None:
    """A good picture."""
    Image.fromarray(bad.generator().integers(0, 256, (*size, 3), dtype=np.uint8)).save(path)


def plain_mask(path: Path, size: tuple[int, int]) -> None:
    """A mask of the first class alone."""
    Image.new("L", size[::-1]).save(path)


def hundred_megapixels(path: Path) -> None:
    """A little more than 100 million pixels in a small file."""
    Image.new("1", (10_001, 10_001)).save(path, "PNG")


def without_pixels(path: Path) -> None:
    """A PNG file whose header says 0 x 0."""
    whole = Image.new("L", (1, 1))
    whole.save(path)
    content = bytearray(path.read_bytes())
    content[16:24] = bytes(8)
    path.write_bytes(bytes(content))


def idx_labels(folder: Path, labels: np.ndarray, kind: int = 8) -> None:
    """Other labels for the training pictures of a small MNIST."""
    head = bytes([0, 0, kind, 1]) + struct.pack(">I", len(labels))
    file = bad.mnist(folder) / "train-labels-idx1-ubyte.gz"
    file.write_bytes(gzip.compress(head + labels.tobytes()))


def idx_images(folder: Path, shape: tuple[int, int, int]) -> None:
    """Training pictures of another shape."""
    head = struct.pack(">IIII", 0x803, *shape)
    file = bad.mnist(folder) / "train-images-idx3-ubyte.gz"
    file.write_bytes(gzip.compress(head + bytes(int(np.prod(shape)))))
