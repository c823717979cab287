"""Which picture files a folder has, of which class and for which part: names only, nothing is decoded."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from concrete_dropout.data.base import Part
from concrete_dropout.data.picture_file import SUFFIXES
from concrete_dropout.errors import UserError

PART_FOLDERS: dict[str, Part] = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
LAYOUTS = "<root>/train/<class>/... (and val, test), or <root>/<class>/..."

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Files:
    """Picture files of one part, class by class and sorted by name.

    Attributes:
        paths: N files.
        labels: N numbers of classes.
    """

    paths: tuple[Path, ...]
    labels: tuple[int, ...]


def find_pictures(root: Path) -> tuple[tuple[str, ...], Mapping[Part, Files]]:
    """The names of the classes, sorted, and the files of every part that has a folder.

    A folder without parts has its classes at the top; all their files then count as "train".

    Raises:
        UserError: names the folder that does not fit.
    """
    if not root.is_dir():
        raise UserError(f"data.root={root} is no folder. It should hold {LAYOUTS}.")
    parts = _part_folders(root)
    if parts and "train" not in parts:
        raise UserError(f"data.root={root} has {_listed(parts.values())} but no folder train. It should be {LAYOUTS}.")
    if "train" in parts:
        others = [folder.name for folder in _subfolders(root) if folder not in parts.values()]
        if others:
            log.warning("%s is divided into %s; ignored: %s", root, _listed(parts.values()), ", ".join(others))
    found = {part: _read_classes(folder) for part, folder in (parts or {"train": root}).items()}
    names = tuple(sorted(found["train"]))
    if len(names) < 2:
        raise UserError(
            f"{parts.get('train', root)} has one class only, {names[0]!r}. Telling classes apart takes two; "
            f"the layout is {LAYOUTS}."
        )
    for part, classes in found.items():
        if unknown := sorted(set(classes) - set(names)):
            raise UserError(
                f"{parts[part] / unknown[0]} is a class that {parts['train']} does not have ({_some(names)}). "
                "Rename it, add training pictures of it, or remove it."
            )
    numbers = {name: number for number, name in enumerate(names)}
    return names, {part: _joined(classes, numbers) for part, classes in found.items()}


def _part_folders(root: Path) -> dict[Part, Path]:
    """The folders that are parts by their names, and not classes that happen to be called so."""
    known = ((folder, PART_FOLDERS.get(folder.name.lower())) for folder in _subfolders(root))
    named = {folder: part for folder, part in known if part is not None}
    divided = {folder: part for folder, part in named.items() if _subfolders(folder)}
    if "train" in divided.values() and (flat := sorted(set(named) - set(divided))):
        raise UserError(
            f"{flat[0]} has no folders of classes, as the training pictures have. Sort its pictures into such folders, "
            "or move it elsewhere."
        )
    folders: dict[Part, Path] = {}
    for folder, part in divided.items():
        if part in folders:
            raise UserError(f"data.root={root} has both {folders[part].name} and {folder.name}. Keep one of them.")
        folders[part] = folder
    return {part: folders[part] for part in get_args(Part) if part in folders}


def _read_classes(folder: Path) -> dict[str, list[Path]]:
    """The pictures below each subfolder, at any depth."""
    classes = {entry.name: _pictures_below(entry) for entry in _subfolders(folder)}
    if not any(classes.values()):
        raise UserError(
            f"{folder} has no pictures in folders of classes. Pictures end in {', '.join(SUFFIXES)}; the layout is "
            f"{LAYOUTS}."
        )
    if loose := [entry.name for entry in folder.iterdir() if _is_picture(entry.name) and entry.is_file()]:
        raise UserError(
            f"{folder / sorted(loose)[0]} is in no folder of a class ({len(loose)} such pictures). Move it."
        )
    for name, paths in classes.items():
        if not paths:
            raise UserError(
                f"{folder / name} is a class without pictures (files ending in {', '.join(SUFFIXES)}). Add some, or "
                "remove the folder."
            )
    return classes


def _pictures_below(folder: Path) -> list[Path]:
    found = []
    for place, subfolders, files in os.walk(folder):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        found += [Path(place, name) for name in files if _is_picture(name)]
    return sorted(found)


def _is_picture(name: str) -> bool:
    return not name.startswith(".") and name.lower().endswith(SUFFIXES)


def _subfolders(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith(".") and entry.is_dir())


def _joined(classes: Mapping[str, list[Path]], numbers: Mapping[str, int]) -> Files:
    pairs = [(path, numbers[name]) for name in sorted(classes) for path in classes[name]]
    return Files(tuple(path for path, _ in pairs), tuple(label for _, label in pairs))


def _listed(folders: Iterable[Path]) -> str:
    return " and ".join(folder.name for folder in folders)


def _some(names: tuple[str, ...], most: int = 12) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
