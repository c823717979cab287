"""Images and their label maps in one flat buffer, in memory or mapped from a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

# Label of the pixels that do not count, whatever the files use.
VOID = 255
# Red, green, blue and label: planes, since a crop of planes turns into the network's layout without a transposition.
NUM_PLANES = 4

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """N images of any sizes, with a label for every pixel.

    Attributes:
        flat: the planes (4, H, W) of one image after the other.
        starts: (N,), where each image begins in ``flat``.
        sizes: (N, 2), height and width.
        names: N.

    >>> image, mask = np.zeros((2, 3, 3), np.uint8), np.full((2, 3), 7, np.uint8)
    >>> images = LabelledImages.stack([planes_of(image, mask)] * 2, ["a", "b"])
    >>> len(images), images.planes(1).shape, int(images.mask(1)[0, 0]), images.largest, images.num_pixels
    (2, (4, 2, 3), 7, (2, 3), 12)
    """

    flat: Bytes
    starts: Integers
    sizes: Integers
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.starts)

    @classmethod
    def stack(cls, planes: Sequence[Bytes], names: Iterable[str]) -> LabelledImages:
        """Images in memory, from planes (4, H, W)."""
        sizes = np.array([entry.shape[1:] for entry in planes], dtype=np.int64).reshape(-1, 2)
        flat = np.concatenate([entry.reshape(-1) for entry in planes]) if planes else np.empty(0, np.uint8)
        return cls(flat, starts_of(sizes), sizes, tuple(names))

    @classmethod
    def map(cls, path: Path, sizes: Integers, names: Iterable[str]) -> LabelledImages:
        """Images in a file of planes, read when they are used."""
        return cls(np.memmap(path, np.uint8, mode="r"), starts_of(sizes), sizes, tuple(names))

    def take(self, rows: Sequence[int] | Integers) -> LabelledImages:
        """Some of the images, in the given order; the pixels stay where they are."""
        rows = np.asarray(rows, dtype=np.int64)
        return LabelledImages(self.flat, self.starts[rows], self.sizes[rows], tuple(self.names[row] for row in rows))

    def planes(self, index: int) -> Bytes:
        """(4, H, W), a view."""
        height, width = self.sizes[index]
        start = self.starts[index]
        return self.flat[start : start + NUM_PLANES * height * width].reshape(NUM_PLANES, height, width)

    def image(self, index: int) -> Bytes:
        """(H, W, 3), a copy."""
        return np.array(self.planes(index)[:3].transpose(1, 2, 0), order="C")

    def mask(self, index: int) -> Bytes:
        """(H, W), a copy."""
        return np.array(self.planes(index)[3])

    @property
    def num_pixels(self) -> int:
        """Of all images."""
        return int(self.sizes.prod(axis=1).sum())

    @property
    def largest(self) -> tuple[int, int]:
        """The largest height and the largest width."""
        height, width = self.sizes.max(axis=0)
        return int(height), int(width)

    def __getstate__(self) -> dict[str, Any]:
        # A mapped file travels to another process by its name: pickled, it would be copied as a whole.
        state = dict(self.__dict__)
        if isinstance(self.flat, np.memmap):
            state["flat"] = Path(str(self.flat.filename))
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(state["flat"], Path):
            state = {**state, "flat": np.memmap(state["flat"], np.uint8, mode="r")}
        self.__dict__.update(state)


def planes_of(image: Bytes, mask: Bytes) -> Bytes:
    """(4, H, W) from an image (H, W, 3) and its labels (H, W)."""
    if image.shape != (*mask.shape, 3):
        raise ValueError(f"image {image.shape} and mask {mask.shape} must be (H, W, 3) and (H, W)")
    planes = np.empty((NUM_PLANES, *mask.shape), np.uint8)
    planes[:3], planes[3] = image.transpose(2, 0, 1), mask
    return planes


def starts_of(sizes: Integers) -> Integers:
    """Where images of these sizes (N, 2) begin, one stored after the other."""
    ends = np.cumsum(NUM_PLANES * sizes.prod(axis=1), dtype=np.int64)
    return np.concatenate([np.zeros(1, np.int64), ends])[:-1]


def channel_statistics(images: LabelledImages) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Mean and standard deviation (3,) of pixels / 255 over all images, exact through histograms.

    >>> black_and_white = np.stack([np.zeros((2, 3), np.uint8), np.full((2, 3), 255, np.uint8)])
    >>> images = LabelledImages.stack([planes_of(black_and_white, np.zeros((2, 2), np.uint8))], ["a"])
    >>> channel_statistics(images)
    (array([0.5, 0.5, 0.5]), array([0.5, 0.5, 0.5]))
    """
    counts = np.zeros((3, 256), np.int64)
    for index in range(len(images)):
        for channel, plane in enumerate(images.planes(index)[:3]):
            counts[channel] += np.bincount(plane.reshape(-1), minlength=256)
    values = np.arange(256) / 255
    shares = counts / counts.sum(axis=1, keepdims=True)
    mean = shares @ values
    variance = (shares * (values - mean[:, None]) ** 2).sum(axis=1)
    # A channel that never changes keeps its unit.
    return mean, np.sqrt(np.where(variance > 0, variance, 1.0))
