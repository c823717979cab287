"""Which files are finished: a table that grows by one line for each, after all its results are on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from concrete_dropout.prediction.sources import Source
from concrete_dropout.runfolder import naming

NAME = "finished.jsonl"


class Journal:
    """Lines of JSON, of which the last may be cut short by a kill: it then does not count.

    A file is finished if a line has its name, size, time of change and these settings, and its results are there.

    Args:
        folder: of the results.
        settings: a text that is different for everything that would change a result.
    """

    def __init__(self, folder: Path, settings: str) -> None:
        self.folder, self.settings = folder, settings
        self._path = folder / NAME
        self._lines: dict[str, dict[str, Any]] = {}
        if self._path.is_file():
            self._read()

    def values(self, source: Source) -> dict[str, Any] | None:
        """What was noted of a finished file; None for one that is not."""
        line = self._lines.get(source.name)
        if line is None or line["id"] != self._identity(source):
            return None
        if not all((self.folder / name).is_file() for name in line["files"]):
            return None
        values: dict[str, Any] = line["values"]
        return values

    def add(self, source: Source, values: Mapping[str, Any], files: Sequence[str] = ()) -> None:
        """Note that a file is finished; on disk when this returns."""
        line = {"name": source.name, "id": self._identity(source), "files": list(files), "values": dict(values)}
        with naming(self._path):
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._lines[source.name] = line

    def _identity(self, source: Source) -> list[Any]:
        return [source.size, source.mtime_ns, self.settings]

    def _read(self) -> None:
        content = self._path.read_bytes()
        whole, _, cut = content.rpartition(b"\n")
        for text in whole.split(b"\n"):
            try:
                line = json.loads(text)
                if {"name", "id", "files", "values"} <= set(line):
                    self._lines[line["name"]] = line
            except (ValueError, TypeError):
                continue
        if cut:  # or the next line would be written behind it
            with self._path.open("ab") as file:
                file.write(b"\n")
