from __future__ import annotations

import re

import pytest

from concrete_dropout.plots.theme import DEPTH_SCALE, INK, MUTED, PALETTE, by_depth, label


def channels(colour: str) -> list[float]:
    found = re.findall(r"[0-9a-fA-F]{2}", colour[1:]) if colour.startswith("#") else re.findall(r"[\d.]+", colour)
    return [int(c, 16) / 255 for c in found] if colour.startswith("#") else [float(c) / 255 for c in found]


def contrast_with_white(colour: str) -> float:
    """The ratio of relative luminances that WCAG 2 defines."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels(colour)]
    return 1.05 / (0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05)


@pytest.mark.parametrize("colour", [INK, MUTED])
def test_text_is_legible_on_white(colour: str) -> None:
    assert contrast_with_white(colour) >= 4.5


@pytest.mark.parametrize("colour", [*PALETTE, *DEPTH_SCALE])
def test_lines_are_visible_on_white(colour: str) -> None:
    assert contrast_with_white(colour) >= 1.8


def test_colours_of_depth_get_lighter() -> None:
    contrasts = [contrast_with_white(colour) for colour in by_depth(60)]
    assert contrasts == sorted(contrasts, reverse=True)
    assert len(by_depth(1)) == 1
    assert by_depth(0) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a&lt;b", "a&amp;lt;b"),
        ("two\nlines\x00", "two lines"),
        ("\ud800lone", "lone"),
        (7, "7"),
        ("x" * 100, "x" * 20 + "…" + "x" * 19),
    ],
)
def test_labels_are_one_line_of_text(text: object, shown: str) -> None:
    assert label(text) == shown
