"""What comes from files becomes arrays that can be drawn: numbers, fewer points, smoothed lines, columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Series = tuple[Iterable[Any], Iterable[Any]]
Table = Mapping[str, Iterable[Any]] | Sequence[Mapping[str, Any]]

MAX_POINTS = 400


def number(value: Any) -> float:
    """A float, or NaN for whatever is none.

    >>> number("0.5"), number(None), number([1]), number("half")
    (0.5, nan, nan, nan)
    """
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def numbers(values: Iterable[Any]) -> Floats:
    """One-dimensional float64 array; what is no finite number becomes NaN, which plotly leaves out."""
    array = np.array([number(value) for value in values], dtype=np.float64)
    return np.where(np.isfinite(array), array, np.nan)


def series(pair: Series) -> tuple[Floats, Floats]:
    """Steps and values as arrays of one length, in the order of the steps, without gaps."""
    x, y = numbers(pair[0]), numbers(pair[1])
    length = min(len(x), len(y))
    x, y = x[:length], y[:length]
    x, y = x[(keep := np.isfinite(x) & np.isfinite(y))], y[keep]
    order = np.argsort(x, kind="stable")
    return x[order], y[order]


def thin(*arrays: Floats, limit: int = MAX_POINTS) -> tuple[Floats, ...]:
    """At most ``limit`` evenly spaced entries of each array; the first and the last one stay.

    >>> thin(np.arange(10.0), limit=4)[0].tolist()
    [0.0, 3.0, 6.0, 9.0]
    """
    length = len(arrays[0])
    if length <= limit:
        return arrays
    index = np.linspace(0, length - 1, limit).round().astype(np.intp)
    return tuple(array[index] for array in arrays)


def moving_mean(values: Floats, window: int) -> Floats:
    """Centred mean over a window that shrinks at the ends; no value is lost.

    >>> moving_mean(np.array([0.0, 3.0, 6.0, 9.0]), 3).tolist()
    [1.5, 3.0, 6.0, 7.5]
    """
    half = window // 2
    sums = np.concatenate([[0.0], np.cumsum(values)])
    index = np.arange(len(values))
    low, high = np.maximum(index - half, 0), np.minimum(index + half + 1, len(values))
    return np.asarray((sums[high] - sums[low]) / (high - low), dtype=np.float64)


def columns(table: Table) -> dict[str, Floats]:
    """A table, given as columns or as rows, as columns of numbers of one length."""
    if isinstance(table, Mapping):
        found = {str(name): numbers(values) for name, values in table.items()}
    else:
        names = list(dict.fromkeys(name for row in table for name in row))
        found = {str(name): numbers(row.get(name) for row in table) for name in names}
    length = min((len(values) for values in found.values()), default=0)
    return {name: values[:length] for name, values in found.items()}


def outputs(table: Table) -> list[str]:
    """Names of the outputs of a table of predictions: "" where there is one, else those of ``target:<name>``.

    >>> outputs([{"target": "1", "mean": "2"}]), outputs({"target:a": [], "target:b": []}), outputs({"x:a": []})
    ([''], ['a', 'b'], [])
    """
    names = list(table) if isinstance(table, Mapping) else list(table[0]) if table else []
    return [name[len("target") :].removeprefix(":") for name in names if name == "target" or name.startswith("target:")]


def output_column(table: Mapping[str, Floats], name: str, output: str) -> Floats:
    """Column of one output, for example ("mean", "") or ("mean", "height"); empty where there is none."""
    return table.get(f"{name}:{output}" if output else name, np.empty(0))
