"""Fetch the four files of MNIST: each whole and verified, or not at all."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from concrete_dropout.data.downloads import UnwritableError, fetch, reason_of, workshop
from concrete_dropout.data.idx_file import DAMAGED, open_file
from concrete_dropout.data.resuming import BrokenOffError, ResumingDownloader, shown
from concrete_dropout.errors import UserError

MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist")
MAX_BYTES = 10**8  # of a file, also of what is compressed in it: the largest has half of that
CHUNK = 2**20
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
    if not missing_files(folder):
        return
    try:
        with workshop(folder / "download") as work:
            for name in missing_files(folder):  # again: another process may have been quicker
                path = _fetch_one(name, mirrors, work)
                path.chmod(0o644)  # temporary files are private
                os.replace(path, folder / path.name)
    except UnwritableError as error:
        raise UserError(
            f"{what_is_missing(folder)} This folder is not writable ({error}), so that nothing can be "
            f"downloaded. {ways_out(folder, mirrors)}, or to one that is writable."
        ) from error
    except (OSError, ValueError) as error:
        raise UserError(
            f"{what_is_missing(folder)} Downloading failed: {reason_of(error)}. {ways_out(folder, mirrors)}, or run "
            "once with network access."
        ) from error


def what_is_missing(folder: Path) -> str:
    """A sentence that names the absent files."""
    return f"MNIST is not complete, {folder} lacks {', '.join(f'{name}.gz' for name in missing_files(folder))}."


def ways_out(folder: Path, mirrors: Sequence[str] = MIRRORS) -> str:
    """What a user without a network can do, as a sentence that can go on."""
    places = " or ".join(map(shown, mirrors))
    return (
        f"Put the files, as they are at {places}, into {folder}; or set paths.data_dir or the environment variable "
        "DATA_DIR to a folder whose subfolder mnist has them"
    )


def _fetch_one(name: str, mirrors: Sequence[str], work: Path) -> Path:
    """A file from the first mirror that has it.

    Raises:
        BrokenOffError: no mirror has it, and of one there is a part that may be added to.
        ValueError: no mirror has it.
    """
    errors: list[Exception] = []
    for mirror in mirrors:
        url = f"{mirror.rstrip('/')}/{name}.gz"
        log.info("Downloading %s", shown(url))
        try:
            # Checked below: pooch would compare the compressed bytes.
            path = fetch(url, work, f"{name}.gz", ResumingDownloader(work, MAX_BYTES))
            _check_content(path, FILES[name], url)
            return path
        except (OSError, ValueError) as error:
            errors.append(error)
        (work / f"{name}.gz").unlink(missing_ok=True)
    reasons = "; ".join(map(reason_of, errors)) or "data.mirrors names no address"
    raise (BrokenOffError if any(isinstance(e, BrokenOffError) for e in errors) else ValueError)(reasons)


def _check_content(path: Path, sha256: str, url: str) -> None:
    """Compare what is in a file, compressed or not, without holding more of it than it may have."""
    digest, size = hashlib.sha256(), 0
    try:
        with open_file(path) as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                size += len(chunk)
                if size > MAX_BYTES:
                    break
    except DAMAGED as error:
        raise ValueError(f"{shown(url)} is damaged or cut short ({error})") from error
    if digest.hexdigest() != sha256:
        raise ValueError(f"{shown(url)} has another sha256 than the published file")
