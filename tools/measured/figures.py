"""Line charts as SVG files: a few lines of text, no browser and no library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 60, 170, 30, 45
COLOURS = ("#3b5bdb", "#e8590c", "#2b8a3e", "#9c36b5", "#0b7285", "#846358")
TICKS = 5  # at least so many on the y axis


@dataclass(frozen=True)
class Line:
    """One line of a chart: its name in the legend ("" for none), points, and place in the list of colours."""

    name: str
    points: tuple[tuple[float, float], ...]
    colour: int = 0
    thin: bool = False


def chart(title: str, x: str, y: str, lines: Sequence[Line], log_x: bool = False) -> str:
    """A chart of lines as an SVG document; y starts at 0 where all values are positive."""
    points = [point for line in lines for point in line.points]
    across = [_along(value, log_x) for value, _ in points]
    low_x, high_x = min(across), max(across)
    levels = _round_levels(min(0.0, *(value for _, value in points)), max(value for _, value in points))
    low_y, high_y = levels[0], levels[-1]

    def place(value: float, height: float) -> tuple[float, float]:
        share = (_along(value, log_x) - low_x) / ((high_x - low_x) or 1.0)
        level = (height - low_y) / ((high_y - low_y) or 1.0)
        return LEFT + share * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - level * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 18, title, "start", "bold"),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x),
        f'<text transform="translate(14 {HEIGHT / 2:.0f}) rotate(-90)" text-anchor="middle">{escape(y)}</text>',
    ]
    for height in levels:
        level = place(points[0][0], height)[1]
        parts.append(f'<path d="M{LEFT} {level:.1f}H{WIDTH - RIGHT}" stroke="#dee2e6"/>')
        parts.append(_text(LEFT - 6, level + 4, f"{height:g}", "end"))
    for value in _ticks(sorted({value for value, _ in points})):
        parts.append(_text(place(value, low_y)[0], HEIGHT - BOTTOM + 16, f"{value:g}"))
    named = [line for line in lines if line.name]
    for line in lines:
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in (place(*point) for point in line.points))
        style = 'stroke-width="1" opacity="0.4"' if line.thin else 'stroke-width="2.5"'
        parts.append(f'<polyline points="{path}" fill="none" stroke="{_colour(line)}" {style}/>')
    for i, line in enumerate(named):
        level = TOP + 16 * i
        parts.append(f'<path d="M{WIDTH - RIGHT + 12} {level}h18" stroke="{_colour(line)}" stroke-width="2.5"/>')
        parts.append(_text(WIDTH - RIGHT + 36, level + 4, line.name, "start"))
    return "\n".join([*parts, "</svg>", ""])


def _along(value: float, log_x: bool) -> float:
    return math.log10(value) if log_x else value


def _round_levels(low: float, high: float) -> list[float]:
    """Round numbers from below the lowest value to above the highest.

    >>> _round_levels(0.0, 17.9)[-2:], _round_levels(-0.3, 0.0)[:2]
    ([16.0, 18.0], [-0.3, -0.25])
    """
    span = (high - low) or 1.0
    size = 10.0 ** math.floor(math.log10(span / TICKS))
    step = max(size * factor for factor in (1, 2, 5) if size * factor <= span / TICKS * (1 + 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, max(last, first + 1) + 1)]


def _ticks(values: list[float]) -> list[float]:
    """All x where there are few, else some of them."""
    every = math.ceil(len(values) / 8)
    return values[::every]


def _colour(line: Line) -> str:
    return COLOURS[line.colour % len(COLOURS)]


def _text(x: float, y: float, text: str, anchor: str = "middle", weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>'
