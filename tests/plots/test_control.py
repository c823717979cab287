from __future__ import annotations

import numpy as np

from concrete_dropout.plots.control import over_episodes, paths_over_time, phase

NAMES = ("x", "v")
BUNDLE = {
    "particles": [[[t + k, 10 * t] for k in range(3)] for t in range(4)],  # (T + 1, K, S)
    "observed": [[t, 9 * t] for t in range(4)],
}


def test_lines_with_bands() -> None:
    lines = {"true": ([1, 2, 3], [4.0, 5.0, 6.0]), "model": ([1, 2], [7.0, 8.0]), "none": ([], [])}
    made = over_episodes(lines, "Reward", "reward", spread={"true": [1.0, 0.5, 0.0], "model": [1.0]})
    named = [trace for trace in made.data if trace.mode == "lines+markers"]
    assert [trace.name for trace in named] == ["true", "model"]
    (band,) = [trace for trace in made.data if trace.fill == "toself"]  # that of the model has a wrong length
    np.testing.assert_allclose(band.y, [5.0, 5.5, 6.0, 6.0, 4.5, 3.0])


def test_names_are_escaped() -> None:
    made = over_episodes({"<b>": ([1], [2.0])}, "t", "y")
    assert made.data[0].name == "&lt;b&gt;"


def test_nothing_to_show() -> None:
    assert over_episodes({}, "t", "y").layout.annotations[0].text == "No values yet"
    for broken in ({}, {"particles": [], "observed": []}, {"particles": [[1]], "observed": "x"}):
        assert phase(broken, NAMES, (0, 1), "t").layout.annotations[0].text == "No prediction recorded"
        assert paths_over_time(broken, NAMES, 0).layout.annotations[0].text == "No prediction recorded"


def test_a_phase_plot_has_every_particle_and_what_happened() -> None:
    made = phase(BUNDLE, NAMES, (0, 1), "Episode 1")
    lines = [trace for trace in made.data if trace.mode == "lines"]
    assert len(lines) == 3
    np.testing.assert_allclose(lines[2].x, [2, 3, 4, 5])
    (seen,) = [trace for trace in made.data if trace.name == "what happened"]
    np.testing.assert_allclose(seen.y, [0, 9, 18, 27])
    assert (made.layout.xaxis.title.text, made.layout.yaxis.title.text) == NAMES


def test_paths_over_time() -> None:
    made = paths_over_time(BUNDLE, NAMES, 1)
    assert len(made.data) == 4
    np.testing.assert_allclose(made.data[-1].y, [0, 9, 18, 27])
