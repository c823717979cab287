from __future__ import annotations

import numpy as np

from concrete_dropout.plots.metrics import curves, title_of


def test_short_lines_are_drawn_as_they_are() -> None:
    (line,) = curves({"val/nll": ([0, 10], [2.0, 1.5])}).data
    np.testing.assert_allclose(line.y, [2.0, 1.5])
    assert "markers" in line.mode


def test_long_lines_are_smoothed_over_the_faint_values() -> None:
    chance = np.random.default_rng(0)
    raw, smooth = curves({"train/nll": (range(2000), chance.normal(size=2000))}).data
    assert len(raw.x) <= 400
    assert len(smooth.x) <= 400
    assert np.std(smooth.y) < 0.3 * np.std(raw.y)
    assert not raw.showlegend
    assert raw.legendgroup == smooth.legendgroup


def test_the_axis_has_the_unit_where_all_share_one() -> None:
    assert curves({"train/nll": ([0], [1]), "val/nll": ([0], [1])}).layout.yaxis.title.text == "Nats"
    assert curves({"train/nll": ([0], [1]), "val/rmse": ([0], [1])}).layout.yaxis.title.text == "Value"


def test_titles_are_words() -> None:
    assert title_of("val/nll") == "Negative log-likelihood"
    assert title_of("some_thing") == "Some thing"
    assert title_of("") == ""
