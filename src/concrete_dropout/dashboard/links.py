"""Paths for the page: as text, and as addresses relative to it."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote


def link(out: Path, target: Path) -> str:
    """Address of a file as seen from the page in ``out``."""
    return quote(os.fsencode(os.path.relpath(target.resolve(), out.resolve())))


def shown(path: str) -> str:
    """A path as text: bytes that are no UTF-8 become question marks.

    >>> shown("a/b"), shown("\\udcff")
    ('a/b', '?')
    """
    return path.encode("utf-8", "replace").decode("utf-8")
