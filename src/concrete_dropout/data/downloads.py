"""What downloads of data sets have in common: one process at a time, files by pooch, words for what went wrong."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from concrete_dropout.data.resuming import BrokenOffError, ResumingDownloader, shown

log = logging.getLogger(__name__)


class UnwritableError(Exception):
    """The place of a data set cannot be written to; the message is the system's reason."""


@contextmanager
def workshop(target: Path) -> Iterator[Path]:
    """A folder beside ``target`` for what is not finished yet, which one process at a time has.

    A connection that broke off, and Ctrl-C, leave it as it is: the next one goes on from there. What is wrong goes
    away with it.

    Args:
        target: of the finished download. Whether another process has made it meanwhile is to be looked at inside.

    Raises:
        UnwritableError: no folder can be made there.
    """
    work, lock = target.parent / f".{target.name}.part", FileLock(target.parent / f".{target.name}.lock")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _wait_for(lock, target)
        work.mkdir(exist_ok=True)
    except OSError as error:
        lock.release()
        raise UnwritableError(error.strerror or str(error)) from error
    keeps = False
    try:
        yield work
    except (BrokenOffError, KeyboardInterrupt):
        keeps = any(path.is_file() and path.stat().st_size for path in work.rglob("*"))
        raise
    finally:
        if not keeps:
            shutil.rmtree(work, ignore_errors=True)
        Path(lock.lock_file).unlink(missing_ok=True)  # while it is held: whoever waits for it makes a new one
        lock.release()


def fetch(url: str, folder: Path, name: str, downloader: ResumingDownloader, sha256: str | None = None) -> Path:
    """One file, under its name only when it is whole and has the checksum; one that is there already is taken as it is.

    Raises:
        ValueError: the download failed, or brought something else.
    """
    import pooch  # needed for downloads only

    pooch.get_logger().setLevel("WARNING")
    known = None if sha256 is None else f"sha256:{sha256}"
    try:
        return Path(pooch.retrieve(url, known_hash=known, fname=name, path=folder, downloader=downloader))
    except ValueError as error:
        if "hash of downloaded file" in str(error):
            raise ValueError(f"{shown(url)} has another sha256 than the published file") from error
        raise


def reason_of(error: BaseException) -> str:
    """Why a download failed, as the middle of a sentence.

    >>> reason_of(ValueError("  it is no archive. "))
    'it is no archive'
    """
    return str(error).strip().rstrip(".") or type(error).__name__


def _wait_for(lock: FileLock, target: Path) -> None:
    try:
        lock.acquire(timeout=0)
    except Timeout:
        log.warning("another process is downloading %s: waiting for it", target)
        lock.acquire()
