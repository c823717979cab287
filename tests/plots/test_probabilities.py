from __future__ import annotations

import numpy as np
import pytest

from concrete_dropout.plots.probabilities import MAX_LEGEND, MAX_NAMED_BARS, by_depth, trajectories


def rows(layers: int, steps: int = 50) -> dict[str, tuple[list[int], list[float]]]:
    return {f"layers.{i}": (list(range(steps)), [0.1 + 0.001 * i] * steps) for i in range(layers)}


def test_a_few_layers_have_a_legend_and_differ_in_colour_and_dash() -> None:
    made = trajectories(rows(4))
    assert [trace.name for trace in made.data] == [f"layers.{i}" for i in range(4)]
    assert len({trace.line.color for trace in made.data}) == 4
    assert len({trace.line.dash for trace in made.data}) == 4
    assert all(trace.showlegend for trace in made.data)


def test_many_layers_are_coloured_by_depth_with_a_scale() -> None:
    made = trajectories(rows(60))
    *lines, scale = made.data
    assert len({trace.line.color for trace in lines}) == 60
    assert not any(trace.showlegend for trace in made.data)
    assert scale.marker.showscale
    assert scale.marker.cmax == 60


def test_long_runs_stay_small() -> None:
    made = trajectories(rows(60, steps=5000))
    assert len(made.to_json()) < 300_000
    assert all(trace.x[-1] == 4999 for trace in made.data[:-1])


def test_the_axis_starts_at_zero() -> None:
    assert trajectories(rows(MAX_LEGEND)).layout.yaxis.range[0] == 0
    low, high = by_depth(["a"], [0.9]).layout.xaxis.range
    assert low == 0
    assert 0.9 < high <= 1.02


def test_bars_name_their_layers_from_top_to_bottom() -> None:
    made = by_depth(["first", "last"], [0.1, 0.2], [0.3, None])
    bar, start, text = made.data
    np.testing.assert_allclose(bar.x, [0.1, 0.2])
    np.testing.assert_allclose(start.x, [0.3, np.nan])
    np.testing.assert_allclose(text.x, [0.3, 0.2])
    assert made.layout.yaxis.ticktext == ("first", "last")
    assert made.layout.yaxis.range[0] > made.layout.yaxis.range[1]


@pytest.mark.parametrize("initial", [None, 0.1, [0.1] * 50])
def test_many_bars_are_numbered(initial: float | list[float] | None) -> None:
    count = MAX_NAMED_BARS + 1
    made = by_depth([f"l{i}" for i in range(count)], [0.2] * count, initial)
    assert made.data[0].x.tolist() == list(range(1, count + 1))
    assert len(made.data) == (1 if initial is None else 2)
    assert len(made.data[-1].y) == count
