"""What holds for every figure: one theme, hostile names, and input that is empty, short or broken."""

from __future__ import annotations

import json
from collections.abc import Callable

import plotly.graph_objects as go
import pytest

from concrete_dropout.plots import (
    TEMPLATE,
    calibration,
    classes,
    metrics,
    probabilities,
    reliability,
    replicas,
    selective,
    study,
    uncertainty,
)

HOSTILE = "<b>x</b><a href='javascript:alert(1)'>y</a>%{customdata}</script>"

EMPTY: dict[str, Callable[[], go.Figure]] = {
    "trajectories": lambda: probabilities.trajectories({}),
    "trajectories without values": lambda: probabilities.trajectories({"a": ([], [])}),
    "by_depth": lambda: probabilities.by_depth([], []),
    "by_depth without values": lambda: probabilities.by_depth(["a"], [None], [None]),
    "coverage_curve": lambda: calibration.coverage_curve({}),
    "pit_histogram": lambda: calibration.pit_histogram([]),
    "pit_histogram outside": lambda: calibration.pit_histogram([2.0, None]),
    "band": lambda: uncertainty.band({}),
    "error_against_std": lambda: uncertainty.error_against_std([]),
    "error_against_std other columns": lambda: uncertainty.error_against_std({"target": [1.0]}),
    "error_against_std not finite": lambda: uncertainty.error_against_std(
        {"target": [None], "mean": [1], "predictive_std": [1]}
    ),
    "histogram": lambda: uncertainty.histogram([]),
    "curves": lambda: metrics.curves({}),
    "spread": lambda: replicas.spread({}),
    "spread without values": lambda: replicas.spread({"a": [([], []), ([0], [None])]}),
    "spread without shared steps": lambda: replicas.spread({"a": [([0], [0.1]), ([1], [0.1])]}),
    "by_group": lambda: replicas.by_group("layer", {"a": ([], [])}),
    "strip": lambda: replicas.strip({}),
    "strip without values": lambda: replicas.strip({"a": {"b": [None]}, "c": {}}),
    "against_initial": lambda: replicas.against_initial({"a": ([0.1], [None])}),
    "against_size": lambda: study.against_size("Title", "y", {"a": {10: [None]}, "b": {0: [1.0]}}),
    "differences": lambda: study.differences({}),
    "curves without values": lambda: metrics.curves({"val/nll": ([1], [None])}),
    "reliability_curve": lambda: reliability.reliability_curve({}),
    "reliability_curve without values": lambda: reliability.reliability_curve({"a": {"confidence": [0.5]}, "b": {}}),
    "left_out": lambda: selective.left_out({}, "accuracy"),
    "left_out without values": lambda: selective.left_out({"left_out": [0], "miou_kept": [None]}, "miou"),
    "entropy_by_outcome": lambda: selective.entropy_by_outcome([]),
    "entropy_by_outcome other columns": lambda: selective.entropy_by_outcome({"correct": [1]}),
    "class_iou": lambda: classes.class_iou([], []),
    "class_iou without values": lambda: classes.class_iou(["a"], [None], [None]),
}

ONE_POINT: dict[str, Callable[[], go.Figure]] = {
    "trajectories": lambda: probabilities.trajectories({"a": ([0], [0.1])}),
    "by_depth": lambda: probabilities.by_depth(["a"], [0.0], 0.1),
    "coverage_curve": lambda: calibration.coverage_curve({"test": ([0.5], [0.4])}),
    "pit_histogram": lambda: calibration.pit_histogram([0.5]),
    "band": lambda: uncertainty.band({"x": [0], "mean": [1], "epistemic_std": [0.1], "predictive_std": [1]}),
    "band without prediction": lambda: uncertainty.band({"train_x": [0], "train_y": [1]}),
    "error_against_std": lambda: uncertainty.error_against_std({"target": [1], "mean": [1], "predictive_std": [0]}),
    "histogram": lambda: uncertainty.histogram({"epistemic_std": [0.0]}),
    "curves": lambda: metrics.curves({"val/nll": ([10], [1.5])}),
    "spread": lambda: replicas.spread({"a": [([0], [0.1])]}),
    "by_group": lambda: replicas.by_group("layer", {"a": ([0], [0.1])}),
    "strip": lambda: replicas.strip({"a": {"b": [0.0]}}),
    "against_initial": lambda: replicas.against_initial({"a": ([0.0], [0.0])}),
    "against_size": lambda: study.against_size("Title", "y", {"a": {10: [1.0]}}, reference=1.0),
    "differences": lambda: study.differences({"a": {"RMSE": 0.0}}),
    "reliability_curve": lambda: reliability.reliability_curve(
        {"a": {"confidence": [0.9], "frequency": [1.0], "share": [1.0]}}
    ),
    "left_out": lambda: selective.left_out({"left_out": [0.0], "accuracy_kept": [0.5]}, "accuracy"),
    "entropy_by_outcome": lambda: selective.entropy_by_outcome({"predictive_entropy": [0.0], "correct": [1]}),
    "class_iou": lambda: classes.class_iou(["a"], [0.0]),
}

