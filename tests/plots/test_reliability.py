from __future__ import annotations

import math

import numpy as np
import pytest

from concrete_dropout.plots.reliability import mean_gap, reliability_curve

CURVE = {"confidence": [0.9, 0.3], "frequency": [0.8, 0.4], "share": [0.75, 0.25]}


def test_a_curve_is_drawn_by_confidence_over_its_shares() -> None:
    perfect, line, bars, other, _ = reliability_curve({"with MC": CURVE, "without MC": CURVE}).data
    assert list(perfect.x) == list(perfect.y) == [0, 1]
    np.testing.assert_allclose(line.x, [0.3, 0.9])
    np.testing.assert_allclose(line.y, [0.4, 0.8])
    assert (line.name, other.name) == ("with MC", "without MC")
    assert (bars.type, bars.yaxis) == ("bar", "y2")
    np.testing.assert_allclose(bars.y, [0.25, 0.75])
    # A click in the legend hides both.
    assert line.legendgroup == bars.legendgroup != other.legendgroup
    assert not bars.showlegend


def test_bars_of_several_curves_stand_side_by_side() -> None:
    bars = [trace for trace in reliability_curve(dict.fromkeys("abc", CURVE)).data if trace.type == "bar"]
    ends = [(bar.offset, bar.offset + bar.width) for bar in bars]
    assert ends[0][1] == pytest.approx(ends[1][0])
    assert ends[1][1] == pytest.approx(ends[2][0])
    assert -ends[0][0] == pytest.approx(ends[2][1])
    assert ends[2][1] - ends[0][0] < 0.05


def test_the_gap_is_confidence_minus_accuracy() -> None:
    assert mean_gap(CURVE) == pytest.approx(0.75 * 0.1 + 0.25 * -0.1)
    assert math.isnan(mean_gap({}))
    assert math.isnan(mean_gap({"confidence": [0.5], "frequency": [0.5], "share": [0.0]}))
