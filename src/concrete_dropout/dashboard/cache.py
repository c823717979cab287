"""What earlier builds have read: a run whose files have not changed since is not read again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from concrete_dropout import runfolder
from concrete_dropout.dashboard.pack import replace_file
from concrete_dropout.report.record import SIGNS, mapping

NAME = "cache.json"
FORMAT = 3  # of rows and files: raised with every change of what is kept of a run
# The files that a run's entry is made of.
SOURCES = frozenset(
    {
        *SIGNS,
        runfolder.JOB,
        runfolder.CONFIG_DIFF,
        runfolder.CONVERGENCE,
        runfolder.CALIBRATION,
        runfolder.UNCERTAINTY,
        runfolder.BAND,
        runfolder.SELECTIVE,
        runfolder.CLASSES,
        runfolder.GALLERY,
        runfolder.MAPS,
        runfolder.CONTROL,
        runfolder.SUMMARY,
        runfolder.REPLICAS,
        runfolder.REPLICA_LABELS,
    }
)


class Cache:
    """Entries by the paths of their runs, kept in one file of the site.

    Args:
        folder: of the site.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / NAME
        self.entries: dict[str, dict[str, Any]] = {}
        try:
            content = mapping(json.loads(self.file.read_text(encoding="ascii")))
        except (OSError, ValueError, RecursionError):  # none yet, or a damaged one: everything is read again
            return
        if content.get("format") == FORMAT:
            self.entries = mapping(content.get("entries"))

    def get(self, path: str, files: Mapping[str, tuple[int, int]]) -> dict[str, Any] | None:
        """What is known about a run, if its files are those that were read."""
        entry = self.entries.get(path)
        return entry if isinstance(entry, dict) and entry.get("files") == fingerprint(files) else None

    def put(self, path: str, files: Mapping[str, tuple[int, int]], entry: dict[str, Any]) -> dict[str, Any]:
        """Remember what was read from a run's files."""
        self.entries[path] = {**entry, "files": fingerprint(files)}
        return self.entries[path]

    def keep(self, paths: set[str]) -> None:
        """Forget runs that are gone."""
        self.entries = {path: entry for path, entry in self.entries.items() if path in paths}

    def save(self) -> None:
        """Write the file."""
        text = json.dumps({"format": FORMAT, "entries": self.entries}, separators=(",", ":"), allow_nan=False)
        replace_file(self.file, text.encode("ascii"))


def fingerprint(files: Mapping[str, tuple[int, int]]) -> dict[str, list[int]]:
    """Times and sizes of the files that count."""
    return {name: list(files[name]) for name in sorted(SOURCES & files.keys())}
