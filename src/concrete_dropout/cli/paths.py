"""Paths as people like to read and to copy them."""

from __future__ import annotations

import os
from pathlib import Path


def shortest(path: Path | str) -> str:
    """A path from the current directory on, or in full where that is shorter than climbing up."""
    absolute = str(Path(path).absolute())
    return min(os.path.relpath(absolute), absolute, key=len)
