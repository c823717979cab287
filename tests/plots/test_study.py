"""Figures of replicas and studies: means and spreads are those of the numbers."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from concrete_dropout.plots import replicas, study


def test_the_band_holds_all_replicas_and_the_line_is_their_mean() -> None:
    made = replicas.spread({"a": [([0, 1, 2], [0.1, 0.2, 0.3]), ([0, 1], [0.3, 0.6])]})
    band, line = made.data
    np.testing.assert_allclose(line.x, [0, 1])
    np.testing.assert_allclose(line.y, [0.2, 0.4])
    np.testing.assert_allclose(band.y, [0.3, 0.6, 0.2, 0.1])
    assert band.legendgroup == line.legendgroup


def test_many_layers_have_lines_without_bands() -> None:
    made = replicas.spread({f"l{i}": [([0, 1], [0.1, 0.2])] * 3 for i in range(30)})
    assert len(made.data) == 30
    assert not any(trace.showlegend for trace in made.data)


def test_a_strip_has_a_dot_per_replica_and_layers_do_not_overlap() -> None:
    made = replicas.strip({"boston": {"a": [0.1, 0.2], "b": [0.3]}, "yacht": {"b": [0.4, None]}})
    dots = made.data[0::2]
    means = made.data[1::2]
    assert [list(trace.x) for trace in dots] == [[0.1, 0.2], [0.3, 0.4]]
    assert [list(trace.x) for trace in means] == [[pytest.approx(0.15)], [0.3, 0.4]]
    assert max(dots[0].y) < dots[1].y[0] < 0.5 < dots[1].y[1]
    assert made.layout.yaxis.ticktext == ("boston", "yacht")
    assert made.layout.showlegend
    assert not replicas.strip({"a": {"a": [0.1]}, "b": {"b": [0.2]}}).layout.showlegend


def test_many_layers_in_a_strip() -> None:
    made = replicas.strip({f"l{i}": {f"l{i}": [0.1, 0.2]} for i in range(20)})
    assert len({trace.marker.color for trace in made.data[0::2]}) == 20


def test_lines_over_initial_p_join_means() -> None:
    made = replicas.against_initial({"a": ([0.5, 0.1, 0.1], [0.3, 0.2, 0.4])})
    _, line, dots = made.data
    np.testing.assert_allclose(line.x, [0.1, 0.5])
    np.testing.assert_allclose(line.y, [0.3, 0.3])
    assert len(dots.x) == 3


def test_sizes_are_on_a_logarithmic_axis_with_legible_ticks() -> None:
    made = study.against_size("t", "y", {"a": {1000: [1.0, 3.0], 10: [2.0], 25: [5.0], 30: [1.0, None]}}, 1.0, "noise")
    assert made.layout.xaxis.type == "log"
    assert made.layout.xaxis.tickvals == (10, 25, 30, 1000)
    assert made.layout.xaxis.ticktext == ("10", "25", "", "1k")
    reference, dots, line = made.data
    assert list(reference.y) == [1.0, 1.0]
    assert len(dots.x) == 5
    assert list(line.y) == [2.0, 5.0, 1.0, 2.0]


def test_long_bars_are_cut_and_their_numbers_are_not() -> None:
    made = study.differences({"a": {"RMSE": 123.4}, "b": {"RMSE": -0.26, "LL": math.inf}})
    rmse, ll = made.data
    assert list(rmse.x) == [study.MAX_SHOWN_SE, -0.26]
    assert list(rmse.text) == ["+123.4", "−0.3"]
    assert list(ll.text) == ["", "+inf"]
    json.loads(made.to_json(), parse_constant=lambda name: pytest.fail(name))
