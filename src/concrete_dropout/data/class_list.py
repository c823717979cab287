"""Which classes there are: from a list in the config, or from a file with label values or colours."""

from __future__ import annotations

import colorsys
import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from concrete_dropout.data.checks import did_you_mean
from concrete_dropout.data.label_files import MAX_CLASSES, MAX_LABEL, Colour, Labels
from concrete_dropout.data.labelled_images import VOID
from concrete_dropout.errors import UserError

COLUMNS = ("name", "label", "r", "g", "b")
# What the columns of a file without a heading are, by their number.
HEADINGS = {1: COLUMNS[:1], 2: COLUMNS[:2], 4: (COLUMNS[0], *COLUMNS[2:]), 5: COLUMNS}


@dataclass(frozen=True)
class ClassEntry:
    """One line of a class list.

    Attributes:
        name: of the class.
        label: its value in label files.
        colour: its colour in label files; None where they have none.
    """

    name: str
    label: int
    colour: Colour | None = None


def class_labels(entries: Sequence[ClassEntry], void: Sequence[int | str], source: str) -> Labels:
    """What label files mean by a class list.

    Args:
        entries: the list.
        void: label values that do not count, or names of entries that are no classes.
        source: where the list is from, for messages.

    >>> entries = [ClassEntry("road", 0), ClassEntry("sky", 1), ClassEntry("other", 2)]
    >>> labels = class_labels(entries, void=[255, "other"], source="data.classes")
    >>> labels.names, labels.classes
    (('road', 'sky'), {0: 0, 1: 1, 2: 255, 255: 255})
    """
    names = [entry.name for entry in entries]
    for word in void:
        if isinstance(word, str) and word not in names:
            raise UserError(f"data.void names {word!r}, which {source} does not have.{did_you_mean(word, names)}")
    _refuse_twice(source, "name", names)
    _refuse_twice(source, "label", [entry.label for entry in entries])
    _refuse_twice(source, "colour", [entry.colour for entry in entries if entry.colour is not None])
    kept = [entry for entry in entries if entry.name not in void]
    if not 2 <= len(kept) <= MAX_CLASSES:
        raise UserError(f"{source} has {len(kept)} classes; segmentation needs 2 to {MAX_CLASSES}.")
    if len({entry.colour is None for entry in entries}) > 1:
        raise UserError(f"{source} gives some classes a colour and others none.")
    number = {entry.name: index for index, entry in enumerate(kept)}
    classes = {entry.label: number.get(entry.name, VOID) for entry in entries}
    for value in (value for value in void if not isinstance(value, str)):
        if classes.get(value, VOID) != VOID:
            raise UserError(
                f"{value} is a label of the class {kept[classes[value]].name!r} in {source}, and in data.void as well. "
                "Take it out of data.void (data.void=[] for none)."
            )
        classes[value] = VOID
    colour_classes = {entry.colour: number.get(entry.name, VOID) for entry in entries if entry.colour is not None}
    shown = [entry.colour or default_colour(index) for index, entry in enumerate(kept)]
    return Labels(tuple(number), tuple(shown), classes, colour_classes)


def entries_of(names: Sequence[str]) -> list[ClassEntry]:
    """Classes whose labels are 0, 1, 2 and so on."""
    return [ClassEntry(str(name).strip(), index) for index, name in enumerate(names)]


def read_class_list(path: Path) -> list[ClassEntry]:
    """The classes of a file: one line each, with the values of a line parted by commas.

    A line has a name; a name and a label; a name and a colour (three numbers); or a name, a label and a colour. A
    heading, such as ``name,label,r,g,b``, may come first. Without labels, the lines count from 0.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise UserError(f"The class list {path} cannot be read ({reason}).") from error
    lines = [
        (number, [cell.strip() for cell in next(csv.reader([line]))])
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        raise UserError(f"The class list {path} is empty.")
    first = tuple(cell.lower() for cell in lines[0][1])
    if first in HEADINGS.values():
        columns, lines = first, lines[1:]
    elif len(first) in HEADINGS:
        columns = HEADINGS[len(first)]
    else:
        raise UserError(
            f"{path}, line {lines[0][0]}: {len(first)} values. A class is a name, optionally with a label, a colour "
            "(three numbers) or both."
        )
    return [_entry(f"{path}, line {number}", columns, cells, index) for index, (number, cells) in enumerate(lines)]


def default_colour(index: int) -> Colour:
    """A colour for class number ``index``, unlike those of its neighbours.

    >>> default_colour(0), default_colour(1)
    ((217, 76, 76), (67, 103, 191))
    """
    hue, value = (index * 0.618034) % 1, (0.85, 0.75, 0.6)[index % 3]
    red, green, blue = colorsys.hsv_to_rgb(hue, 0.65, value)
    return round(255 * red), round(255 * green), round(255 * blue)


def _refuse_twice(source: str, what: str, values: Sequence[object]) -> None:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise UserError(f"{source} has the {what} {value} twice.")


def _entry(place: str, columns: Sequence[str], cells: Sequence[str], index: int) -> ClassEntry:
    if len(cells) != len(columns) or not cells[0]:
        raise UserError(f"{place}: {','.join(cells)!r} should be {','.join(columns)}.")
    values = dict(zip(columns, cells, strict=True))
    numbers = {column: _number(place, column, text) for column, text in values.items() if column != "name"}
    colour = (numbers["r"], numbers["g"], numbers["b"]) if {"r", "g", "b"} <= set(numbers) else None
    return ClassEntry(values["name"], numbers.get("label", index), colour)


def _number(place: str, column: str, text: str) -> int:
    largest = MAX_LABEL if column == "label" else 255
    if not text.isdecimal() or int(text) > largest:
        raise UserError(f"{place}: the {column} {text!r} must be a whole number from 0 to {largest}.")
    return int(text)
