"""Data of the page in files that a browser loads from a disk as well as from a server.

A page that was opened as a file may load scripts beside it, but nothing else. So data come as scripts: one call with
the data as compressed JSON in base64. No text of a run can be anything but data there: the alphabet has no quotes.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from concrete_dropout.runfolder import default_mode


def packed(name: str, value: Any) -> bytes:
    """A script that hands a value to the page.

    >>> packed("a", {"b": "</script>"}).decode()[:19]
    'dashboard("a","H4sI'
    """
    if not name.replace("-", "").isalnum():
        raise ValueError(f"{name!r} is no name of data: letters, digits and dashes")
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    content = base64.b64encode(gzip.compress(text.encode("ascii"), 6, mtime=0)).decode()
    return f'dashboard("{name}","{content}");\n'.encode("ascii")


def unpacked(content: bytes) -> Any:
    """The value in a script of ``packed``."""
    text = content.decode("ascii").split('"')[3]
    return json.loads(gzip.decompress(base64.b64decode(text)))


def digest(content: bytes | str) -> str:
    """A short name for content, or for a path."""
    raw = content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape")
    return hashlib.sha256(raw).hexdigest()[:16]


def replace_file(target: Path, content: bytes) -> None:
    """Replace a file in one step, so that a reader sees the old or the new one.

    Unlike those of a run folder these files can be made again at any time: nobody waits for the disk.
    """
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, default_mode())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
