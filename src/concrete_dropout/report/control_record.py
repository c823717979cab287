"""What control.json says about an agent's episodes, as series; damaged entries are left out."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

from concrete_dropout.report.html import Html, tag
from concrete_dropout.report.record import Points, Record, dicts, finite, mapping
from concrete_dropout.runfolder import VIDEOS, own_file

MAX_VIDEO_BYTES = 4_000_000  # of all videos of a page


def is_agent(record: Record) -> bool:
    """Whether a run is an agent's."""
    return bool(episodes(record))


def episodes(record: Record) -> list[dict[str, Any]]:
    """The entries of episodes that have a number and a reward."""
    found = dicts(record.control.get("episodes"))
    return [entry for entry in found if finite(entry.get("episode")) is not None and reward(entry) is not None]


def reward(entry: dict[str, Any], key: str = "mean") -> float | None:
    """Of an episode: "mean" or "std" over starts in the true world."""
    return finite(mapping(entry.get("reward")).get(key))


def component(entry: dict[str, Any], name: str, key: str) -> float | None:
    """Of a component of the state: "error", "epistemic", "aleatoric" or "ratio", one step ahead."""
    return finite(mapping(mapping(entry.get("components")).get(name)).get(key))


def rival(entry: dict[str, Any], name: str) -> float | None:
    """True reward of the policy of the function "draws", or of the best "scout" of the mean model."""
    return finite(mapping(entry.get("rivals")).get(name))


def component_names(record: Record) -> list[str]:
    """Components of the state."""
    return list(dict.fromkeys(str(name) for entry in episodes(record) for name in mapping(entry.get("components"))))


def line(record: Record, read: Any) -> Points:
    """Episodes and values of what ``read`` finds in their entries."""
    pairs = [(float(entry["episode"]), read(entry)) for entry in episodes(record)]
    kept = [(episode, value) for episode, value in pairs if value is not None]
    return [episode for episode, _ in kept], [value for _, value in kept]


def best(record: Record) -> dict[str, Any]:
    """The episode with the highest mean reward."""
    return max(episodes(record), key=lambda entry: reward(entry) or float("-inf"))


def read_videos(folder: Path, control: dict[str, Any], problems: list[str]) -> dict[str, str]:
    """GIF files that the episodes name, as data URIs by path."""
    found: dict[str, str] = {}
    left = MAX_VIDEO_BYTES
    for entry in reversed(dicts(control.get("episodes"))):  # the last ones matter most
        name = str(entry.get("video") or "")
        if not re.fullmatch(rf"{VIDEOS}/[\w.-]+\.gif", name) or not (folder / name).is_file():
            continue
        try:
            content = own_file(folder, name).read_bytes()
        except OSError as error:
            problems.append(f"{name} cannot be read ({error.strerror}); it was left out.")
            continue
        if not content.startswith(b"GIF8") or not content.endswith(b";"):
            problems.append(f"{name} is no whole GIF file; it was left out.")
        elif len(content) <= left:
            left -= len(content)
            found[name] = f"data:image/gif;base64,{base64.b64encode(content).decode()}"
    return found


def film(uri: str, caption: str) -> Html:
    """A video with its caption."""
    return tag("figure", tag("img", src=uri, alt=caption), tag("figcaption", caption), class_="tile")
