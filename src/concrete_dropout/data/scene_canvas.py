"""A canvas for generated scenes: colours and classes are painted together, the near over the far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from concrete_dropout.data.labelled_images import VOID, Bytes

Floats = npt.NDArray[np.float32]
Where = npt.NDArray[np.bool_]
Random = np.random.Generator
Colour = tuple[float, float, float] | Floats
EVERYTHING = slice(None)


@dataclass(frozen=True, eq=False)
class Canvas:
    """Colours (3, H, W) from 0 to 1, classes (H, W), and the centres of the pixels.

    Shapes are given in pixels from the top left corner; what lies outside is cut off.

    >>> canvas = Canvas.empty(4, 6)
    >>> canvas.box(1, 3, 4, 9, colour=(1, 0, 0), label=8)
    >>> canvas.mask
    array([[255, 255, 255, 255, 255, 255],
           [255, 255, 255, 255,   8,   8],
           [255, 255, 255, 255,   8,   8],
           [255, 255, 255, 255, 255, 255]], dtype=uint8)
    """

    image: Floats
    mask: Bytes
    y: Floats  # (H, 1)
    x: Floats  # (1, W)

    @classmethod
    def empty(cls, height: int, width: int) -> Canvas:
        """All black, and VOID."""
        y, x = (np.arange(size, dtype=np.float32) + np.float32(0.5) for size in (height, width))
        return cls(
            np.zeros((3, height, width), np.float32), np.full((height, width), VOID, np.uint8), y[:, None], x[None]
        )

    @property
    def height(self) -> int:
        """H."""
        return self.mask.shape[0]

    @property
    def width(self) -> int:
        """W."""
        return self.mask.shape[1]

    def part(self, rows: slice = EVERYTHING, columns: slice = EVERYTHING) -> Canvas:
        """A view: what is painted on it is painted here. Its pixels keep their coordinates."""
        return Canvas(self.image[:, rows, columns], self.mask[rows, columns], self.y[rows], self.x[:, columns])

    def paint(self, where: Where, colour: Colour, label: int) -> None:
        """Paint where a mask (H, W) says so, with one colour (3,) or a texture (3, H, W)."""
        colours = np.asarray(colour, np.float32)
        np.copyto(self.image, colours if colours.ndim == 3 else colours[:, None, None], where=where)
        np.copyto(self.mask, np.uint8(label), where=where)

    def box(self, top: float, bottom: float, left: float, right: float, colour: Colour, label: int) -> None:
        """A rectangle, at least one pixel wide and high."""
        part = self._around(top, bottom, left, right)
        part.image[:] = np.asarray(colour, np.float32)[:, None, None]
        part.mask[:] = label

    def ellipse(
        self, y: float, x: float, height: float, width: float, colour: Colour, label: int, ring: float = 0
    ) -> None:
        """An ellipse around (y, x) with these half axes; ``ring`` is the share of them that stays empty inside."""
        part, distance = self._ellipse(y, x, height, width)
        part.paint((distance <= 1) & (distance >= ring * ring), colour, label)

    def shade(self, y: float, x: float, height: float, width: float, factor: float) -> None:
        """Darken an ellipse, whatever is there: a shadow has the class of what it falls on."""
        part, distance = self._ellipse(y, x, height, width)
        part.image[:] *= np.where(distance <= 1, np.float32(factor), np.float32(1))

    def _ellipse(self, y: float, x: float, height: float, width: float) -> tuple[Canvas, Floats]:
        part = self._around(y - height, y + height, x - width, x + width)
        return part, ((part.y - y) / max(height, 0.5)) ** 2 + ((part.x - x) / max(width, 0.5)) ** 2

    def _around(self, top: float, bottom: float, left: float, right: float) -> Canvas:
        return self.part(_span(top, bottom, self.height), _span(left, right, self.width))


def _span(start: float, stop: float, size: int) -> slice:
    first = round(start)
    last = max(round(stop), first + 1)
    return slice(min(max(first, 0), size), min(max(last, 0), size))


def tone(random: Random, low: float, high: float, spread: float) -> Floats:
    """A colour (3,): some brightness between low and high, and each channel off it by up to a share of it."""
    return (random.uniform(low, high) * random.uniform(1 - spread, 1 + spread, 3)).astype(np.float32)


def textured(colour: Colour, light: Floats) -> Floats:
    """(3, H, W): a colour (3,) under a light (H, W)."""
    return np.asarray(colour, np.float32)[:, None, None] * light


def clouds(random: Random, canvas: Canvas, cell: int) -> Floats:
    """Smooth noise (H, W) of about unit variance, on a random grid with cells of some pixels."""
    grid = random.standard_normal((canvas.height // cell + 2, canvas.width // cell + 2), dtype=np.float32)
    return _stretched(_stretched(grid, canvas.height, cell).T, canvas.width, cell).T


def _stretched(grid: Floats, size: int, cell: int) -> Floats:
    """Interpolate along the first axis."""
    place = np.arange(size, dtype=np.float32) / np.float32(cell)
    below = place.astype(np.int64)
    share = (place - below.astype(np.float32))[:, None]
    return grid[below] * (1 - share) + grid[below + 1] * share


def blurred(image: Floats) -> Floats:
    """Every pixel (3, H, W) mixed with its four neighbours, as by a lens."""
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1)), mode="edge")
    around = padded[:, :-2, 1:-1] + padded[:, 2:, 1:-1] + padded[:, 1:-1, :-2] + padded[:, 1:-1, 2:]
    return np.float32(0.6) * image + np.float32(0.1) * around


def developed(image: Floats) -> Bytes:
    """Values from 0 to 1 as bytes."""
    return (np.clip(image, 0, 1) * 255 + np.float32(0.5)).astype(np.uint8)
