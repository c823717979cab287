"""Which files ``input`` names: one, those of a folder, or those that a pattern fits; always in the same order."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from concrete_dropout.data.picture_file import SUFFIXES as PICTURES
from concrete_dropout.errors import UserError

TABLES = (".csv", ".tsv", ".txt")
WILDCARDS = "*?["


@dataclass(frozen=True)
class Source:
    """A file to predict.

    Attributes:
        path: where it is.
        name: its path below the folder that was given, with slashes.
        size: in bytes; -1 where it cannot be told.
        mtime_ns: when it was changed last.
    """

    path: Path
    name: str
    size: int
    mtime_ns: int


def find_sources(given: str, kind: str, suffixes: Sequence[str], output: Path) -> list[Source]:
    """The files to predict, sorted by name.

    Args:
        given: a file, a folder (with all below it), or a pattern such as ``photos/*.jpg``.
        kind: what the checkpoint is of, for messages.
        suffixes: of the files that it takes.
        output: a folder that is left out: results of an earlier run are no inputs.

    Raises:
        UserError: there is nothing, or nothing that fits the checkpoint.
    """
    path = Path(given).expanduser()
    if path.is_file():
        _check_suffix(path, kind, suffixes)
        return [_source(path, path.parent)]
    if path.is_dir():
        files, root, what = _below(path), path, "has no"
    elif any(character in given for character in WILDCARDS):
        files, root, what = _matching(str(path)), _fixed_part(str(path)), "fits no"
    else:
        raise UserError(f"input={given}: there is no such file or folder. A pattern is written input='photos/*.jpg'")
    if root.resolve() == output.resolve():
        raise UserError(
            f"output={output} is the folder of the inputs, and results would be taken for such: name another"
        )
    if _is_inside(output, root):
        files = [file for file in files if not _is_inside(file, output)]
    fitting = [file for file in files if file.suffix.lower() in suffixes]
    if not fitting:
        others = sorted({file.suffix.lower() for file in files if file.suffix})
        seen = f" It {'has' if what == 'has no' else 'fits'} {', '.join(others[:8])}." if others else ""
        raise UserError(
            f"input={given} {what} files ending in {', '.join(suffixes)}, which a {kind} network takes.{seen}"
        )
    return sorted((_source(file, root) for file in fitting), key=lambda source: source.name)


def stems(sources: Sequence[Source]) -> dict[str, str]:
    """What the results of each file are called: its name without the ending, or with it where two would be the same.

    >>> stems([Source(Path(name), name, 0, 0) for name in ("a.jpg", "b.jpg", "b.png")])
    {'a.jpg': 'a', 'b.jpg': 'b.jpg', 'b.png': 'b.png'}
    """
    short = {source.name: source.name[: len(source.name) - len(Path(source.name).suffix)] for source in sources}
    counts: dict[str, int] = {}
    for stem in short.values():
        counts[stem] = counts.get(stem, 0) + 1
    return {name: stem if counts[stem] == 1 else name for name, stem in short.items()}


def _check_suffix(path: Path, kind: str, suffixes: Sequence[str]) -> None:
    """Refuse a table for a network that takes pictures, and the reverse; a file without a known ending is tried."""
    ending = path.suffix.lower()
    if ending in suffixes or ending not in {*TABLES, *PICTURES}:
        return
    is_table = ending in TABLES
    wanted = "pictures, or a folder of them" if is_table else "a CSV file with the columns that it was trained on"
    raise UserError(
        f"input={path} is a {'table' if is_table else 'picture'}, but ckpt is of a {kind} network: give it {wanted}"
    )


def _below(folder: Path) -> list[Path]:
    found: list[Path] = []
    for place, subfolders, files in os.walk(folder):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        found += [Path(place, name) for name in files if not name.startswith(".")]
    return found


def _matching(pattern: str) -> list[Path]:
    found = (Path(name) for name in glob.glob(pattern, recursive=True))
    return [path for path in found if path.is_file()]


def _is_inside(path: Path, folder: Path) -> bool:
    return path.absolute().is_relative_to(folder.absolute())


def _fixed_part(pattern: str) -> Path:
    """The folder in front of a pattern's first wildcard."""
    parts = Path(pattern).parts
    first = next(index for index, part in enumerate(parts) if any(character in part for character in WILDCARDS))
    return Path(*parts[:first])


def _source(path: Path, root: Path) -> Source:
    try:
        status = path.stat()
        size, mtime = status.st_size, status.st_mtime_ns
    except OSError:  # a link that leads nowhere; reading it will say so
        size, mtime = -1, 0
    return Source(path, path.relative_to(root).as_posix(), size, mtime)
