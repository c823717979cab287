"""Figures that compare runs: means and marks are those of the numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from concrete_dropout.plots import overlays
from concrete_dropout.plots.comparison import Repeats, against
from concrete_dropout.plots.overlays import Curve
from concrete_dropout.plots.theme import PALETTE


def test_lines_go_through_means_and_single_runs_are_marks() -> None:
    lines = [Repeats("a", {1000: [1.0, 3.0], 10: [2.0, None], 100: ["x"]}, {1000: [False, True]}, colour=1)]
    made = against("t", "N", "y", lines, {10: "10", 100: "100", 1000: "1k"}, log=True, from_zero=True)
    runs, line, flags = made.data
    assert list(line.x) == [10, 1000]
    assert list(line.y) == [2.0, 2.0]
    assert sorted(zip(runs.x, runs.y, strict=True)) == [(10, 2.0), (1000, 1.0), (1000, 3.0)]
    assert (list(flags.x), list(flags.y)) == ([1000], [3.0])
    assert made.layout.xaxis.type == "log"
    # A place without a value needs no tick.
    assert made.layout.xaxis.tickvals == (10, 1000)
    assert line.line.color == PALETTE[1]


def test_ticks_that_would_overlap_have_no_text() -> None:
    values = {place: [1.0] for place in (0.1, 1, 2, 100)}
    made = against("t", "x", "y", [Repeats("", values)], {p: f"{p:g}" for p in values}, log=True, from_zero=False)
    assert made.layout.xaxis.ticktext == ("0.1", "1", "", "100")
    made = against("t", "x", "y", [Repeats("", values)], {p: f"{p:g}" for p in values}, log=False, from_zero=False)
    assert made.layout.xaxis.ticktext == ("0.1", "", "", "100")


def test_many_lines_have_no_legend() -> None:
    lines = [Repeats(f"l{i}", {1: [0.1], 2: [0.2]}, colour=i) for i in range(20)]
    made = against("t", "x", "y", lines, {1: "1", 2: "2"}, log=False, from_zero=True)
    assert not any(trace.showlegend for trace in made.data)
    assert len({trace.line.color for trace in made.data[1::2]}) == 20


def test_nothing_to_draw() -> None:
    for made in (
        against("t", "x", "y", [Repeats("a", {1: [None]})], {}, log=True, from_zero=True),
        overlays.reliability([Curve("a", [], [])]),
        overlays.selective("t", "y", []),
        overlays.profiles([]),
        overlays.by_class([], {}),
    ):
        assert len(made.data) == 0
        assert len(made.layout.annotations) == 1


def test_curves_keep_their_colours_dashes_and_sizes() -> None:
    curves = [
        Curve("a, MC", [0.5, 0.9], [0.4, 0.9], sizes=[0.25, 0.75]),
        Curve("a, one pass", [0.5, 0.9], [0.3, 0.8], dashed=True, in_legend=False),
    ]
    diagonal, first, second = overlays.reliability(curves).data
    assert diagonal.name == "perfect"
    assert (first.line.dash, second.line.dash) == ("solid", "dash")
    assert first.line.color == second.line.color
    assert (first.showlegend, second.showlegend) == (True, False)
    areas = (np.array(first.marker.size) - 4) ** 2
    assert areas[1] / areas[0] == pytest.approx(3, rel=1e-2)
    shifted, _ = overlays.gaps(curves, "t", "x").data
    np.testing.assert_allclose(shifted.y, [-0.1, 0.0], atol=1e-9)


def test_profiles_have_bands_and_crosses() -> None:
    curve = Curve("a", [1, 2], [0.1, 0.3], low=[0.05, 0.2], high=[0.15, 0.4], colour="rgb(1, 2, 3)")
    band, line, flags = overlays.profiles([curve], [(2.0, 0.4)]).data
    np.testing.assert_allclose(band.y, [0.15, 0.4, 0.2, 0.05])
    assert band.fillcolor == "rgba(1, 2, 3,0.15)"
    assert list(line.y) == [0.1, 0.3]
    assert (list(flags.x), list(flags.y)) == ([2.0], [0.4])


def test_classes_have_means_and_runs() -> None:
    made = overlays.by_class(["road", "sky"], {"one": [[0.5, None], [0.7, None]], "two": [[0.9, 0.1, 5.0]]})
    runs, means, other = made.data
    assert list(means.x) == [pytest.approx(0.6), None]
    assert list(other.x) == [0.9, 0.1]
    assert len(runs.x) == 4
    assert means.y[0] < other.y[0]
    json.loads(made.to_json(), parse_constant=lambda name: pytest.fail(name))


def test_names_are_escaped() -> None:
    text = "<b>%{x}</b>"
    made = against(
        "t", "x", "y", [Repeats(text, {1: [1.0]}), Repeats("b", {1: [2.0]})], {1: text}, log=False, from_zero=True
    )
    assert made.data[1].name == "&lt;b&gt;%{x}&lt;/b&gt;"
    assert "%{x}</b>" not in made.data[1].hovertemplate
    assert overlays.selective("t", "y", [Curve(text, [0], [1])]).data[0].name.startswith("&lt;b&gt;")
