"""One generated road scene: a street in perspective, what stands and moves in it, and the light of the day.

Lengths are in heights of the camera. Ground that is seen d pixels below the horizon is so far away that one length is
d pixels there: what stands on it with height h reaches h * d pixels up, and a place X to the right is X * d pixels
right of the vanishing point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from concrete_dropout.data import scene_things as things
from concrete_dropout.data.labelled_images import VOID, Bytes, planes_of
from concrete_dropout.data.scene_canvas import Canvas, Floats, Random, blurred, clouds, developed, textured, tone
from concrete_dropout.data.scene_things import BUILDING, FENCE, PAVEMENT, ROAD, SKY, TREE, Thing

# How many there are at the most, and whether they keep to the road.
THINGS: tuple[tuple[Thing, int, bool], ...] = (
    (things.car, 6, True),
    (things.pole, 5, False),
    (things.tree, 3, False),
    (things.pedestrian, 6, False),
    (things.bicyclist, 2, True),
    (things.clutter, 1, False),
)
NUM_HOUSES = 16  # on a side, the last without end


@dataclass(frozen=True)
class Street:
    """Where things are.

    Attributes:
        horizon: row.
        vanishing: column of the vanishing point.
        depth: rows of ground in view.
        road: left and right edge.
        pavement: left and right outer edge of the pavements, where fences and walls begin.
    """

    horizon: float
    vanishing: float
    depth: float
    road: tuple[float, float]
    pavement: tuple[float, float]


def paint_scene(random: Random, height: int, width: int) -> Bytes:
    """Planes (4, H, W): red, green, blue and class, VOID where there is none.

    >>> planes = paint_scene(np.random.default_rng(0), 60, 80)
    >>> planes.shape, bool((planes[3] == ROAD).any() and (planes[3] == SKY).any())
    ((4, 60, 80), True)
    """
    canvas, street = Canvas.empty(height, width), _lay_out(random, height, width)
    _paint_sky(canvas, street, random)
    middle = round(street.vanishing)
    _paint_side(canvas.part(columns=slice(0, middle)), street, street.pavement[0], random)
    _paint_side(canvas.part(columns=slice(middle, None)), street, street.pavement[1], random)
    _paint_ground(canvas.part(rows=slice(round(street.horizon), None)), street, random)
    _paint_things(canvas, street, random)
    _paint_bonnet(canvas, random)
    return planes_of(developed(_photograph(canvas, street, random)).transpose(1, 2, 0), canvas.mask)


def _lay_out(random: Random, height: int, width: int) -> Street:
    horizon = height * random.uniform(0.36, 0.5)
    left, right = -random.uniform(1.6, 4.0), random.uniform(1.6, 4.0)
    return Street(
        horizon=horizon,
        vanishing=width * random.uniform(0.35, 0.65),
        depth=height - horizon,
        road=(left, right),
        pavement=(left - random.uniform(0.7, 2.0), right + random.uniform(0.7, 2.0)),
    )


def _paint_sky(canvas: Canvas, street: Street, random: Random) -> None:
    blue, grey = np.array([0.45, 0.62, 0.88], np.float32), np.array([0.78, 0.79, 0.8], np.float32)
    base = blue + (grey - blue) * np.float32(random.random())
    drift = clouds(random, canvas, 16)
    light = 0.85 + 0.2 * canvas.y / street.horizon + random.uniform(0, 0.1) * drift
    canvas.paint(np.ones(canvas.mask.shape, bool), textured(base, light), SKY)
    # What closes the street at its far end.
    outline = random.uniform(0, 0.08) + 0.02 * drift[:1]
    label, colour = (TREE, (0.28, 0.36, 0.24)) if random.random() < 0.6 else (BUILDING, (0.5, 0.45, 0.43))
    canvas.paint(canvas.y >= street.horizon - canvas.height * outline, textured(colour, 1 + 0.06 * drift), label)


def _paint_side(canvas: Canvas, street: Street, edge: float, random: Random) -> None:
    """Houses, hedges and fences along the outer edge of one pavement, on the part of the canvas beside the road."""
    length = np.maximum((canvas.x - street.vanishing) / edge, np.float32(1e-2))  # (1, W): pixels of one length
    along = street.depth / length  # (1, W): distance along the street, 1 at the lower border
    up = (street.horizon + length - canvas.y) / length  # (H, W): height above the ground
    noise = clouds(random, canvas, 4)
    # Houses further on are longer: what one cannot tell apart is not drawn apart.
    borders = np.cumsum(random.uniform(0.4, 2.0, NUM_HOUSES - 1) * 1.2 ** np.arange(NUM_HOUSES - 1))
    house = np.digitize(along[0], borders)

    def some(share: float, low: float, high: float) -> Floats:
        """(1, W): a height for a share of the houses, 0 for the others."""
        heights = np.where(random.random(NUM_HOUSES) < share, random.uniform(low, high, NUM_HOUSES), 0)
        return heights.astype(np.float32)[house][None]

    roof = some(0.8, 2.5, 9.0)
    fronts = np.stack([tone(random, 0.3, 0.75, 0.18) for _ in range(NUM_HOUSES)], axis=1)[:, None, house]  # (3, 1, W)
    floor, column = random.uniform(0.9, 1.6), random.uniform(0.15, 0.4)
    windows = ((up / floor) % 1 > 0.45) & ((along / column) % 1 > 0.5) & (up > 0.4) & (up < roof - 0.3)
    canvas.paint((up < roof) & (length > 1), fronts * (1 + 0.06 * noise - np.float32(0.3) * windows), BUILDING)
    hedge = some(0.45, 0.8, 3.0)
    leaves = tone(random, 0.8, 1.2, 0.2) * np.array([0.25, 0.36, 0.17], np.float32)
    canvas.paint((up < hedge + 0.25 * noise) & (hedge > 0), textured(leaves, 1 + 0.25 * noise), TREE)
    bars = 0.75 + np.float32(0.25) * ((along / 0.08) % 1 > 0.5) * (length > 3) + 0.04 * noise
    canvas.paint(up < some(0.4, 0.5, 1.0), textured(tone(random, 0.3, 0.7, 0.15), bars), FENCE)


def _paint_ground(canvas: Canvas, street: Street, random: Random) -> None:
    below = np.maximum(canvas.y - street.horizon, np.float32(1e-2))
    across = (canvas.x - street.vanishing) / below
    grain = clouds(random, canvas, 4) + random.standard_normal(canvas.mask.shape, dtype=np.float32)
    on_pavement = (across > street.pavement[0]) & (across < street.pavement[1])
    on_road = (across > street.road[0]) & (across < street.road[1])
    canvas.paint(on_pavement, textured(tone(random, 0.45, 0.65, 0.07), 1 + 0.04 * grain), PAVEMENT)
    canvas.paint(on_road, textured(tone(random, 0.3, 0.48, 0.03), 1 + 0.05 * grain), ROAD)
    middle, distance = sum(street.road) / 2, street.depth / below
    canvas.paint((np.abs(across - middle) < 0.06) & (distance / 0.6 % 1 < 0.5), (0.8, 0.8, 0.78), ROAD)
    for edge in street.road:
        canvas.paint(on_road & (np.abs(across - edge) < 0.05), (0.62, 0.61, 0.58), ROAD)


def _paint_things(canvas: Canvas, street: Street, random: Random) -> None:
    """From far to near."""
    placed: list[tuple[float, float, Thing]] = []
    for thing, most, on_road in THINGS:
        for _ in range(random.integers(0, most + 1)):
            size = street.depth / random.uniform(1.3, 9.0)  # even along the street, as far as one can tell
            side = random.integers(2)
            kerb, edge = street.road[side], street.pavement[side]
            at = random.uniform(0.25, 0.85) * kerb if on_road else kerb + random.uniform(0.15, 0.9) * (edge - kerb)
            placed.append((size, at, thing))
    for size, at, thing in sorted(placed, key=lambda entry: entry[0]):
        thing(canvas, street.horizon + size, street.vanishing + at * size, size, random)


def _paint_bonnet(canvas: Canvas, random: Random) -> None:
    """Some images show the car with the camera at their lower border; it has no class."""
    if random.random() < 0.3:
        tall = canvas.height * random.uniform(0.03, 0.08)
        canvas.ellipse(canvas.height, 0.5 * canvas.width, tall, 0.6 * canvas.width, tone(random, 0.1, 0.6, 0.1), VOID)


def _photograph(canvas: Canvas, street: Street, random: Random) -> Floats:
    """The colours (3, H, W) as a camera sees them: daylight, haze, passing shade, blur and noise."""
    light = textured(tone(random, 0.6, 1.25, 0.08), 1 + random.uniform(0, 0.12) * clouds(random, canvas, 24))
    near = np.clip(np.abs(canvas.y - street.horizon) / (0.4 * canvas.height), 0, 1)
    haze = random.uniform(0, 0.3) * (1 - near)
    seen = (canvas.image + haze * (np.float32(0.7) - canvas.image)) * light
    noise = random.standard_normal(canvas.image.shape, dtype=np.float32)
    return blurred(seen) + random.uniform(0.01, 0.04) * noise
