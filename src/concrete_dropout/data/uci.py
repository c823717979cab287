"""The UCI regression sets with their published splits (section 4.2, appendix D)."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import numpy.typing as npt

from concrete_dropout.data.checks import did_you_mean, fraction, whole_number
from concrete_dropout.data.numbers_file import read_index, read_numbers
from concrete_dropout.data.regression import RegressionData, Table, Tables
from concrete_dropout.data.splits import carve
from concrete_dropout.data.uci_download import BASE_URL, fetch_set
from concrete_dropout.data.uci_sets import BY_NAME, SETS
from concrete_dropout.errors import UserError

log = logging.getLogger(__name__)


class UCIData(RegressionData):
    """One split of one set; ``<data_dir>/uci/<folder>/data`` has the published files.

    A set that is not there is downloaded. One that is there is only read, so that the folder may be read-only.

    Args:
        data_dir: the folder of all data.
        name: boston, concrete, energy, kin8nm, power, protein, wine, yacht or naval; the published folder's name; or a
            folder of your own with the same layout.
        split: number of the published split, from 0.
        val_fraction: share of the training rows that become validation rows; the test rows stay as published.
        download: fetch a missing set from the network.
        base_url: where from.
        **loading: of ``RegressionData``; its seed chooses the validation rows.
    """

    name: str  # Lightning's own is optional

    def __init__(
        self,
        data_dir: str | Path,
        name: str,
        split: int = 0,
        val_fraction: float = 0.0,
        download: bool = True,
        base_url: str = BASE_URL,
        **loading: int,
    ) -> None:
        super().__init__(**loading)
        self.data_dir, self.name = Path(data_dir), str(name)
        self.split = whole_number("data.split", split, minimum=0)
        self.val_fraction = fraction("data.val_fraction", val_fraction)
        self.download, self.base_url = download, base_url

    @property
    def num_splits(self) -> int:
        """How many splits were published: 20, but 5 for protein."""
        return num_splits(self.data_dir, self.name, self.download, self.base_url)

    def load(self) -> Tables:
        """Read the rows of the split; carve validation rows out of its training rows."""
        folder = find_set(self.data_dir, self.name, self.download, self.base_url)
        count = _read_num_splits(folder)
        if self.split >= count:
            raise UserError(
                f"data.split={self.split} does not exist: {self.name} has {count} splits, 0 to {count - 1}."
            )
        values = read_numbers(folder / "data.txt")
        features = _read_within(folder / "index_features.txt", values.shape[1], "columns")
        targets = _read_within(folder / "index_target.txt", values.shape[1], "columns")
        if np.isin(targets, features).any():
            raise UserError(f"{folder}: index_features.txt names the target's column too.")
        train = _read_within(folder / f"index_train_{self.split}.txt", len(values), "rows")
        test = _read_within(folder / f"index_test_{self.split}.txt", len(values), "rows")
        if shared := np.intersect1d(train, test).size:
            raise UserError(f"{folder}: split {self.split} has {shared} rows in both training and test part.")

        source = f"The training part of {self.name}"
        val, kept = carve(len(train), {"data.val_fraction": self.val_fraction}, (self.seed, self.split), source)

        def table(rows: npt.NDArray[np.int64]) -> Table | None:
            return Table(values[np.ix_(rows, features)], values[np.ix_(rows, targets)]) if len(rows) else None

        train_table = table(train[kept])
        assert train_table is not None  # an index file is never empty, and carve keeps a row
        names = _column_names(self.name, len(features), len(targets))
        constant = np.flatnonzero(np.ptp(train_table.x, axis=0) == 0)
        if len(constant):  # as two columns of the published naval set are: nothing to be warned about
            log.info(
                "constant in the training part, kept as columns of zeros: %s", ", ".join(names[0][c] for c in constant)
            )
        return Tables(train_table, table(train[val]), table(test), *names)


def num_splits(data_dir: str | Path, name: str, download: bool = True, base_url: str = BASE_URL) -> int:
    """How many splits a set has."""
    return _read_num_splits(find_set(data_dir, name, download, base_url))


def find_set(data_dir: str | Path, name: str, download: bool = True, base_url: str = BASE_URL) -> Path:
    """The folder with a set's files, downloaded if need be."""
    known = BY_NAME.get(name)
    home = Path(data_dir).expanduser() / "uci"
    target = home / (known.folder if known else name)
    if known is None and (name in ("", ".", "..") or Path(name).name != name or not (target / "data").is_dir()):
        raise UserError(
            f"data.name={name!r} is no UCI set, and {home} has no folder of this name with a folder data in it. "
            f"Choose one of {', '.join(entry.name for entry in SETS)}.{did_you_mean(name, BY_NAME)}"
        )
    if known is not None and not (target / "data").is_dir():
        if not download:
            raise UserError(
                f"The data set {name!r} is not in {target / 'data'}. Set paths.data_dir or the environment variable "
                "DATA_DIR to a folder that has it, or data.download=true to fetch it."
            )
        fetch_set(known, target, base_url)
    return target / "data"


def _read_num_splits(folder: Path) -> int:
    path = folder / "n_splits.txt"
    numbers = read_index(path)
    if len(numbers) != 1 or numbers[0] < 1:
        raise UserError(f"{path} should have one number, how many splits there are.")
    return int(numbers[0])


def _read_within(path: Path, size: int, what: str) -> npt.NDArray[np.int64]:
    index = read_index(path)
    if index.max() >= size:
        raise UserError(f"{path} names {index.max()}, but data.txt has {size} {what}, counted from 0.")
    if len(np.unique(index)) < len(index):
        raise UserError(f"{path} names some {what} twice.")
    return index


def _column_names(name: str, num_features: int, num_targets: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    known = BY_NAME.get(name)
    if known is not None and (len(known.features), 1) == (num_features, num_targets):
        return known.features, (known.target,)
    targets = ("y",) if num_targets == 1 else tuple(f"y{column}" for column in range(num_targets))
    return tuple(f"x{column}" for column in range(num_features)), targets
