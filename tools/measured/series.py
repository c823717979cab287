"""Which line of a figure a group of repeats belongs to: its name in the legend, and its colour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .store import KINDS
from .tables import Group, dropout_words


@dataclass(frozen=True)
class Series:
    """Groups that one line joins."""

    name: str
    colour: int
    groups: tuple[Group, ...]


def series(found: Iterable[Group]) -> list[Series]:
    """Groups by kind of dropout, p and settings, in the order in which they come.

    Settings that all have in common are not named. The first of every kind has the kind's colour, the same in all
    figures; others have what is left.
    """
    lines: dict[tuple[str, str, str], list[Group]] = {}
    for group in found:
        lines.setdefault((group.kind, group.values["p"], group.values["settings"]), []).append(group)
    words = [set(settings.split()) for _, _, settings in lines]
    common = set.intersection(*words) if words else set()
    made: list[Series] = []
    for (kind, _, settings), groups in lines.items():
        colour = colour_of(kind, [line.colour for line in made])
        told = " ".join(word for word in settings.split() if word not in common)
        name = dropout_words(groups[0].values) + (f", {told}" if told else "")
        made.append(Series(name, colour, tuple(groups)))
    return made


def depth_name(number: int) -> str:
    """The place of a dropout, counted from 0: names of modules differ between networks, and say less."""
    return f"in front of layer {number + 1}"


def colour_of(kind: str, taken: Sequence[int] = ()) -> int:
    """The colour of a kind of dropout, the same in all figures; where that is taken, the next that no kind has.

    >>> colour_of("none"), colour_of("concrete", [0, 1]), colour_of("none", [0, 2])
    (0, 2, 3)
    """
    own = KINDS.index(kind) if kind in KINDS else len(KINDS)
    return own if own not in taken else max(len(KINDS) - 1, *taken) + 1
