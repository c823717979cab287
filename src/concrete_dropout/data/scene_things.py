"""What stands and moves in a generated street.

Each thing stands at a place on the ground where one length is ``size`` pixels. Lengths are in heights of the camera,
about 1.5 m.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from concrete_dropout.data.labelled_images import VOID
from concrete_dropout.data.scene_canvas import Canvas, Random, tone

SKY, BUILDING, POLE, ROAD, PAVEMENT, TREE, SIGN, FENCE, CAR, PEDESTRIAN, BICYCLIST = range(11)

SIGN_COLOURS = ((0.75, 0.12, 0.1), (0.12, 0.25, 0.65), (0.9, 0.75, 0.15), (0.9, 0.9, 0.88))
LAMPS = ((0.75, 0.1, 0.08), (0.95, 0.93, 0.8))
DARK, GLASS, WHITE = (0.08, 0.08, 0.09), (0.16, 0.18, 0.21), (0.92, 0.92, 0.9)


class Thing(Protocol):
    """Paints itself."""

    def __call__(self, canvas: Canvas, ground: float, x: float, size: float, random: Random) -> None:
        """At row ``ground`` and column ``x``."""


def car(canvas: Canvas, ground: float, x: float, size: float, random: Random) -> None:
    """Seen from behind or from the front."""
    paint = np.clip(tone(random, 0.05, 0.9, random.choice([0.03, 0.4])), 0.04, 0.95)
    half, tall = size * random.uniform(0.5, 0.68), size * random.uniform(0.85, 1.15)
    canvas.shade(ground, x, 0.1 * size, 1.1 * half, 0.5)
    for side in (-0.75, 0.75):
        canvas.ellipse(ground - 0.12 * size, x + side * half, 0.17 * size, 0.18 * half, DARK, CAR)
    canvas.box(ground - 0.62 * tall, ground - 0.14 * size, x - half, x + half, paint, CAR)
    canvas.ellipse(ground - 0.6 * tall, x, 0.4 * tall, 0.82 * half, paint * np.float32(0.95), CAR)
    canvas.box(ground - 0.9 * tall, ground - 0.62 * tall, x - 0.62 * half, x + 0.62 * half, GLASS, CAR)
    lamp = LAMPS[random.integers(2)]
    for side in (-0.8, 0.8):
        canvas.ellipse(ground - 0.45 * tall, x + side * half, 0.07 * size, 0.12 * half, lamp, CAR)


def pole(canvas: Canvas, ground: float, x: float, size: float, random: Random) -> None:
    """A lamp post, or one that bears a sign."""
    tall, half = size * random.uniform(1.8, 4.5), max(0.5, 0.05 * size)
    canvas.box(ground - tall, ground, x - half, x + half, tone(random, 0.2, 0.6, 0.05), POLE)
    if random.random() < 0.4:
        return
    colour = SIGN_COLOURS[random.integers(len(SIGN_COLOURS))]
    side = size * random.uniform(0.18, 0.35)
    y = ground - min(tall, size * random.uniform(1.5, 2.4))
    if random.random() < 0.5:
        canvas.ellipse(y, x, side, side, colour, SIGN)
        canvas.ellipse(y, x, 0.55 * side, 0.55 * side, WHITE, SIGN)
    else:
        canvas.box(y - side, y + side, x - 1.2 * side, x + 1.2 * side, colour, SIGN)


def tree(canvas: Canvas, ground: float, x: float, size: float, random: Random) -> None:
    """A trunk, and a crown of many tufts."""
    canvas.box(ground - 2.2 * size, ground, x - 0.12 * size, x + 0.12 * size, (0.27, 0.2, 0.14), TREE)
    leaves = tone(random, 0.8, 1.2, 0.2) * np.array([0.24, 0.36, 0.15], np.float32)
    for _ in range(14):
        y, at = ground - size * random.uniform(1.7, 4.0), x + size * random.uniform(-0.9, 0.9)
        half = size * random.uniform(0.25, 0.65)
        canvas.ellipse(y, at, half, half, leaves * np.float32(random.uniform(0.7, 1.25)), TREE)


def pedestrian(canvas: Canvas, ground: float, x: float, size: float, random: Random) -> None:
    """Somebody who stands or walks."""
    tall = size * random.uniform(0.9, 1.2)
    trousers, stride = tone(random, 0.08, 0.45, 0.2), random.uniform(0.02, 0.1) * tall
    for leg in (-stride, stride):
        canvas.box(ground - 0.48 * tall, ground, x + leg - 0.055 * tall, x + leg + 0.055 * tall, trousers, PEDESTRIAN)
    _upper_body(canvas, ground, x, tall, PEDESTRIAN, random)


def bicyclist(canvas: Canvas, ground: float, x: float, size: float, random: Random) -> None:
    """Somebody on a bicycle, seen from any side."""
    apart = size * random.uniform(0.05, 0.4)
    for wheel in (-apart, apart):
        canvas.ellipse(
            ground - 0.22 * size, x + wheel, 0.23 * size, 0.08 * size + 0.35 * apart, DARK, BICYCLIST, ring=0.6
        )
    canvas.box(ground - 0.4 * size, ground - 0.33 * size, x - apart, x + apart, DARK, BICYCLIST)
    legs = tone(random, 0.08, 0.45, 0.2)
    canvas.box(ground - 0.65 * size, ground - 0.15 * size, x - 0.09 * size, x + 0.09 * size, legs, BICYCLIST)
    _upper_body(canvas, ground - 0.2 * size, x, size * random.uniform(0.85, 1.0), BICYCLIST, random)


def clutter(canvas: Canvas, ground: float, x: float, size: float, random: Random) -> None:
    """Bins, boxes and the like, which have no class."""
    half, tall = size * random.uniform(0.12, 0.3), size * random.uniform(0.3, 0.8)
    canvas.box(ground - tall, ground, x - half, x + half, tone(random, 0.1, 0.6, 0.5), VOID)


def _upper_body(canvas: Canvas, ground: float, x: float, tall: float, label: int, random: Random) -> None:
    coat = np.clip(tone(random, 0.1, 0.8, 0.4), 0.03, 0.95)
    skin = tone(random, 0.35, 0.95, 0.02) * np.array([0.9, 0.7, 0.58], np.float32)
    canvas.ellipse(ground - 0.62 * tall, x, 0.25 * tall, 0.15 * tall, coat, label)
    canvas.ellipse(ground - 0.91 * tall, x, 0.09 * tall, 0.075 * tall, skin, label)
