"""Text files of numbers between white space, with messages that name file and line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from concrete_dropout.errors import UserError


def read_numbers(path: Path) -> npt.NDArray[np.float64]:
    """The table (rows, columns) in a file; blank lines do not count."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not a text file of numbers ({error.reason}). {_RESTORE}") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}). {_RESTORE}") from error
    if not any(line.strip() for line in lines):
        raise UserError(f"{path} is empty. {_RESTORE}")
    try:
        values = np.loadtxt(lines, dtype=np.float64, comments=None, ndmin=2)
    except ValueError as error:
        # loadtxt counts its own rows, without blank lines: look for the line in the file.
        raise UserError(f"{path}, {_first_fault(lines) or error}. {_RESTORE}") from error
    if not np.isfinite(values).all():
        raise UserError(f"{path}, {_first_fault(lines)}. {_RESTORE}")
    return values


def read_index(path: Path) -> npt.NDArray[np.int64]:
    """The whole numbers in a file, at least 0, in one row."""
    values = read_numbers(path).ravel()
    wrong = (values < 0) | (values != np.round(values))
    if wrong.any():
        raise UserError(f"{path}: {values[wrong][0]:g} is not a row or column number. {_RESTORE}")
    return values.astype(np.int64)


_RESTORE = "Restore the file from its source, or delete the folder of the data set to have it downloaded again."


def _first_fault(lines: Sequence[str]) -> str | None:
    width = None
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        if not fields:
            continue
        width = width or len(fields)
        if len(fields) != width:
            return f"line {number}: {len(fields)} numbers, where the lines before have {width}"
        for field in fields:
            try:
                value = float(field)
            except ValueError:
                return f"line {number}: {field!r} is not a number"
            if not np.isfinite(value):
                return f"line {number}: {field!r} is not finite"
    return None