HOSTILE_NAMES: dict[str, Callable[[], go.Figure]] = {
    "trajectories": lambda: probabilities.trajectories({HOSTILE: ([0, 1], [0.1, 0.2])}),
    "by_depth": lambda: probabilities.by_depth([HOSTILE], [0.1], 0.2),
    "by_depth of many": lambda: probabilities.by_depth([HOSTILE] * 20, [0.1] * 20, 0.2),
    "coverage_curve": lambda: calibration.coverage_curve({HOSTILE: ([0.5], [0.4])}),
    "band": lambda: uncertainty.band({"feature": HOSTILE, "target": HOSTILE, "train_x": [0], "train_y": [1]}),
    "curves": lambda: metrics.curves({HOSTILE: ([0], [1])}, title=HOSTILE),
    "spread": lambda: replicas.spread({HOSTILE: [([0], [0.1]), ([0], [0.2])]}),
    "by_group": lambda: replicas.by_group(HOSTILE, {HOSTILE: ([0], [0.1])}),
    "strip": lambda: replicas.strip({HOSTILE: {HOSTILE: [0.1, 0.2]}}, HOSTILE),
    "against_initial": lambda: replicas.against_initial({HOSTILE: ([0.1], [0.2])}),
    "against_size": lambda: study.against_size(HOSTILE, HOSTILE, {HOSTILE: {10: [1.0]}}, 1.0, HOSTILE),
    "differences": lambda: study.differences({HOSTILE: {HOSTILE: 1.0}}),
    "reliability_curve": lambda: reliability.reliability_curve(
        {HOSTILE: {"confidence": [0.9], "frequency": [1.0], "share": [1.0]}}, HOSTILE
    ),
    "class_iou": lambda: classes.class_iou([HOSTILE], [0.5], [0.4]),
}


def texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for entry in value.values() for text in texts(entry)]
    if isinstance(value, list):
        return [text for entry in value for text in texts(entry)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("make", EMPTY.values(), ids=EMPTY)
def test_nothing_to_draw_is_said(make: Callable[[], go.Figure]) -> None:
    made = make()
    assert len(made.data) == 0
    assert next(note.text for note in made.layout.annotations).startswith("No ")
    assert made.layout.title.text


@pytest.mark.parametrize("make", ONE_POINT.values(), ids=ONE_POINT)
def test_one_point_is_visible(make: Callable[[], go.Figure]) -> None:
    made = make()
    shown = [trace for trace in made.data if trace.x is not None and len(trace.x)]
    assert any(trace.type == "bar" or trace.fill or "markers" in (trace.mode or "") for trace in shown)
    for axis in (made.layout.xaxis, made.layout.yaxis):
        assert axis.range is None or axis.range[0] != axis.range[1]


@pytest.mark.parametrize("make", [*EMPTY.values(), *ONE_POINT.values()], ids=[*EMPTY, *ONE_POINT])
def test_every_figure_has_the_theme_labels_and_strict_json(make: Callable[[], go.Figure]) -> None:
    made = make()
    assert made.layout.template == TEMPLATE
    assert made.layout.xaxis.title.text
    json.loads(made.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.mark.parametrize("make", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES)
def test_names_are_text_and_nothing_else(make: Callable[[], go.Figure]) -> None:
    found = texts(json.loads(make().to_json()))
    assert any("&lt;b&gt;" in text for text in found)
    for text in found:
        assert "<b>" not in text
        assert "<a" not in text
        assert "</script" not in text
    # Templates are filled in by plotly: a name must not bring a placeholder of its own.
    for trace in make().data:
        assert (trace.hovertemplate or "").count("%{customdata}") <= 1
