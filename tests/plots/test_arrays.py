from __future__ import annotations

import numpy as np

from concrete_dropout.plots.arrays import columns, moving_mean, numbers, output_column, outputs, series, thin


def test_numbers_turns_everything_else_into_nan() -> None:
    found = numbers([1, "2.5", None, "", "x", float("inf"), [3]])
    np.testing.assert_array_equal(found, [1, 2.5, np.nan, np.nan, np.nan, np.nan, np.nan])


def test_series_is_sorted_and_without_gaps() -> None:
    x, y = series(([3, 1, 2, 4, 5], [30, 10, None, 40]))
    assert x.tolist() == [1, 3, 4]
    assert y.tolist() == [10, 30, 40]


def test_thin_keeps_both_ends_and_the_limit() -> None:
    values = np.arange(10_001.0)
    (kept,) = thin(values, limit=400)
    assert len(kept) == 400
    assert (kept[0], kept[-1]) == (0, 10_000)
    assert thin(values[:5])[0] is not None
    assert len(thin(values[:5])[0]) == 5


def test_moving_mean_against_a_loop() -> None:
    values = np.random.default_rng(0).normal(size=50)
    expected = [values[max(0, i - 3) : i + 4].mean() for i in range(50)]
    np.testing.assert_allclose(moving_mean(values, 7), expected, atol=1e-12)


def test_rows_and_columns_are_the_same_table() -> None:
    rows = [{"target": "1", "mean": "2"}, {"target": "3", "mean": "oops"}]
    by_rows, by_columns = columns(rows), columns({"target": [1, 3], "mean": [2, None]})
    for name in ("target", "mean"):
        np.testing.assert_array_equal(by_rows[name], by_columns[name])
    assert columns([]) == {}


def test_outputs_are_found_by_their_targets() -> None:
    table = columns({"x:a": [0], "target:h": [1], "mean:h": [2], "target:w:z": [3]})
    assert outputs(table) == ["h", "w:z"]
    assert output_column(table, "mean", "h").tolist() == [2]
    assert output_column(table, "mean", "w:z").tolist() == []
