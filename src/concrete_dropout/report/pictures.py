"""Pictures of a run inside of its report: PNG files as data, so that the page stays one file."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from concrete_dropout.report.html import Html, tag
from concrete_dropout.runfolder import IMAGES, own_file

MAX_BYTES = 5_000_000  # of all pictures of a page; in base64 they take a third more
SIGNATURE, END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"
SMALL = 128  # pixels; smaller pictures are shown with their pixels as squares


@dataclass(frozen=True)
class Picture:
    """A PNG file as a data URI, with its size in pixels."""

    uri: str
    width: int
    height: int


def read_pictures(
    folder: Path, names: Iterable[str], problems: list[str], max_bytes: int = MAX_BYTES
) -> dict[str, Picture]:
    """Pictures of a run folder by their paths.

    Args:
        folder: of the run.
        names: paths as its files give them, the most important first. What is no plain name in ``images/`` is ignored.
        problems: gets a line for every picture that is damaged.
        max_bytes: of all pictures together; the rest is left out.
    """
    found: dict[str, Picture] = {}
    for name in dict.fromkeys(names):
        if not re.fullmatch(rf"{IMAGES}/[\w.-]+\.png", name) or not (path := own_file(folder, name)).is_file():
            continue
        if (size := path.stat().st_size) > max_bytes:
            continue
        picture = decode(path.read_bytes())
        if picture is None:
            problems.append(f"{name} is no whole PNG picture; it was left out.")
            continue
        max_bytes -= size
        found[name] = picture
    return found


def decode(content: bytes) -> Picture | None:
    """The bytes of a PNG file as a picture; None where they are something else, or not all there."""
    if not content.startswith(SIGNATURE) or not content.endswith(END) or content[12:16] != b"IHDR":
        return None
    width, height = (int.from_bytes(content[start : start + 4], "big") for start in (16, 20))
    return Picture(f"data:image/png;base64,{base64.b64encode(content).decode()}", width, height)


def tile(picture: Picture | None, alt: str, caption: object = None) -> Html:
    """A picture with its caption, as wide as its place; words in its place where it is missing."""
    if picture is None:
        shown = tag("div", "no picture", class_="absent", role="img", aria_label=f"{alt}: no picture")
    else:
        small = max(picture.width, picture.height) < SMALL
        shown = tag(
            "img",
            src=picture.uri,
            alt=alt,
            width=picture.width,
            height=picture.height,
            class_="small" if small else None,
        )
    return tag("figure", shown, tag("figcaption", caption) if caption else None, class_="tile")
