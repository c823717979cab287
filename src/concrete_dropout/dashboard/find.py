"""Finds runs, studies and sweeps below a folder by the files that they leave."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from concrete_dropout import runfolder
from concrete_dropout.report.record import SIGNS

RUN_SIGNS = frozenset({*SIGNS, runfolder.JOB})
GROUP_SIGNS = frozenset({runfolder.STUDY, runfolder.SWEEP})
# Inside of a run there are no runs; W&B's folders have a config.yaml of their own.
NOT_ENTERED = frozenset({runfolder.CHECKPOINTS, runfolder.FIGURES, runfolder.IMAGES, runfolder.VIDEOS, "wandb"})
MAX_DEPTH = 8


@dataclass(frozen=True)
class Place:
    """A folder that holds a run, or a study or sweep of runs.

    Args:
        path: from the folder that was searched.
        group: path of the study or sweep that a run belongs to; "" for none.
        is_group: whether it is a study or sweep itself.
        files: name -> (time in ns, size) of its files, as they were found.
    """

    path: str
    group: str
    is_group: bool
    files: dict[str, tuple[int, int]]


def find(root: Path, skip: Iterable[Path] = ()) -> list[Place]:
    """All places below a folder, itself included, ordered by their paths.

    Links are not followed, and folders that cannot be read are passed by.
    """
    skipped = {str(path.resolve()) for path in skip}
    found: list[Place] = []
    waiting: list[tuple[str, str, int]] = [("", "", 0)]
    while waiting:
        path, group, depth = waiting.pop()
        absolute = str(root / path) if path else str(root)
        files, folders = _listed(absolute)
        is_group = bool(GROUP_SIGNS & files.keys())
        is_run = bool(RUN_SIGNS & files.keys()) and not is_group
        if is_group or is_run:
            found.append(Place(path, group, is_group, files))
        if is_run or depth == MAX_DEPTH:
            continue
        inside = path if is_group else group
        for name in folders:
            if os.path.realpath(os.path.join(absolute, name)) not in skipped:
                waiting.append((f"{path}/{name}" if path else name, inside, depth + 1))
    return sorted(found, key=lambda place: place.path)


def _listed(folder: str) -> tuple[dict[str, tuple[int, int]], list[str]]:
    files: dict[str, tuple[int, int]] = {}
    folders: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in NOT_ENTERED and not entry.name.startswith("."):
                            folders.append(entry.name)
                    elif entry.name.endswith((".json", ".csv", ".yaml", ".html")):
                        stat = entry.stat()
                        files[entry.name] = (stat.st_mtime_ns, stat.st_size)
                except OSError:  # gone since it was listed
                    continue
    except OSError:
        pass
    return files, folders
