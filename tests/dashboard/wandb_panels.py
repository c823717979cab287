"""What the panels of W&B views refer to, and whether a logged run has it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from concrete_dropout.dashboard.entry import read_entry
from concrete_dropout.dashboard.wandb_keys import keys_of
from concrete_dropout.dashboard.wandb_views import report, report_json, workspace, workspace_json

CONFIG = Path(__file__).parents[2] / "conf"
Reference = tuple[str, str, tuple[str, ...]]


def panels_of(definition: dict[str, Any]) -> list[dict[str, Any]]:
    """The panels of a workspace or a report, without the names that the library draws for them."""
    if "section" in definition:
        sections = definition["section"]["panelBankConfig"]["sections"]
    else:
        grids = [block for block in definition["blocks"] if block["type"] == "panel-grid"]
        sections = [grid["metadata"]["panelBankSectionConfig"] for grid in grids]
    return [
        {key: value for key, value in panel.items() if key not in ("__id__", "id")}
        for section in sections
        for panel in section["panels"]
    ]


def references(folder: Path) -> dict[str, list[Reference]]:
    """(kind, key, columns) of all that the views of a run folder refer to, for the workspace and the report."""
    keys = keys_of([read_entry(folder).row])
    texts = {
        "workspace": workspace_json(workspace(keys, "team", "project")),
        "report": report_json(report(keys, "team", "project")),
    }
    return {
        name: [found for panel in panels_of(json.loads(text)) for found in _named(panel)]
        for name, text in texts.items()
    }


def check_logged(found: Iterable[Reference], history: Iterable[dict[str, Any]], files: Path) -> set[str]:
    """Assert that a run has all that is referred to; returns the kinds of references that there were."""
    items = list(history)
    keys = {key for item in items for key in item}
    kinds = set()
    for kind, key, columns in found:
        kinds.add(kind)
        if kind == "pattern":
            assert any(re.search(key, other) for other in keys), key
        elif kind == "config":
            block, value, setting = key.split(".")
            assert value == "value"
            assert setting in yaml.safe_load((CONFIG / block / "concrete.yaml").read_text())
        elif kind == "scalar":
            assert key in keys
        else:
            assert f"{key}._type" in keys, key
        if columns:
            path = next(item[f"{key}.path"] for item in items if f"{key}.path" in item)
            assert set(columns) <= set(json.loads((files / path).read_text())["columns"])
    return kinds


def _named(panel: dict[str, Any]) -> Iterator[Reference]:
    config, view = panel["config"], panel["viewType"]
    for key in [*config.get("metrics", []), *([config["xAxis"]] if view == "Run History Line Plot" else [])]:
        yield "scalar", key, ()
    accessors = [config["xAxis"], config["yAxis"]] if view == "Scatter Plot" else []
    for accessor in [*accessors, *(column["accessor"] for column in config.get("columns", []))]:
        kind, _, key = accessor.partition(":")
        yield "scalar" if kind == "summary" else kind, key, ()
    for key in config.get("mediaKeys", []):
        yield "media", key, ()
    if config.get("metricRegex"):
        yield "pattern", config["metricRegex"], ()
    for table in re.findall(r'"tableKey", "value": "([^"]+)"', json.dumps(config)):
        yield "table", table, tuple(config["fieldSettings"].values())
