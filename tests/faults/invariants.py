"""What must hold of a folder at any moment, however its process has ended: what has its final name is whole."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from PIL import Image

from concrete_dropout.data.image_cache import INDEX, open_cache
from concrete_dropout.folderlock import is_taken

# W&B's own files, and folders whose names say that they are not finished.
NOT_LOOKED_INTO = ("wandb", ".building-")
GROWING = ("metrics.csv", "dropout.csv", "replicas.csv", "finished.jsonl")  # whose last line a kill may cut


def broken_files(folder: Path) -> list[str]:
    """Files under their final name that are not whole, with what is wrong."""
    found = []
    for path in files_of(folder):
        try:
            check(path)
        except Exception as error:  # a broken file makes its reader fail in any way
            found.append(f"{path.relative_to(folder)}: {type(error).__name__}: {str(error)[:200]}")
    return found


def unfinished_files(folder: Path) -> list[str]:
    """Temporary files. A lock file that a killed process left behind locks nothing: see ``held_locks``."""
    found = [path for path in files_of(folder, hidden=True) if not path.name.startswith(".report.html.")]
    left = [path for path in found if path.name.endswith(".tmp")]
    return [str(path.relative_to(folder)) for path in left]


def held_locks(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob(".lock") if is_taken(path.parent)]


def files_of(folder: Path, hidden: bool = False) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        if any(part.startswith(NOT_LOOKED_INTO) for part in inside) or not path.is_file():
            continue
        if hidden or not path.name.startswith("."):
            yield path


def check(path: Path) -> None:
    if path.name == INDEX and (path.parent / "pixels.bin").exists():
        assert open_cache(path.parent) is not None, "the cache cannot be opened"
    if path.suffix in READERS:
        READERS[path.suffix](path)


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _lines(path: Path) -> None:
    for line in path.read_text(encoding="utf-8").splitlines()[:-1]:
        json.loads(line)


def _table(path: Path) -> None:
    text = path.read_text(encoding="utf-8", errors="replace")
    rows = list(csv.reader(io.StringIO(text, newline="")))
    if path.name in GROWING and not text.endswith("\n"):
        rows = rows[:-1]
    assert rows or path.name in GROWING, "no header"
    assert {len(row) for row in rows} <= {len(rows[0]) if rows else 0}, "rows of different lengths"


def _page(path: Path) -> None:
    assert path.read_text(encoding="utf-8").rstrip().endswith("</html>"), "no end"


def _checkpoint(path: Path) -> None:
    assert torch.load(path, map_location="cpu", weights_only=True)["state_dict"]


def _picture(path: Path) -> None:
    with Image.open(path) as picture:
        picture.load()


def _arrays(path: Path) -> None:
    loaded = np.load(path, allow_pickle=False)
    if path.suffix == ".npz":
        with loaded:
            assert all(loaded[name] is not None for name in loaded.files)


READERS: dict[str, Callable[[Path], object]] = {
    ".json": _json,
    ".jsonl": _lines,
    ".csv": _table,
    ".yaml": lambda path: yaml.safe_load(path.read_text(encoding="utf-8")),
    ".html": _page,
    ".ckpt": _checkpoint,
    ".png": _picture,
    ".gif": _picture,
    ".npy": _arrays,
    ".npz": _arrays,
}
