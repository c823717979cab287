"""The dashboard's views for W&B: a workspace and a report, made and checked without a network."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from wandb_workspaces.reports.v2 import interface as reports
from wandb_workspaces.reports.v2 import internal as report_models
from wandb_workspaces.workspaces import interface as workspaces
from wandb_workspaces.workspaces import internal as workspace_models

from concrete_dropout.dashboard.wandb_charts import CHARTS
from concrete_dropout.dashboard.wandb_keys import INIT_P, KIND, P_SCALARS, P_TABLE, STAGES, STEP, Keys
from concrete_dropout.plots.metrics import title_of

NAME = "Concrete dropout"
TITLE = "Concrete dropout: runs side by side"
DATA = {"test": "test data", "val": "validation data"}
MAX_SCATTER = 6  # layers with a figure of their own


@dataclass(frozen=True)
class Part:
    """Panels under one heading, in the workspace and in the report.

    Args:
        heading: short text.
        text: what a reader may see in it.
        panels: of wandb_workspaces.
    """

    heading: str
    text: str
    panels: list[Any]


def parts_of(keys: Keys, entity: str) -> list[Part]:
    """All views, as far as the runs have what they show."""
    found = [
        Part("Scores", "Final scores against the initial p, and any two runs side by side.", _scores(keys)),
        Part(
            "Learned p",
            "p of every layer through training and over depth. Level points in the scatter plots say that a layer "
            "finds its p from anywhere.",
            _probabilities(keys, entity),
        ),
        Part("Calibration", "Curves under the diagonal: overconfident.", _calibration(keys, entity)),
        Part("Uncertainty in pictures", "The most uncertain and the most confidently wrong; maps.", _pictures(keys)),
        Part("Training", "Losses, and scores on validation data.", _training(keys)),
    ]
    return [part for part in found if part.panels]


def workspace(keys: Keys, entity: str, project: str) -> workspaces.Workspace:
    """The views as a workspace; its table has the columns of the dashboard's."""
    sections = [
        workspaces.Section(name=part.heading, panels=_placed(part.panels), is_open=True)
        for part in parts_of(keys, entity)
    ]
    head, _, rest = INIT_P.partition(".")
    scored = keys.scored("test") or keys.scored("val")
    columns = ["run:displayName", "run:state", *(f"config:{head}.value.{name}" for name in ("kind", rest))]
    return workspaces.Workspace(
        entity=entity,
        project=project,
        name=NAME,
        sections=sections,
        settings=workspaces.WorkspaceSettings(x_axis=STEP),
        runset_settings=workspaces.RunsetSettings(pinned_columns=[*columns, *(f"summary:{key}" for key in scored[:5])]),
    )


def report(keys: Keys, entity: str, project: str) -> reports.Report:
    """The views as a report."""
    blocks: list[Any] = [reports.TableOfContents()]
    for part in parts_of(keys, entity):
        # Runs of the report's own project: with another's name the library would ask the server for it.
        grid = reports.PanelGrid(runsets=[reports.Runset(name="Runs")], panels=_placed(part.panels))
        blocks += [reports.H2(text=part.heading), reports.P(text=part.text), grid]
    return reports.Report(entity=entity, project=project, title=TITLE, blocks=blocks, width="fluid")


def workspace_json(made: workspaces.Workspace) -> str:
    """The definition of a workspace as W&B stores it; read back and written again it is the same."""
    view = made._to_model()
    text = view.spec.model_dump_json(by_alias=True, exclude_none=True)
    again = workspace_models.WorkspaceViewspec.model_validate_json(text)
    _check(text, again.model_dump_json(by_alias=True, exclude_none=True), "workspace")
    return text


def report_json(made: reports.Report) -> str:
    """The definition of a report, checked in the same way."""
    text = made._to_model().spec.model_dump_json(by_alias=True, exclude_none=True)
    again = report_models.Spec.model_validate_json(text)
    _check(text, again.model_dump_json(by_alias=True, exclude_none=True), "report")
    return text


