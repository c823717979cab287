"""Fetch the four files of MNIST: each whole and verified, or not at all."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from concrete_dropout.data.downloads import reason_of
from concrete_dropout.data.idx_file import read_bytes
from concrete_dropout.errors import UserError

MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist")
TIMEOUT_SECONDS = 20
# sha256 of the decompressed files: copies of the same data may have been compressed anew.
FILES = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}

log = logging.getLogger(__name__)


def missing_files(folder: Path) -> list[str]:
    """Which of the four files a folder has neither as such nor with the ending .gz."""
    return [name for name in FILES if find_file(folder, name) is None]


def find_file(folder: Path, name: str) -> Path | None:
    """Where one of the files is, or None."""
    paths = (folder / name, folder / f"{name}.gz")
    return next((path for path in paths if path.is_file()), None)


def fetch_missing(folder: Path, mirrors: Sequence[str] = MIRRORS) -> None:
    """Download the files that a folder lacks, each put in place by one rename.

    Args:
        folder: made if need be.
        mirrors: addresses of folders with ``<name>.gz``, tried one after the other.
    """
    missing = missing_files(folder)
    if not missing:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder, prefix=".download."))
    except OSError as error:
        raise UserError(
            f"{what_is_missing(folder)} This folder is not writable ({error.strerror}), so that nothing can be "
            f"downloaded. {ways_out(folder, mirrors)}, or to one that is writable."
        ) from error
    try:
        for name in missing:
            path = _fetch_one(name, mirrors, temporary)
            path.chmod(0o644)  # temporary files are private
            os.replace(path, folder / path.name)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{what_is_missing(folder)} Downloading failed: {error}. {ways_out(folder, mirrors)}, or run once with "
            "network access."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def what_is_missing(folder: Path) -> str:
    """A sentence that names the absent files."""
    return f"MNIST is not complete, {folder} lacks {', '.join(f'{name}.gz' for name in missing_files(folder))}."


def ways_out(folder: Path, mirrors: Sequence[str] = MIRRORS) -> str:
    """What a user without a network can do, as a sentence that can go on."""
    return (
        f"Put the files, as they are at {' or '.join(mirrors)}, into {folder}; or set paths.data_dir or the "
        "environment variable DATA_DIR to a folder whose subfolder mnist has them"
    )


def _fetch_one(name: str, mirrors: Sequence[str], folder: Path) -> Path:
    import pooch  # needed for downloads only

    pooch.get_logger().setLevel("WARNING")
    downloader = pooch.HTTPDownloader(timeout=TIMEOUT_SECONDS)
    reasons = []
    for mirror in mirrors:
        url = f"{mirror.rstrip('/')}/{name}.gz"
        log.info("Downloading %s", url)
        try:
            # Checked below: pooch would compare the compressed bytes.
            path = Path(pooch.retrieve(url, known_hash=None, fname=f"{name}.gz", path=folder, downloader=downloader))
            if hashlib.sha256(read_bytes(path)).hexdigest() == FILES[name]:
                return path
            reasons.append(f"{url} has another sha256 than the published file")
        except (OSError, ValueError, UserError) as error:
            reasons.append(reason_of(error, url))
        (folder / f"{name}.gz").unlink(missing_ok=True)
    raise ValueError("; ".join(reasons) or "data.mirrors names no address")
