"""Custom charts for W&B as Vega-Lite: p over depth, and curves of calibration.

W&B fills ``${field:...}`` and ``${string:...}`` from the panel, and gives the rows of the named tables of all chosen
runs as the data set "wandb", each with the name of its run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
RUN = {"field": "name", "type": "nominal", "title": "run"}


@dataclass(frozen=True)
class Chart:
    """A custom chart.

    Args:
        name: of the definition in W&B, unique for its owner.
        title: in words.
        spec: Vega-Lite.
        fields: the chart's fields -> columns of the table that it is for.
    """

    name: str
    title: str
    spec: dict[str, Any]
    fields: dict[str, str]


def depth_chart() -> Chart:
    """Every layer's p in the order of depth: where it started (open) and where it ended, one line per run."""
    layer = {"field": "${field:layer}", "type": "nominal", "sort": None, "title": "layer, from input to output"}
    ends = {"field": "${field:final}", "type": "quantitative", "title": "p", "scale": {"zero": True}}
    starts = {**ends, "field": "${field:initial}"}
    tooltip = [RUN, *({"field": f"${{field:{key}}}"} for key in ("layer", "initial", "final"))]
    spec = _spec(
        [
            {"mark": {"type": "line"}, "encoding": {"x": layer, "y": ends, "color": RUN}},
            {
                "mark": {"type": "point", "filled": True, "size": 60},
                "encoding": {"x": layer, "y": ends, "color": RUN, "tooltip": tooltip},
            },
            {
                "mark": {"type": "point", "size": 40, "opacity": 0.5},
                "encoding": {"x": layer, "y": starts, "color": RUN, "tooltip": tooltip},
            },
        ],
        "Dropout probability over depth",
    )
    return Chart(
        "concrete-dropout-p-over-depth",
        "p over depth",
        spec,
        {"layer": "layer", "initial": "initial", "final": "final"},
    )


def reliability_chart() -> Chart:
    """Share of right predictions by confidence; the size of a point is the share of predictions behind it."""
    return _curve(
        "concrete-dropout-reliability",
        "Reliability",
        {"x": "confidence", "y": "frequency", "size": "share"},
        ("confidence", "share that is right"),
    )


def coverage_chart() -> Chart:
    """Share of targets inside of central intervals by the probability of these."""
    return _curve(
        "concrete-dropout-coverage",
        "Coverage of intervals",
        {"x": "expected", "y": "observed"},
        ("probability of the interval", "share of targets in it"),
    )


CHARTS = {"depth": depth_chart, "reliability": reliability_chart, "coverage": coverage_chart}


def _curve(name: str, title: str, fields: dict[str, str], axes: tuple[str, str]) -> Chart:
    domain = {"domain": [0, 1]}
    x = {"field": "${field:x}", "type": "quantitative", "title": axes[0], "scale": domain}
    y = {"field": "${field:y}", "type": "quantitative", "title": axes[1], "scale": domain}
    tooltip = [RUN, {"field": "${field:x}", "format": ".3f"}, {"field": "${field:y}", "format": ".3f"}]
    layers: list[dict[str, Any]] = [
        {
            "data": {"values": [{"a": 0, "b": 0}, {"a": 1, "b": 1}]},
            "mark": {"type": "line", "strokeDash": [4, 4], "color": "#8a94a0"},
            "encoding": {"x": {"field": "a", "type": "quantitative"}, "y": {"field": "b", "type": "quantitative"}},
        },
        {"mark": {"type": "line"}, "encoding": {"x": x, "y": y, "color": RUN, "tooltip": tooltip}},
    ]
    if "size" in fields:
        size = {"field": "${field:size}", "type": "quantitative", "title": "share of predictions"}
        encoding = {"x": x, "y": y, "color": RUN, "size": size, "tooltip": tooltip}
        layers.append({"mark": {"type": "point", "filled": True}, "encoding": encoding})
    return Chart(name, title, _spec(layers, title), fields)


def _spec(layers: list[dict[str, Any]], title: str) -> dict[str, Any]:
    return {
        "$schema": SCHEMA,
        "description": title,
        "data": {"name": "wandb"},
        "title": "${string:title}",
        "width": "container",
        "height": "container",
        "autosize": "fit",
        "layer": layers,
    }
