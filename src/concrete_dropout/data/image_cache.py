"""Files decoded once into a flat file of bytes, which every later run maps into memory.

A cache is a folder with ``pixels.bin`` (the planes of all images) and ``index.json``. It is made under another name
and renamed when it is whole, so that what has the right name is always complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from concrete_dropout.data.base import Part
from concrete_dropout.data.label_files import Pair
from concrete_dropout.data.labelled_images import NUM_PLANES, Bytes, LabelledImages
from concrete_dropout.errors import UserError

VERSION = 1  # of the files' format, and of what decoding does
PIXELS, INDEX, LOCK, UNFINISHED = "pixels.bin", "index.json", ".lock", ".building-"
ABANDONED_SECONDS = 24 * 3600
CHUNK = 32  # images in memory while building

Pairs = Mapping[Part, Sequence[Pair]]
log = logging.getLogger(__name__)


def cached(pairs: Pairs, read: Callable[[Pair], Bytes], place: Path, settings: str) -> dict[Part, LabelledImages]:
    """The images of every part, from the cache, which is built if need be.

    The name of a cache has digests of the settings and of the source files' names, sizes and times, so that a change
    of either leads to another cache. Those of the same settings and older files are removed.

    Args:
        pairs: the source files of every part.
        read: files to planes (4, H, W); its ``UserError`` is passed on, and leaves no cache behind.
        place: the folder for all caches of this source.
        settings: all that changes what ``read`` returns.
    """
    prefix = hashlib.sha256(settings.encode()).hexdigest()[:12]
    folder = place / f"{prefix}-{fingerprint(pairs)[:20]}"
    found = open_cache(folder)
    if found is not None:
        return found
    try:
        place.mkdir(parents=True, exist_ok=True)
        with _alone(place) as certain:
            found = open_cache(folder)  # another process may have been quicker
            if found is None:
                _remove_unfinished(place, certain)
                _build(pairs, read, folder)
                _remove_old(place, prefix, folder)
                found = open_cache(folder)
    except OSError as error:  # reading the sources raises UserErrors
        raise UserError(
            f"The images cannot be cached in {place}: {error.strerror or error}. Free some space there, or set "
            "data.cache_dir to a folder elsewhere."
        ) from error
    if found is None:
        raise UserError(f"The cache {folder} is damaged. Remove this folder, and it will be built anew.")
    return found


def fingerprint(pairs: Pairs) -> str:
    """A digest of the names, sizes and times of modification of all files, and of this module's version."""
    digest = hashlib.sha256(f"{VERSION}\n".encode())
    for part, entries in pairs.items():
        for pair in entries:
            for path in (pair.image, pair.mask):
                try:
                    status = path.stat()
                except OSError as error:
                    raise UserError(f"{path} cannot be read ({error.strerror}).") from error
                digest.update(f"{part}\0{pair.name}\0{path.name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def open_cache(folder: Path) -> dict[Part, LabelledImages] | None:
    """What a finished cache has, or None where there is none."""
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        num_bytes = (folder / PIXELS).stat().st_size
        sizes = np.array(index["sizes"], dtype=np.int64).reshape(-1, 2)
        if num_bytes != NUM_PLANES * sizes.prod(axis=1).sum():
            return None  # cut short, say, by a machine that went down before the disk was written
        everything = LabelledImages.map(folder / PIXELS, sizes, index["names"])
        rows = np.split(np.arange(len(sizes)), np.cumsum(list(index["parts"].values()))[:-1])
        return {part: everything.take(own) for part, own in zip(index["parts"], rows, strict=True)}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def default_place(data_dir: Path) -> Path:
    """``<data_dir>/cache`` where that can be written, the user's folder of caches otherwise.

    >>> default_place(Path("/proc")).name
    'concrete-dropout'
    """
    return data_dir / "cache" if _writable(data_dir) else user_cache()


def user_cache() -> Path:
    """``$XDG_CACHE_HOME/concrete-dropout``, by default under ``~/.cache``."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".cache") / "concrete-dropout"


def _writable(folder: Path) -> bool:
    existing = next((path for path in (folder, *folder.resolve().parents) if path.exists()), None)
    # The bits as well as the right: the superuser may write anywhere, but a folder without any such bit is meant to
    # stay as it is.
    return existing is not None and bool(existing.stat().st_mode & 0o222) and os.access(existing, os.W_OK | os.X_OK)


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[bool]:
    """Wait for other processes that build here; whether that is certain, since some file systems have no locks.

    The system frees the lock of a process that dies, so that none can be left behind.
    """
    if os.name == "nt":
        yield False
        return
    import fcntl

    with open(place / LOCK, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("Another process is building the cache in %s: waiting for it", place)
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            yield False
            return
        yield True


def _build(pairs: Pairs, read: Callable[[Pair], Bytes], folder: Path) -> None:
    everything = [pair for entries in pairs.values() for pair in entries]
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=UNFINISHED))
    log.info("Decoding %d images once into %s", len(everything), folder)
    try:
        sizes = []
        # Written, not mapped: on a full disk a mapped file would end the process without a word.
        with open(temporary / PIXELS, "wb") as file, warnings.catch_warnings():
            # Pillow's remarks on odd metadata. Here and not around each file: threads would undo each other's filters.
            warnings.simplefilter("ignore")
            for planes in _decoded(everything, read):
                sizes.append(planes.shape[1:])
                file.write(planes.tobytes())
        index = {
            "parts": {part: len(entries) for part, entries in pairs.items()},
            "names": [pair.name for pair in everything],
            "sizes": sizes,
        }
        (temporary / INDEX).write_text(json.dumps(index), encoding="utf-8")
        temporary.chmod(0o755)  # mkdtemp's folders are private
        _put_in_place(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _put_in_place(temporary: Path, folder: Path) -> None:
    if open_cache(folder) is not None:
        return  # without locks another process may have been quicker: its cache is as good
    shutil.rmtree(folder, ignore_errors=True)  # damaged
    try:
        os.rename(temporary, folder)
    except OSError:
        if open_cache(folder) is None:
            raise


def _decoded(pairs: Sequence[Pair], read: Callable[[Pair], Bytes]) -> Iterator[Bytes]:
    console = Console(stderr=True)
    columns = TextColumn("Decoding images"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with (
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
        ThreadPoolExecutor() as pool,  # Pillow decodes without holding Python's lock
    ):
        task = progress.add_task("", total=len(pairs))
        for start in range(0, len(pairs), CHUNK):
            for planes in pool.map(read, pairs[start : start + CHUNK]):
                yield planes
                progress.advance(task)


def _remove_unfinished(place: Path, certain: bool) -> None:
    """What killed builds left; without a lock, only what nobody can still be at work on."""
    for folder in place.glob(f"{UNFINISHED}*"):
        with contextlib.suppress(OSError):
            if certain or time.time() - folder.stat().st_mtime > ABANDONED_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)


def _remove_old(place: Path, prefix: str, current: Path) -> None:
    for folder in place.glob(f"{prefix}-*"):
        if folder != current:
            log.info("Removing the cache %s: its source has changed", folder)
            shutil.rmtree(folder, ignore_errors=True)  # whoever still maps its file keeps it until they end
