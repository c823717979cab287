"""One process at a time in a folder: a second one is refused, or waits, before their files are mixed.

The lock is the system's, on a file in the folder: it ends with its process, however that ends, so that none can be left
behind. The file says who has it. It is removed at the end; one that a kill has left locks nobody out.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from concrete_dropout.errors import UserError

LOCK = ".lock"
_held: set[str] = set()  # of this process: a run that is started inside of a command has the same folder


@contextmanager
def alone_in(folder: Path | str, way_out: str = "", wait: bool = False, is_new: bool = False) -> Iterator[None]:
    """Have a folder for this process while the context lasts; where the file system has no locks, without any.

    Args:
        folder: is made where it is not there, and goes again where nothing came into it.
        way_out: what the user may do instead, for the message.
        wait: for another process to end, instead of refusing.
        is_new: it was made for this just now.

    Raises:
        UserError: another process has it; says which.
    """
    place = Path(os.path.realpath(folder))
    if str(place) in _held:
        yield
        return
    is_new = is_new or not place.exists()
    place.mkdir(parents=True, exist_ok=True)
    descriptor = _acquired(place / LOCK, wait)
    if descriptor is None:
        also = f", or {way_out}" if way_out else ""
        raise UserError(f"{folder} is in use by {_owner(place / LOCK)}. Wait for its end{also}")
    _held.add(str(place))
    try:
        yield
    finally:
        _held.discard(str(place))
        _release(place / LOCK, descriptor)
        if is_new:
            with suppress(OSError):  # it is not empty
                place.rmdir()


def is_taken(folder: Path | str) -> bool:
    """Whether another process has a folder."""
    path = Path(os.path.realpath(folder)) / LOCK
    if str(path.parent) in _held or not path.is_file():
        return False
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR)
        try:
            return not _flock(descriptor, wait=False)
        finally:
            os.close(descriptor)
    return False


def _acquired(path: Path, wait: bool) -> int | None:
    """An open file that has the lock; None where another process has it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)  # Python closes it in children that are executed
        try:
            if not _flock(descriptor, wait):
                os.close(descriptor)
                return None
            if _is_at(path, descriptor):
                owner = {"pid": os.getpid(), "host": socket.gethostname(), "command": " ".join(sys.argv)[:200]}
                with suppress(OSError):  # a full disk: the folder is taken all the same, by nobody knows whom
                    os.truncate(descriptor, 0)
                    os.write(descriptor, json.dumps(owner).encode())
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its owner has ended and removed the file meanwhile: it locks nothing any more


def _flock(descriptor: int, wait: bool) -> bool:
    """Whether the lock was got, or there are no locks here."""
    if os.name == "nt":
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:  # some network file systems
        return True
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False


def _release(path: Path, descriptor: int) -> None:
    with suppress(OSError):
        if _is_at(path, descriptor):
            path.unlink()
    os.close(descriptor)


def _owner(path: Path) -> str:
    try:
        owner = json.loads(path.read_text(encoding="utf-8"))
        return f"process {owner['pid']} on {owner['host']} ({owner['command']})"
    except (OSError, ValueError, KeyError, TypeError):  # it has just begun, or just ended
        return "another process"
