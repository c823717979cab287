"""The views on disk, and on a W&B server where one is configured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from concrete_dropout.dashboard.wandb_charts import CHARTS
from concrete_dropout.dashboard.wandb_keys import Keys
from concrete_dropout.dashboard.wandb_views import report, report_json, workspace, workspace_json
from concrete_dropout.errors import UserError
from concrete_dropout.report.record import UNREADABLE, mapping
from concrete_dropout.runfolder import RunFolder

FOLDER = "wandb"
WORKSPACE, REPORT, CHART_FILE, PUSHED = "workspace.json", "report.json", "charts.json", "pushed.json"
ANYBODY = "ENTITY"  # in place of an owner that nobody has named


def write_views(out: Path, keys: Keys, entity: str, project: str) -> list[Path]:
    """Write the definitions of workspace, report and charts beside the site; returns the paths."""
    files = RunFolder(out / FOLDER)
    charts = {chart.name: {"title": chart.title, "spec": chart.spec, "fields": chart.fields} for chart in _charts()}
    contents: dict[str, Any] = {
        WORKSPACE: json.loads(workspace_json(workspace(keys, entity, project))),
        REPORT: json.loads(report_json(report(keys, entity, project))),
        CHART_FILE: charts,
    }
    return [files.write_json(name, content) for name, content in contents.items()]


def push_views(out: Path, keys: Keys, entity: str, project: str) -> list[str]:
    """Save charts, workspace and report on the server; returns the addresses of the last two.

    What was saved before is replaced: ``pushed.json`` remembers which it was.

    Raises:
        UserError: the server refuses, or is not there.
    """
    import wandb

    files = RunFolder(out / FOLDER)
    try:
        before = mapping(files.read_json(PUSHED))
    except UNREADABLE:
        before = {}
    try:
        api = wandb.Api(timeout=30)
        owner = entity if entity != ANYBODY else str(api.default_entity or "")
        if not owner:
            raise UserError("W&B knows no owner for the views: name one with --entity, a user or a team")
        for chart in _charts():
            _create(api, owner, chart.name, chart.title, chart.spec)
        views, text = workspace(keys, owner, project), report(keys, owner, project)
        known = before if before.get("owner") == f"{owner}/{project}" else {}
        views._internal_name, views._internal_id = str(known.get("name", "")), str(known.get("workspace", ""))
        text.id = str(known.get("report", ""))
        views.save()
        text.save()
    except UserError:
        raise
    except Exception as error:  # of the network, the server, or its answer
        raise UserError(
            f"W&B did not take the views ({type(error).__name__}: {str(error)[:200]}). They are in "
            f"{out / FOLDER}; --offline writes them without asking the server"
        ) from error
    saved = {"name": views._internal_name, "workspace": views._internal_id, "report": text.id}
    files.write_json(PUSHED, {"owner": f"{owner}/{project}", **saved})
    return [str(views.url), str(text.url)]


def _create(api: Any, entity: str, name: str, title: str, spec: dict[str, Any]) -> None:
    """Define a chart; one that is there already stays as it is."""
    try:
        api.create_custom_chart(
            entity=entity, name=name, display_name=title, spec_type="vega2", access="private", spec=spec
        )
    except Exception as error:
        if "exist" not in str(error).lower():
            raise


def _charts() -> list[Any]:
    return [make() for make in CHARTS.values()]
