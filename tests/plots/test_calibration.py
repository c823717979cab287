from __future__ import annotations

import numpy as np
import pytest

from concrete_dropout.plots.calibration import coverage_curve, pit_histogram


def test_a_curve_is_drawn_as_given_beside_the_diagonal() -> None:
    expected, observed = [0.1, 0.5, 0.9], [0.2, 0.6, 0.95]
    perfect, test = coverage_curve({"test": (expected, observed)}).data
    assert list(perfect.x) == list(perfect.y) == [0, 1]
    np.testing.assert_allclose(test.x, expected)
    np.testing.assert_allclose(test.y, observed)
    assert test.name == "test"


def test_shares_of_the_histogram_sum_to_one() -> None:
    values = np.random.default_rng(0).uniform(size=1000)
    bars, perfect = pit_histogram([*values, 0.0, 1.0, None, 3.0], bins=10).data
    assert sum(bars.y) == pytest.approx(1)
    assert list(perfect.y) == [0.1, 0.1]
