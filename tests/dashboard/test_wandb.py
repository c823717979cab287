"""The views for W&B, without a network; what their panels refer to is checked where real runs are logged."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.dashboard.wandb_panels import panels_of

from concrete_dropout.dashboard.build import build_site
from concrete_dropout.dashboard.wandb_charts import CHARTS
from concrete_dropout.dashboard.wandb_keys import Keys, keys_of
from concrete_dropout.dashboard.wandb_push import write_views


@pytest.mark.parametrize("kind", CHARTS)
def test_charts_use_every_field_that_they_declare(kind: str) -> None:
    chart = CHARTS[kind]()
    used = set(re.findall(r"\$\{field:(\w+)\}", json.dumps(chart.spec)))
    assert used == set(chart.fields)
    assert chart.spec["data"] == {"name": "wandb"}


def test_keys_of_several_kinds_of_runs(outputs: Path) -> None:
    keys = keys_of(build_site(outputs).rows)
    assert {"tables/coverage_test", "tables/reliability_val", "tables/dropout_p"} <= set(keys.tables)
    assert keys.media == ("gallery/test_uncertain", "gallery/test_wrong")
    assert keys.scored("test")[:3] == ["test/accuracy", "test/nll", "test/rmse"]
    assert keys_of([]) == Keys((), (), (), ())


def test_the_views_are_valid_and_have_a_place_for_every_panel(outputs: Path) -> None:
    write_views(outputs, keys_of(build_site(outputs).rows), "team", "project")
    written = {path.stem: json.loads(path.read_text()) for path in (outputs / "wandb").iterdir()}
    assert set(written) == {"workspace", "report", "charts"}
    sections = written["workspace"]["section"]["panelBankConfig"]["sections"]
    headings = ["Scores", "Learned p", "Calibration", "Uncertainty in pictures", "Training"]
    assert [section["name"] for section in sections] == headings
    for section in sections:
        places = [panel["layout"] for panel in section["panels"]]
        cells = [
            (x, y)
            for at in places
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        ]
        assert len(cells) == len(set(cells))
        assert max(x for x, _ in cells) < 24
    assert panels_of(written["workspace"]) == panels_of(written["report"])
    charts = [
        panel["config"]["panelDefId"] for panel in panels_of(written["workspace"]) if panel["viewType"] == "Vega2"
    ]
    assert {chart.partition("/")[2] for chart in charts} == set(written["charts"])


def test_a_server_that_is_not_there_is_one_message(
    outputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from concrete_dropout.cli.dashboard import dashboard_command
    from concrete_dropout.dashboard import wandb_push

    def refused(*args: Any, **keywords: Any) -> None:
        raise ConnectionError("no route")

    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setattr("wandb.Api", refused)
    assert dashboard_command(["wandb", str(outputs)]) == 2
    said = capsys.readouterr()
    assert "W&B did not take the views (ConnectionError: no route)" in said.err
    assert "Traceback" not in said.err
    assert (outputs / "dashboard" / "wandb" / wandb_push.WORKSPACE).is_file()


def test_without_a_key_no_server_is_asked(
    outputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from concrete_dropout.cli.dashboard import dashboard_command

    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    assert dashboard_command(["wandb", str(outputs)]) == 0
    assert "no key is configured" in capsys.readouterr().out
