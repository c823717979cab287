"""Paths as people like to read and to copy them."""

from __future__ import annotations

import os
from pathlib import Path


def shortest(path: Path | str) -> str:
    """A path from the current directory on, or in full where that is shorter than climbing up."""
    absolute = str(Path(path).absolute())
    return min(os.path.relpath(absolute), absolute, key=len)


def unquoted(text: str) -> str:
    """Without the pair of quotation marks around it, which a shell has left there.

    >>> unquoted("'my file.csv'"), unquoted("files of 'May'")
    ('my file.csv', "files of 'May'")
    """
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