def _check(text: str, again: str, what: str) -> None:
    if _without_empty(json.loads(text)) != _without_empty(json.loads(again)):
        raise ValueError(f"the {what} is read back in another form than it was written")


def _without_empty(value: Any) -> Any:
    """The same without empty lists in objects: reading adds some, of comments."""
    if isinstance(value, dict):
        return {key: _without_empty(entry) for key, entry in value.items() if entry != []}
    return [_without_empty(entry) for entry in value] if isinstance(value, list) else value


def _scores(keys: Keys) -> list[Any]:
    start = reports.Config(INIT_P)
    stage = next((stage for stage in STAGES if keys.scored(stage)), "")
    bars = [
        reports.BarPlot(title=f"{title_of(key)}, {DATA[stage]}", metrics=[key], orientation="h")
        for key in keys.scored(stage)[:6]
    ]
    spread = [
        reports.ScatterPlot(title=f"{title_of(key)} by initial p", x=start, y=reports.SummaryMetric(key))
        for key in keys.scored(stage)[:2]
        if keys.layers
    ]
    columns: list[Any] = [reports.Config(KIND), start, *(reports.SummaryMetric(key) for key in keys.scored(stage)[:5])]
    lines = [reports.ParallelCoordinatesPlotColumn(metric=column) for column in columns]
    together = [reports.ParallelCoordinatesPlot(columns=lines, title="Settings and scores")] if bars else []
    return [*bars, *spread, *together, *([reports.RunComparer(diff_only="split")] if bars else [])]


def _probabilities(keys: Keys, entity: str) -> list[Any]:
    if not keys.layers:
        return []
    through = reports.LinePlot(
        title="p through training", x=STEP, metric_regex=f"^{P_SCALARS}", title_x="step", title_y="p", range_y=(0, None)
    )
    ends = [
        reports.ScatterPlot(
            title=f"Final p of {layer} by initial p",
            x=reports.Config(INIT_P),
            y=reports.SummaryMetric(f"{P_SCALARS}{layer}"),
        )
        for layer in keys.layers[:MAX_SCATTER]
    ]
    return [_chart("depth", P_TABLE, entity), through, *ends]


def _calibration(keys: Keys, entity: str) -> list[Any]:
    kinds = [(kind, stage) for stage in STAGES for kind in ("reliability", "coverage")]
    return [
        _chart(kind, table, entity, f", {DATA[stage]}")
        for kind, stage in kinds
        if (table := f"tables/{kind}_{stage}") in keys.tables
    ]


def _pictures(keys: Keys) -> list[Any]:
    return [
        reports.MediaBrowser(title=key.partition("/")[2].replace("_", ", "), media_keys=[key], num_columns=6)
        for key in keys.media
    ]


def _training(keys: Keys) -> list[Any]:
    return [
        reports.LinePlot(title=title_of(key), x=STEP, y=[key], title_x="step")
        for key in keys.scored("val")
        if keys.scored("val")
    ]


def _chart(kind: str, table: str, entity: str, more: str = "") -> Any:
    chart = CHARTS[kind]()
    return reports.CustomChart(
        query={"summaryTable": {"tableKey": table}},
        chart_name=f"{entity}/{chart.name}",
        chart_fields=chart.fields,
        chart_strings={"title": f"{chart.title}{more}"},
    )


def _placed(panels: list[Any]) -> list[Any]:
    """Three panels in a row of W&B's 24 columns; the comparison of runs has a row of its own."""
    x = y = 0
    for panel in panels:
        wide = isinstance(panel, (reports.RunComparer, reports.ParallelCoordinatesPlot))
        if wide and x:
            x, y = 0, y + 7
        width = 24 if wide else 8
        panel.layout = reports.Layout(x=x, y=y, w=width, h=7)
        x, y = (0, y + 7) if x + width >= 24 else (x + width, y)
    return panels
