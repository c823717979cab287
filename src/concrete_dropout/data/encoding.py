"""Columns of text to columns of numbers: parsing, one-hot categories, missing values."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from concrete_dropout.data.text_table import TextTable
from concrete_dropout.errors import UserError

Categorical = Literal["onehot", "error"]
Missing = Literal["error", "drop", "mean"]
Column = npt.NDArray[np.float64]

MISSING_TEXTS = frozenset(("", "?", "na", "n/a", "#n/a", "nan", "null", "none", "<na>"))
MAX_CATEGORIES = 50

log = logging.getLogger(__name__)


def is_missing(text: str) -> bool:
    """Whether a field stands for a missing value: empty, ?, NA, NaN, null and the like, in any case."""
    return text.lower() in MISSING_TEXTS


def is_numeric(table: TextTable, name: str) -> bool:
    """Whether a column has numbers; refuses one that has mostly numbers, since its texts are probably slips."""
    if table.numbers(name) is not None:
        return True
    rows = zip(table.lines, table.columns[name], strict=True)
    present = [(line, text) for line, text in rows if not is_missing(text)]
    texts = [(line, text) for line, text in present if _number(text) is None]
    if not texts:
        return True
    if 2 * len(texts) >= len(present):
        if all(_number(text.replace(",", ".", 1)) is not None for _, text in present):
            raise UserError(
                f"Column {name!r} of {table.path} has decimal commas ({texts[0][1]!r}, line {texts[0][0]}). "
                "Export the file with decimal points."
            )
        return False
    line, text = texts[0]
    raise UserError(
        f"Column {name!r} of {table.path} has numbers, but {text!r} in line {line} ({len(texts)} of {len(present)} "
        "values are no numbers). Correct them, leave missing values empty, write every category as text, or leave the "
        "column out of data.features."
    )


def parse_numbers(
    table: TextTable,
    name: str,
    way_out: str = "Correct it, or leave the field empty and choose data.missing=drop or mean.",
) -> Column:
    """The numbers of a column, NaN where missing; text and infinities are refused by line, with the ``way_out``."""
    values = table.numbers(name)
    if values is not None and not np.isinf(values).any():
        return values
    numbers = []
    for line, text in zip(table.lines, table.columns[name], strict=True):
        number = math.nan if is_missing(text) else _number(text)
        if number is None or math.isinf(number):
            problem = "is not a number" if number is None else "is not finite"
            raise UserError(f"Column {name!r} of {table.path}, line {line}: {text!r} {problem}. {way_out}")
        numbers.append(number)
    return np.array(numbers, dtype=np.float64)


def missing_mask(table: TextTable, name: str) -> npt.NDArray[np.bool_]:
    """Which rows miss a value in a column."""
    values = table.numbers(name)
    if values is not None:
        return np.isnan(values)
    return np.array([is_missing(text) for text in table.columns[name]], dtype=bool)


def describe_counts(counts: dict[str, int]) -> str:
    """Counts by column, the largest first.

    >>> describe_counts({"age": 2, "size": 30})
    'size 30, age 2'
    """
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda entry: -entry[1]))


@dataclass(frozen=True)
class NumericColumn:
    """A column of numbers; missing values become the mean of the training part."""

    name: str
    mean: float

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the columns that it becomes."""
        return (self.name,)

    def encode(self, table: TextTable) -> Column:
        """(rows, 1)."""
        values = parse_numbers(table, self.name)
        return np.where(np.isnan(values), self.mean, values)[:, None]


@dataclass(frozen=True)
class CategoryColumn:
    """A column of text, one-hot over the categories of the training part; anything else is all zeros."""

    name: str
    categories: tuple[str, ...]

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the columns that it becomes."""
        return tuple(f"{self.name}={category}" for category in self.categories)

    def encode(self, table: TextTable) -> Column:
        """(rows, categories)."""
        position = {category: column for column, category in enumerate(self.categories)}
        texts = table.columns[self.name]
        encoded = np.zeros((len(texts), len(position)))
        unknown: dict[str, int] = {}
        for row, text in enumerate(texts):
            if text in position:
                encoded[row, position[text]] = 1.0
            elif not is_missing(text):
                unknown[text] = unknown.get(text, 0) + 1
        if unknown:
            log.warning(
                "Column %r: categories that the training part does not have are encoded as zeros: %s",
                self.name,
                describe_counts(unknown),
            )
        return encoded


@dataclass(frozen=True)
class Encoder:
    """Feature columns to numbers, as fitted on the training part."""

    columns: tuple[NumericColumn | CategoryColumn, ...]

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the numeric columns."""
        return tuple(name for column in self.columns for name in column.outputs)

    def encode(self, table: TextTable) -> Column:
        """(rows, outputs) in original units."""
        return np.concatenate([column.encode(table) for column in self.columns], axis=1)


def fit_encoder(train: TextTable, numeric: dict[str, bool], categorical: Categorical) -> Encoder:
    """Means and categories of the training part.

    Args:
        train: its rows.
        numeric: feature column -> whether it has numbers.
        categorical: "onehot", or "error" to refuse text.
    """
    columns: list[NumericColumn | CategoryColumn] = []
    for name, has_numbers in numeric.items():
        if all(map(is_missing, train.columns[name])):
            raise UserError(
                f"Column {name!r} of {train.path} has no values in the training part. Leave it out of data.features."
            )
        if has_numbers:
            values = parse_numbers(train, name)
            with np.errstate(over="ignore"):  # values too large to average are refused when the scales are fitted
                columns.append(NumericColumn(name, float(values[~np.isnan(values)].mean())))
        else:
            columns.append(CategoryColumn(name, _categories(train, name, categorical)))
    return Encoder(tuple(columns))


def _categories(train: TextTable, name: str, categorical: Categorical) -> tuple[str, ...]:
    found = sorted({text for text in train.columns[name] if not is_missing(text)})
    ways_out = "Leave it out of data.features, or turn it into numbers"
    if categorical == "error":
        raise UserError(
            f"Column {name!r} of {train.path} has text ({found[0]!r} ...), which data.categorical=error refuses. "
            f"{ways_out}, or set data.categorical=onehot."
        )
    if len(found) > MAX_CATEGORIES:
        raise UserError(
            f"Column {name!r} of {train.path} has {len(found)} categories ({found[0]!r}, {found[1]!r} ...), more than "
            f"{MAX_CATEGORIES}: it looks like an identifier, a date or free text. {ways_out}."
        )
    return tuple(found)


def _number(text: str) -> float | None:
    # float() takes 1_000, which no program writes as a number.
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None
