"""A user's CSV file as columns of text, or one sentence about what is wrong with it."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from concrete_dropout.data.checks import did_you_mean
from concrete_dropout.errors import UserError

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
SNIFFED_ROWS = 50
# The first bytes of files that people take for tables.
NOT_TEXT = {
    b"PK\x03\x04": "an Excel workbook or a zip archive",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"\x1f\x8b": "compressed by gzip",
    b"PAR1": "a Parquet file",
    b"\x89HDF": "an HDF5 file",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}


@dataclass(frozen=True)
class TextTable:
    """Columns of stripped text.

    Attributes:
        path: where from.
        columns: name -> one text per row.
        lines: line of the file that each row ends on, for messages.
    """

    path: Path
    columns: dict[str, list[str]]
    lines: list[int]
    _numbers: dict[str, npt.NDArray[np.float64] | None] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.lines)

    def take(self, rows: Sequence[int]) -> TextTable:
        """Some of the rows."""
        columns = {name: [texts[row] for row in rows] for name, texts in self.columns.items()}
        numbers = {name: None if values is None else values[list(rows)] for name, values in self._numbers.items()}
        return TextTable(self.path, columns, [self.lines[row] for row in rows], numbers)

    def numbers(self, name: str) -> npt.NDArray[np.float64] | None:
        """A column that is all numbers, as most are, parsed once; None for one with gaps or text."""
        if name not in self._numbers:
            texts = self.columns[name]
            try:
                values = None if "_" in "".join(texts) else np.array(list(map(float, texts)), dtype=np.float64)
            except ValueError:
                values = None
            self._numbers[name] = values
        return self._numbers[name]

    def require(self, key: str, names: Sequence[str]) -> None:
        """Refuse names that are not columns."""
        for name in names:
            if name not in self.columns:
                raise UserError(
                    f"{key}: {self.path} has no column {name!r}.{did_you_mean(name, self.columns)} "
                    f"Its columns are {_some(list(self.columns))}."
                )


def read_text_table(key: str, path: str | Path, one_column: bool = False) -> TextTable:
    """Read a file whose first line has the names; commas, semicolons, tabs and bars are told apart.

    Args:
        key: config key of the path, for messages.
        path: of the file; UTF-8.
        one_column: whether a file may have a single column.
    """
    path = Path(path).expanduser().absolute()
    text = _decode(key, path)
    separator = _sniff(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True)
    try:
        rows = [(reader.line_num, [field.strip() for field in row]) for row in reader if row]
    except csv.Error as error:
        raise UserError(f"{key}: {path}, line {reader.line_num}: {error}. Check the quotation marks.") from error
    if not rows:
        raise UserError(f"{key}: {path} is empty. The first line should have the names of the columns.")
    names = rows[0][1]
    _check_names(key, path, names, separator, one_column)
    for line, fields in rows[1:]:
        if len(fields) != len(names):
            raise UserError(
                f"{key}: {path}, line {line}: {len(fields)} fields, but the first line names {len(names)} columns "
                f"(separated by {SEPARATORS[separator]}s)."
            )
    if len(rows) == 1:
        raise UserError(f"{key}: {path} has a line of column names, but no rows.")
    columns = {name: [fields[column] for _, fields in rows[1:]] for column, name in enumerate(names)}
    return TextTable(path, columns, [line for line, _ in rows[1:]])


def _decode(key: str, path: Path) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise UserError(f"{key}: there is no file {path}.") from error
    except OSError as error:
        raise UserError(f"{key}: {path} cannot be read ({error.strerror}).") from error
    for start, kind in NOT_TEXT.items():
        if content.startswith(start):
            raise UserError(f"{key}: {path} is not a CSV file, but {kind}. Export it as CSV in UTF-8.")
    if b"\0" in content:
        raise UserError(f"{key}: {path} is not a CSV file: it has binary content. Export the table as CSV in UTF-8.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{key}: {path}, line {line}: byte {content[error.start]:#04x} is not UTF-8. Save the file as UTF-8, "
            "for example with: iconv -f latin1 -t utf-8."
        ) from error


def _sniff(text: str) -> str:
    """The separator that cuts the first rows into equally many fields, the more the better."""

    def rank(separator: str) -> tuple[bool, int]:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
        try:
            widths = [len(row) for row in islice((row for row in reader if row), SNIFFED_ROWS)]
        except csv.Error:
            return False, 0
        first = widths[0] if widths else 0
        return first > 1 and set(widths) == {first}, first

    return max(SEPARATORS, key=rank)


def _check_names(key: str, path: Path, names: list[str], separator: str, one_column: bool) -> None:
    if len(names) == 1 and not one_column:
        raise UserError(
            f"{key}: {path} has one column only, {names[0][:60]!r}. "
            "Separate columns by commas, semicolons, tabs or bars."
        )
    if all(_is_number(name) for name in names):
        raise UserError(
            f"{key}: the first line of {path} has numbers ({_some(names)}); it should have the names of the columns."
        )
    if "" in names:
        raise UserError(
            f"{key}: column {names.index('') + 1} of {path} has no name. Name it or remove it; pandas writes such a "
            f"column unless index=False, and a {SEPARATORS[separator]} at the end of each line makes one."
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"{key}: {path} has several columns called {_some(twice)}. Give each its own name.")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _some(names: list[str], most: int = 12) -> str:
    """The first of a list of names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
