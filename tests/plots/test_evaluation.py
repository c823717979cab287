from __future__ import annotations

import math

import numpy as np
import pytest

from concrete_dropout.plots.evaluation import Line, against_samples, against_severity, auroc_bars


def test_samples_are_on_a_logarithmic_axis_and_no_dropout_is_flat() -> None:
    lines = [Line("concrete", [5, 20], [0.3, 0.2], [0.01, math.nan]), Line("bernoulli", [5, 20], [0.4, 0.3], None, 1)]
    made = against_samples(lines, {"no dropout": (0.5, 2, 0)}, "nll")
    first, second, flat = made.data
    assert made.layout.xaxis.type == "log"
    assert list(made.layout.xaxis.tickvals) == [5, 20]
    np.testing.assert_allclose(first.error_y.array, [0.01, 0.0])
    assert (first.error_y.visible, second.error_y.visible) == (True, False)
    assert list(flat.y) == [0.5, 0.5]
    assert flat.x[0] < 5 < 20 < flat.x[1]
    assert len({trace.line.color for trace in made.data}) == 3


def test_chance_is_drawn_where_shifted_data_are_told() -> None:
    lines = [Line("blur", [1, 2], [0.6, 0.9])]
    assert against_severity(lines, "auroc").layout.shapes[0].y0 == 0.5
    assert len(against_severity(lines, "nll").layout.shapes) == 0
    assert against_severity(lines, "accuracy").layout.yaxis.tickformat == ".2~%"


def test_bars() -> None:
    made = auroc_bars({"entropy": {"noise": 0.9, "digits": 0.8}, "confidence": {"noise": 0.7, "digits": 0.6}})
    assert [list(bar.y) for bar in made.data] == [[0.9, 0.8], [0.7, 0.6]]


@pytest.mark.parametrize("made", [against_samples([], {}, "nll"), against_severity([], "nll"), auroc_bars({})])
def test_nothing_to_draw_is_said(made: object) -> None:
    assert made.layout.annotations[0].text == "No values yet"  # type: ignore[attr-defined]


def test_names_are_text() -> None:
    assert against_severity([Line("<b>a</b>", [1], [2.0])], "nll").data[0].name == "&lt;b&gt;a&lt;/b&gt;"
