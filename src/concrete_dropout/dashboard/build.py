"""Builds the site: finds runs, reads those that have changed, writes the page and its data."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from concrete_dropout import runfolder
from concrete_dropout.dashboard import page
from concrete_dropout.dashboard.cache import Cache
from concrete_dropout.dashboard.entry import read_entry
from concrete_dropout.dashboard.find import Place, find
from concrete_dropout.dashboard.groups import describe_groups
from concrete_dropout.dashboard.links import link, shown
from concrete_dropout.dashboard.pack import digest, packed, replace_file
from concrete_dropout.dashboard.state import judge
from concrete_dropout.errors import UserError
from concrete_dropout.folderlock import alone_in

FOLDER = "dashboard"
DATA = "data"
SAVE_EVERY = 10.0  # seconds between two copies of the cache in a long build
Progress = Callable[[int, int], None]


class Table(NamedTuple):
    """The file with the table of all runs, and whether it was not there before."""

    name: str
    is_new: bool


@dataclass(frozen=True)
class Site:
    """What a build has made.

    Args:
        index: path of the page.
        states: number of runs in each state.
        groups: number of studies and sweeps.
        read: number of runs that were read anew.
        rows: of the runs, as the page has them.
        changed: whether there is anything new for an open page.
        seconds: that it took.
    """

    index: Path
    states: Counter[str]
    groups: int
    read: int
    rows: list[dict[str, Any]]
    changed: bool
    seconds: float


def build_site(root: Path, out: Path | None = None, refresh: float = 0.0, progress: Progress | None = None) -> Site:
    """Write the dashboard of all runs below a folder.

    Args:
        root: the folder, usually outputs/.
        out: of the site; by default dashboard/ in ``root``.
        refresh: seconds after which an open page looks for news; 0 for never.
        progress: is told how many of how many runs have been looked at.

    Raises:
        UserError: there is no such folder, or the site cannot be written.
    """
    began = time.monotonic()
    if not root.is_dir():
        raise UserError(f"{root} is no folder: name the one that holds the runs, as in python dashboard.py outputs")
    out = root / FOLDER if out is None else out
    try:
        (out / DATA).mkdir(parents=True, exist_ok=True)
        with alone_in(out, wait=True):  # another one that watches the same runs
            runfolder.RunFolder(out).remove_unfinished()
            page.write(out)
            return _build(root, out, refresh, progress, began)
    except OSError as error:
        raise UserError(f"{out} cannot be written ({error}): choose another place with --out") from error


def _build(root: Path, out: Path, refresh: float, progress: Progress | None, began: float) -> Site:
    places = find(root, skip=[out])
    runs = [place for place in places if not place.is_group]
    cache = Cache(out)
    read, saved = 0, time.monotonic()
    known: list[dict[str, Any]] = []
    for done, place in enumerate(runs):
        entry = cache.get(place.path, place.files)
        if entry is None or not _is_there(out, entry):
            entry = cache.put(place.path, place.files, _read(root, out, place))
            read += 1
        known.append(entry)
        if progress is not None:
            progress(done + 1, len(runs))
        if time.monotonic() - saved > SAVE_EVERY:  # what was read so far survives a kill
            cache.save()
            saved = time.monotonic()
    rows = [_row(root, out, place, entry) for place, entry in zip(runs, known, strict=True)]
    groups = describe_groups(root, out, [place for place in places if place.is_group], rows)
    table = _write_table(root, out, rows, groups, refresh)
    dropped = len(cache.entries) > len(runs)
    cache.keep({place.path for place in runs})
    if read or dropped:
        cache.save()
    _remove_old(out, {name for entry in known for name, _, _ in entry["chunks"]}, table.name)
    states = Counter(str(row["state"]) for row in rows)
    return Site(out / page.INDEX, states, len(groups), read, rows, table.is_new, time.monotonic() - began)


def _read(root: Path, out: Path, place: Place) -> dict[str, Any]:
    """Read a run and write its files; what the cache keeps."""
    entry = read_entry(root / place.path)
    identity = digest(place.path)
    parts = {f"run-{identity}": entry.detail, **({f"pictures-{identity}": entry.pictures} if entry.pictures else {})}
    chunks = []
    for name, value in parts.items():
        content = packed(name, value)
        replace_file(out / DATA / f"{name}.js", content)
        chunks.append([f"{name}.js", digest(content), len(content)])
    return {"row": entry.row, "chunks": chunks}


def _is_there(out: Path, entry: dict[str, Any]) -> bool:
    """Whether the files of a run are whole: a power cut may have lost what was written last."""
    try:
        return all(os.stat(out / DATA / name).st_size == size for name, _, size in entry["chunks"])
    except OSError:
        return False


def _row(root: Path, out: Path, place: Place, entry: dict[str, Any]) -> dict[str, Any]:
    row = dict(entry["row"])
    recorded, unreadable = row.pop("recorded"), row.pop("unreadable")
    state, reason = judge(root / place.path, recorded, place.files, unreadable)
    return {
        "id": digest(place.path),
        "path": shown(place.path or root.resolve().name),
        "group": shown(place.group),
        "report": link(out, root / place.path / runfolder.REPORT) if runfolder.REPORT in place.files else "",
        "state": state,
        "reason": reason[:300],
        "versions": [version for _, version, _ in entry["chunks"]],
        **row,
    }


def _write_table(
    root: Path, out: Path, rows: Sequence[dict[str, Any]], groups: Sequence[dict[str, Any]], refresh: float
) -> Table:
    """The table of all runs under a name of its content, and after it the file that names it."""
    layers: dict[tuple[str, ...], int] = {}  # many runs have the same: their names are written once
    runs = [{**row, "layers": layers.setdefault(tuple(row["layers"]), len(layers))} for row in rows]
    value = {"root": shown(str(root)), "layers": [*layers], "groups": list(groups), "runs": runs}
    version = digest(json.dumps(value))
    name = f"table-{version}"
    target = out / DATA / f"{name}.js"
    changed = not target.is_file()
    if changed:
        replace_file(target, packed(name, value))
    built = datetime.now(timezone.utc).isoformat(timespec="seconds")
    replace_file(out / DATA / "version.js", packed("version", {"table": version, "refresh": refresh, "built": built}))
    return Table(target.name, changed)


def _remove_old(out: Path, kept: set[str], table: str) -> None:
    """Files of runs that are gone, and all tables but this and the one before: an open page may be about to load it.

    Times alone would not tell this one: clocks are put back.
    """
    tables = sorted((out / DATA).glob("table-*.js"), key=lambda path: (path.name == table, path.stat().st_mtime_ns))
    gone = [
        entry.path
        for entry in os.scandir(out / DATA)
        if entry.name.startswith(("run-", "pictures-")) and entry.name not in kept
    ]
    for path in [*gone, *map(str, tables[:-2])]:
        Path(path).unlink(missing_ok=True)
