"""Figures as SVG files: lines, dots and error bars in one panel or several; text alone, no browser and no library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from .axes import Axis, Scale, across, upwards, width_of

LEFT, TOP, BOTTOM, GAP = 60, 30, 45, 14
HEADING = 20  # above a panel that has a title of its own
WIDE, SMALL = (410, 245), (215, 130)  # of the area inside of the axes
COLOURS = ("#3b5bdb", "#e8590c", "#2b8a3e", "#9c36b5", "#0b7285", "#846358")
# From a low value to a high one, for lines that differ by a number.
SHADES = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (235, 190, 20))
DASHES = ' stroke-dasharray="5 4"'


@dataclass(frozen=True)
class Line:
    """One line of a panel.

    Args:
        name: in the legend, "" for none.
        points: x and y.
        colour: place in the list of colours, or a colour.
        thin: a single run beside a mean.
        dashed: to tell two lines of one colour apart.
        errors: half of the length of an error bar, one for each point; none where it is empty.
        dots: mark the points.
        joined: draw the line itself.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    colour: int | str = 0
    thin: bool = False
    dashed: bool = False
    errors: tuple[float, ...] = ()
    dots: bool = False
    joined: bool = True

    @property
    def paint(self) -> str:
        """Its colour as SVG wants it."""
        return self.colour if isinstance(self.colour, str) else COLOURS[self.colour % len(COLOURS)]

    @property
    def heights(self) -> list[float]:
        """Everything that must have room above each other: points and the ends of their error bars."""
        ends = [y + sign * e for (_, y), e in zip(self.points, self.errors, strict=False) for sign in (-1, 1)]
        return [*(y for _, y in self.points), *ends]


@dataclass(frozen=True)
class Panel:
    """Lines with their axes; ``diagonal`` is where y equals x."""

    title: str
    x: Axis
    y: Axis
    lines: Sequence[Line] = field(default_factory=tuple)
    diagonal: bool = False

    @property
    def has_points(self) -> bool:
        """Whether there is anything to draw."""
        return any(line.points for line in self.lines)


def chart(title: str, x: str, y: str, lines: Sequence[Line]) -> str:
    """One panel of lines as an SVG document."""
    return figure(title, [Panel("", Axis(x), Axis(y), lines)])


def figure(title: str, panels: Sequence[Panel], columns: int = 1, size: tuple[int, int] | None = None) -> str:
    """Panels in rows as an SVG document, with one legend for all of them.

    Args:
        title: of the whole.
        panels: at least one, each with a point at least.
        columns: panels of a row.
        size: of the area inside of the axes.
    """
    width, height = size or (WIDE if len(panels) == 1 else SMALL)
    heading = HEADING if any(panel.title for panel in panels) else 0
    columns = min(columns, len(panels))
    cell = LEFT + width + GAP, heading + height + BOTTOM
    named = list({line.name: line for panel in panels for line in panel.lines if line.name}.values())
    legend = max((width_of(line.name) for line in named), default=0) + (44 if named else 0)
    rows = -(-len(panels) // columns)
    whole = round(max(columns * cell[0] + legend, LEFT + 1.1 * width_of(title))), TOP + rows * cell[1]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole[0]} {whole[1]}" width="{whole[0]}" '
        f'font-family="sans-serif" font-size="12">',
        f'<rect width="{whole[0]}" height="{whole[1]}" fill="white"/>',
        _text(LEFT, 18, title, "start", "bold"),
    ]
    for i, panel in enumerate(panels):
        corner = LEFT + (i % columns) * cell[0], TOP + heading + (i // columns) * cell[1]
        parts.append(f'<g transform="translate({corner[0]} {corner[1]})">')
        parts += [*_panel(panel, width, height), "</g>"]
    for i, line in enumerate(named):
        parts += _entry(line, columns * cell[0], TOP + heading + 8 + 18 * i)
    return "\n".join([*parts, "</svg>", ""])


def shade(share: float) -> str:
    """A colour between the low end of the shades and their high end.

    >>> shade(0.0), shade(1.0)
    ('#440154', '#ebbe14')
    """
    place = share * (len(SHADES) - 1)
    i = min(int(place), len(SHADES) - 2)
    mixed = [round(a + (place - i) * (b - a)) for a, b in zip(SHADES[i], SHADES[i + 1], strict=True)]
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _panel(panel: Panel, width: int, height: int) -> list[str]:
    xs = [x for line in panel.lines for x, _ in line.points]
    x_scale = across(panel.x, xs, width)
    y_scale = upwards(panel.y, [y for line in panel.lines for y in line.heights], height)
    parts = [_text(width / 2, -8, panel.title)] if panel.title else []
    parts += [
        _text(width / 2, height + 35, panel.x.label),
        f'<text transform="translate(-46 {height / 2:.0f}) rotate(-90)" text-anchor="middle">'
        f"{escape(panel.y.label)}</text>",
    ]
    for value, text in y_scale.ticks:
        level = height * (1 - y_scale.share(value))
        parts.append(f'<path d="M0 {level:.1f}H{width}" stroke="#dee2e6"/>')
        parts.append(_text(-6, level + 4, text, "end"))
    for value, text in x_scale.ticks:
        place = width * x_scale.share(value)
        if not panel.x.names:
            parts.append(f'<path d="M{place:.1f} {height}v4" stroke="#868e96"/>')
        parts.append(_text(place, height + 17, text))
    if panel.diagonal:
        parts.append(f'<path d="M0 {height}L{width} 0" stroke="#868e96"{DASHES}/>')
    for line in panel.lines:
        parts += _line(line, x_scale, y_scale, width, height)
    return parts


def _line(line: Line, x_scale: Scale, y_scale: Scale, width: int, height: int) -> list[str]:
    def place(x: float, y: float) -> tuple[float, float]:
        return width * x_scale.share(x), height * (1 - y_scale.share(y))

    # A number that is not positive has no place on an axis of ratios.
    shown = [i for i, (_, y) in enumerate(line.points) if y > 0 or not y_scale.log]
    places = [place(*line.points[i]) for i in shown]
    parts = []
    if line.joined and len(places) > 1:
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        style = 'stroke-width="1" opacity="0.4"' if line.thin else f'stroke-width="2.5"{_dashes(line)}'
        parts.append(f'<polyline points="{path}" fill="none" stroke="{line.paint}" {style}/>')
    for i in shown:
        (x, y), error = line.points[i], line.errors[i] if line.errors else 0.0
        if error > 0:
            (a, top), (_, bottom) = place(x, y + error), place(x, y - error)
            path = f"M{a:.1f} {top:.1f}V{bottom:.1f}M{a - 3:.1f} {top:.1f}h6M{a - 3:.1f} {bottom:.1f}h6"
            parts.append(f'<path d="{path}" stroke="{line.paint}" stroke-width="1.3" fill="none"/>')
    if line.dots or (line.joined and len(places) == 1):
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{line.paint}"/>' for a, b in places]
    return parts


def _entry(line: Line, left: float, level: float) -> list[str]:
    """A line of the legend."""
    parts = []
    if line.joined:
        parts.append(f'<path d="M{left} {level}h22" stroke="{line.paint}" stroke-width="2.5"{_dashes(line)}/>')
    if line.dots:
        parts.append(f'<circle cx="{left + 11}" cy="{level}" r="3" fill="{line.paint}"/>')
    return [*parts, _text(left + 30, level + 4, line.name, "start")]


def _dashes(line: Line) -> str:
    return DASHES if line.dashed else ""


def _text(x: float, y: float, text: str, anchor: str = "middle", weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>'
