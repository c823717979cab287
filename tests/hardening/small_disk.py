"""Disks that are full, or that take no large files."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BALLAST = "ballast.bin"


class NotAllowedError(Exception):
    """This user may not mount disks."""


@contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[Path]:
    """A disk of this size at a folder, while the context lasts.

    Raises:
        NotAllowedError: the system does not let this user mount one.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    place.mkdir()
    options = f"size={megabytes}m,mode=0777".encode()
    if libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", 0, options) != 0:
        raise NotAllowedError(os.strerror(ctypes.get_errno()))
    try:
        yield place
    finally:
        libc.umount2(os.fsencode(place), 2)  # also where a process of a test still has a file open


def free(place: Path) -> int:
    """Bytes that are left."""
    status = os.statvfs(place)
    return status.f_bavail * status.f_frsize


def fill(place: Path, leave: int) -> None:
    """Take up a disk but for some bytes."""
    with (place / BALLAST).open("ab") as file:
        while free(place) > leave:
            file.write(bytes(max(4096, min(1 << 20, free(place) - leave))))
            file.flush()


def empty(place: Path) -> None:
    """Give the room back."""
    (place / BALLAST).unlink(missing_ok=True)
