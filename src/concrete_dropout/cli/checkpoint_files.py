"""Which file ``ckpt`` names, and what tells it from others."""

from __future__ import annotations

import hashlib
from pathlib import Path

from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import CHECKPOINTS

CHUNK = 1 << 20


def find_checkpoint(path: Path) -> Path:
    """The file that ``ckpt`` names. A run's folder stands for its last checkpoint, which runs test by default."""
    if not path.is_dir():
        if not path.is_file():
            raise UserError(
                f"there is no checkpoint {path}: ckpt names a file or a run's folder, as in ckpt=outputs/mnist/TIME"
            )
        return path
    for place in (path / CHECKPOINTS, path):
        for name in ("last.ckpt", "best.ckpt"):
            if (place / name).is_file():
                return place / name
    raise UserError(f"ckpt={path} is a folder without checkpoints/last.ckpt or checkpoints/best.ckpt: name a file")


def sha256(path: Path) -> str:
    """Of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
