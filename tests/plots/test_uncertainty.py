from __future__ import annotations

import numpy as np
import pytest

from concrete_dropout.plots.uncertainty import MAX_SCATTER, band, error_against_std, histogram


def named(made: object) -> dict[str, object]:
    return {trace.name: trace for trace in made.data}  # type: ignore[attr-defined]


def predictions(count: int, scale: float = 1.0) -> dict[str, np.ndarray]:
    chance = np.random.default_rng(0)
    std = chance.uniform(0.5, 2.0, size=count)
    mean = chance.normal(size=count)
    parts = {"epistemic_std": 0.6 * std, "aleatoric_std": 0.8 * std, "predictive_std": std}
    return {"target": mean + scale * std * chance.normal(size=count), "mean": mean, **parts}


def test_bands_are_two_standard_deviations_wide_and_in_the_order_of_x() -> None:
    data = {
        "x": [1, 0],
        "mean": [10, 20],
        "epistemic_std": [1, 2],
        "predictive_std": [3, 4],
        "train_x": [],
        "train_y": [],
    }
    outer, inner, mean = band(data).data
    np.testing.assert_allclose(outer.x, [0, 1, 1, 0])
    np.testing.assert_allclose(outer.y, [28, 16, 4, 12])
    np.testing.assert_allclose(inner.y, [24, 12, 8, 16])
    np.testing.assert_allclose(mean.y, [20, 10])


def test_calibrated_errors_lie_on_the_diagonal_and_overconfident_ones_above() -> None:
    for scale in (1.0, 3.0):
        line = named(error_against_std(predictions(20_000, scale)))["RMSE of bins"]
        np.testing.assert_allclose(np.asarray(line.y) / np.asarray(line.x), scale, rtol=0.06)  # type: ignore[attr-defined]


def test_few_points_are_drawn_but_all_count() -> None:
    made = error_against_std(predictions(5000))
    assert len(named(made)["predictions"].x) == MAX_SCATTER  # type: ignore[attr-defined]
    assert len(made.to_json()) < 60_000


def test_one_of_several_outputs_is_chosen() -> None:
    table = {"target:a": [1.0], "mean:a": [0.0], "predictive_std:a": [2.0], "target:b": [5.0], "mean:b": [0.0]}
    points = named(error_against_std({**table, "predictive_std:b": [1.0]}, "b"))["predictions"]
    assert (points.x[0], points.y[0]) == (1.0, 5.0)  # type: ignore[attr-defined]


def test_an_outlier_does_not_squash_the_rest() -> None:
    data = predictions(1000)
    data["target"][0] = 1e6
    assert error_against_std(data).layout.yaxis.range[1] < 20


def test_shares_of_each_kind_sum_to_about_one() -> None:
    made = histogram(predictions(1000))
    assert [trace.name for trace in made.data] == ["epistemic", "aleatoric", "predictive"]
    for trace in made.data:
        assert sum(trace.y) == pytest.approx(1, abs=0.02)
