"""Frames of the cart-pole."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageDraw

from concrete_dropout.control.cartpole import CartPole

WIDTH, HEIGHT, REACH = 480, 320, 3.0  # in pixels, and in m from edge to edge
SMOOTH = 2  # drawn so much larger, then made smaller: PIL draws jagged lines
PAPER, RAIL, CART, POLE, GOAL, PUSH = "#ffffff", "#9aa0a6", "#3c4043", "#c5221f", "#188038", "#1a73e8"
RAIL_HEIGHT = 0.6  # of the picture, from the top
CART_SIZE, WHEEL, POLE_WIDTH, GOAL_SIZE = (0.3, 0.16), 0.05, 0.045, 0.06  # in m
PUSH_LENGTH = 0.5  # in m, at the largest force


def draw_cartpole(system: CartPole, state: npt.NDArray[np.float64], force: float = 0.0) -> npt.NDArray[np.uint8]:
    """A frame (320, 480, 3): rail, cart, pole, the goal of its tip, and the force as a bar.

    The picture follows a cart that leaves it, by whole widths.
    """
    unit = SMOOTH * WIDTH / REACH
    x = float(state[0])
    page = REACH * math.floor((x + REACH / 2) / REACH)
    rail = SMOOTH * HEIGHT * RAIL_HEIGHT

    def at(right: float, up: float) -> tuple[float, float]:
        return (right - page) * unit + SMOOTH * WIDTH / 2, rail - up * unit

    image = Image.new("RGB", (SMOOTH * WIDTH, SMOOTH * HEIGHT), PAPER)
    draw = ImageDraw.Draw(image)
    draw.line([(0, rail), (SMOOTH * WIDTH, rail)], RAIL, 2 * SMOOTH)
    _disc(draw, at(0.0, system.pole_length), GOAL_SIZE * unit, GOAL)
    half, tall = CART_SIZE[0] / 2, CART_SIZE[1]
    draw.rectangle([at(x - half, tall / 2), at(x + half, -tall / 2)], CART)
    for side in (-1, 1):
        _disc(draw, at(x + side * half * 0.6, -tall / 2), WHEEL * unit, RAIL)
    if force:
        end = x + PUSH_LENGTH * force / system.max_force
        draw.line([at(x, -2 * tall), at(end, -2 * tall)], PUSH, 6 * SMOOTH)
    tip = system.tip(torch.as_tensor(state)).tolist()
    draw.line([at(x, 0.0), at(*tip)], POLE, round(POLE_WIDTH * unit))
    for end_of_pole in (at(x, 0.0), at(*tip)):
        _disc(draw, end_of_pole, POLE_WIDTH / 2 * unit, POLE)
    return np.asarray(image.resize((WIDTH, HEIGHT), Image.Resampling.BOX))


def _disc(draw: ImageDraw.ImageDraw, centre: tuple[float, float], radius: float, colour: str) -> None:
    x, y = centre
    draw.ellipse([x - radius, y - radius, x + radius, y + radius], colour)
