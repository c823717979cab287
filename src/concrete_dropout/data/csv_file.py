"""The user's own CSV file."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import cast, get_args

import numpy as np

from concrete_dropout.data.checks import choice, fraction
from concrete_dropout.data.encoding import (
    Categorical,
    Encoder,
    Missing,
    describe_counts,
    fit_encoder,
    is_numeric,
    missing_mask,
    parse_numbers,
)
from concrete_dropout.data.regression import RegressionData, Table, Tables
from concrete_dropout.data.splits import carve
from concrete_dropout.data.text_table import TextTable, read_text_table
from concrete_dropout.errors import UserError

log = logging.getLogger(__name__)


class CSVData(RegressionData):
    """Rows of a CSV file, split at random into training, validation and test part.

    Columns of text become one-hot columns ``name=category``, over the categories of the training part. A category that
    is met later is all zeros, and so is a missing one under ``missing="mean"``.

    Args:
        path: of the file; its first line has the names of the columns.
        target: name of the target column, or several.
        features: names of the feature columns; all but the targets by default.
        test_path: of a file with the test rows; ``test_fraction`` is then not used.
        val_fraction: share of the rows for validation; 0 for none.
        test_fraction: share of the rows for the test; 0 for none.
        categorical: "onehot", or "error" to refuse text.
        missing: "error"; "drop" rows that miss a value; or the "mean" of the training part. A target is never made up.
        **loading: of ``RegressionData``; its seed chooses the rows of each part.
    """

    def __init__(
        self,
        path: str | Path,
        target: str | Sequence[str],
        features: Sequence[str] | None = None,
        test_path: str | Path | None = None,
        val_fraction: float = 0.1,
        test_fraction: float = 0.1,
        categorical: Categorical = "onehot",
        missing: Missing = "error",
        **loading: int,
    ) -> None:
        super().__init__(**loading)
        self.path, self.test_path = path, test_path
        self.targets = _names("data.target", target)
        self.features = None if features is None else _names("data.features", features)
        self.fractions = {"data.val_fraction": fraction("data.val_fraction", val_fraction)}
        if test_path is None:
            self.fractions["data.test_fraction"] = fraction("data.test_fraction", test_fraction)
        self.categorical = cast(Categorical, choice("data.categorical", categorical, get_args(Categorical)))
        self.missing = cast(Missing, choice("data.missing", missing, get_args(Missing)))
        self._encoder: Encoder | None = None

    @property
    def encoder(self) -> Encoder:
        """What turns the feature columns of a file into numbers."""
        self.setup()
        assert self._encoder is not None
        return self._encoder

    def load(self) -> Tables:
        """Read, split and encode."""
        table = read_text_table("data.path", self.path)
        table.require("data.target", self.targets)
        features = self._feature_columns(table)
        numeric = {name: is_numeric(table, name) for name in features}
        for name in self.targets:
            if not is_numeric(table, name):
                raise UserError(f"data.target: column {name!r} of {table.path} has text; regression needs numbers.")
        table = self._without_missing(table, features)
        parts = carve(len(table), self.fractions, (self.seed,), str(table.path), keep=2)
        train, val = table.take(parts[-1].tolist()), table.take(parts[0].tolist())
        if self.test_path is None:
            test = table.take(parts[1].tolist())
        else:
            test = read_text_table("data.test_path", self.test_path)
            test.require("data.test_path", [*features, *self.targets])
            test = self._without_missing(test, features)

        self._encoder = fit_encoder(train, numeric, self.categorical)
        train_table = self._encode(train)
        assert train_table is not None  # carve keeps two rows
        self._check_constant(train_table)
        return Tables(train_table, self._encode(val), self._encode(test), self._encoder.outputs, self.targets)

    def _feature_columns(self, table: TextTable) -> tuple[str, ...]:
        if self.features is None:
            chosen = tuple(name for name in table.columns if name not in self.targets)
        else:
            table.require("data.features", self.features)
            chosen = self.features
        if both := [name for name in chosen if name in self.targets]:
            raise UserError(f"data.features and data.target both name {', '.join(both)}.")
        if not chosen:
            raise UserError(f"data.features: {table.path} has no column besides the targets.")
        return chosen

    def _without_missing(self, table: TextTable, features: Sequence[str]) -> TextTable:
        used = [*features, *self.targets]
        masks = {name: missing_mask(table, name) for name in used}
        rows = np.logical_or.reduce(list(masks.values()))
        if not rows.any():
            return table
        counts = {name: int(mask.sum()) for name, mask in masks.items() if mask.any()}
        log.warning("%s: missing values among %d rows: %s", table.path, len(table), describe_counts(counts))
        if self.missing == "drop":
            if rows.all():
                raise UserError(f"data.missing=drop leaves no rows of {table.path}: every row misses a value.")
            log.warning("%s: %d of %d rows dropped (data.missing=drop)", table.path, rows.sum(), len(table))
            return table.take(np.flatnonzero(~rows).tolist())
        refused = [name for name in counts if self.missing == "error" or name in self.targets]
        if refused:
            first = table.lines[int(np.argmax(np.logical_or.reduce([masks[name] for name in refused])))]
            ways = "drop or mean" if self.missing == "error" else "drop, which leaves such rows out"
            raise UserError(
                f"{table.path} misses values: {describe_counts({name: counts[name] for name in refused})} (of "
                f"{len(table)} rows, the first in line {first}). Fill them in, or set data.missing={ways}."
            )
        return table

    def _encode(self, table: TextTable) -> Table | None:
        if not len(table):
            return None
        assert self._encoder is not None
        y = np.stack([parse_numbers(table, name) for name in self.targets], axis=1)
        return Table(self._encoder.encode(table), y)

    def _check_constant(self, train: Table) -> None:
        assert self._encoder is not None
        for column, name in enumerate(self.targets):
            if train.y[:, column].min() == train.y[:, column].max():
                raise UserError(
                    f"data.target: column {name!r} is {train.y[0, column]:g} in every training row, so that there is "
                    "nothing to learn. Choose another target."
                )
        constant = np.flatnonzero(train.x.min(axis=0) == train.x.max(axis=0))
        if len(constant):
            names = ", ".join(self._encoder.outputs[column] for column in constant)
            log.warning("Constant in the training part, kept as columns of zeros: %s", names)


def _names(key: str, names: str | Sequence[str] | None) -> tuple[str, ...]:
    """Column names as typed in a config: one or a list; YAML makes a number of a name like 2020."""
    listed = [names] if isinstance(names, (str, int, float)) else list(names or ())
    if not listed or any(name in (None, "") for name in listed):
        raise UserError(f"{key}={names!r} must name a column, or a list of columns.")
    texts = tuple(str(name).strip() for name in listed)
    if len(set(texts)) < len(texts):
        raise UserError(f"{key}={names!r} names a column twice.")
    return texts
