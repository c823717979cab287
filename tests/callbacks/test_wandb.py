"""What callbacks claim to log really is in the run: an offline W&B run, read back from its file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pytorch_lightning.loggers import CSVLogger, WandbLogger
from tests.dashboard.wandb_panels import check_logged, references

from concrete_dropout import dropout_probabilities
from concrete_dropout.callbacks import CalibrationMonitor, ProbabilityMonitor, RunRecord, UncertaintyMonitor
from concrete_dropout.callbacks.loggers import wandb_environment
from concrete_dropout.data import SyntheticData
from concrete_dropout.runfolder import DROPOUT, RUN, RunFolder
from concrete_dropout.tasks import RegressionTask

from .conftest import MakeTask, MakeTrainer

LAYERS = ["network.layers.0", "network.layers.3", "network.layers.6"]


def read_back(directory: Path) -> list[dict[str, Any]]:
    command = [str(Path(sys.executable).parent / "wandb"), "leet", "inspect", "--json", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.strip()]


@dataclass(frozen=True)
class Logged:
    folder: Path
    directory: Path
    task: RegressionTask
    records: list[dict[str, Any]]

    @property
    def history(self) -> list[dict[str, Any]]:
        return [record["history"]["item"] for record in self.records if record["type"] == "history"]

    def files(self, key: str, kind: str) -> list[Any]:
        """Contents of the media files that were logged under a key, in their order."""
        items = [item for item in self.history if item.get(f"{key}._type") == kind]
        return [json.loads((self.directory / "files" / item[f"{key}.path"]).read_text()) for item in items]


@pytest.fixture(scope="module")
def logged(
    tmp_path_factory: pytest.TempPathFactory, make_task: MakeTask, make_trainer: MakeTrainer, data: SyntheticData
) -> Iterator[Logged]:
    wandb = pytest.importorskip("wandb")
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        own = {"WANDB_MODE": "offline", "WANDB_DIR": str(folder), "WANDB_SILENT": "true"}
        for name, value in {**own, **wandb_environment(folder)}.items():
            patch.setenv(name, value)
        task = make_task()
        try:
            trainer = make_trainer(
                folder,
                max_epochs=3,
                logger=[
                    WandbLogger(project="test", save_dir=folder, offline=True),
                    CSVLogger(folder, name="csv", version=""),
                ],
                callbacks=[
                    ProbabilityMonitor(folder, chart_every_n_steps=6),
                    UncertaintyMonitor(folder),
                    CalibrationMonitor(folder),
                    RunRecord(folder),
                ],
            )
            trainer.fit(task, data)
            trainer.test(task, data, verbose=False)
        finally:
            wandb.finish()
        directory = folder / RunFolder(folder).read_json(RUN)["loggers"]["wandb"]
        yield Logged(folder, directory, task, read_back(directory))


def test_probabilities_are_scalars_at_every_logging_step(logged: Logged) -> None:
    key = "dropout_p/{}".format
    rows = [item for item in logged.history if key(LAYERS[0]) in item]
    assert [item["trainer/global_step"] for item in rows] == [0, 2, 4, 6, 8, 10, 12]
    assert all(key(layer) in item for item in rows for layer in LAYERS)
    assert {layer: rows[-1][key(layer)] for layer in LAYERS} == dropout_probabilities(logged.task)
    table = [float(row["p"]) for row in RunFolder(logged.folder).read_table(DROPOUT) if row["layer"] == LAYERS[1]]
    assert [item[key(LAYERS[1])] for item in rows] == table


def test_the_step_axis_never_goes_back(logged: Logged) -> None:
    steps = [item["trainer/global_step"] for item in logged.history]
    assert steps == sorted(steps)
    own = [item["_step"] for item in logged.history]
    assert own == list(range(len(own)))


def test_all_layers_are_in_one_line_chart(logged: Logged) -> None:
    configs = [record["config"]["update"] for record in logged.records if record["type"] == "config"]
    panels = [
        update["_wandb.visualize.charts/dropout_p"]
        for update in configs
        if "_wandb.visualize.charts/dropout_p" in update
    ]
    assert panels
    assert panels[-1]["panel_config"]["panelDefId"] == "wandb/lineseries/v0"
    first, last = logged.files("charts/dropout_p_table", "table-file")  # at step 6, and at the end
    assert last["columns"] == ["step", "lineKey", "lineVal"]
    assert {row[1] for row in last["data"]} == set(LAYERS)
    assert (len(first["data"]), len(last["data"])) == (4 * 3, 7 * 3)


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("dropout_p_over_steps", 2),
        ("dropout_p_by_depth", 2),
        ("band", 2),
        ("error_against_std_val", 1),
        ("error_against_std_test", 1),
        ("coverage_val", 1),
        ("coverage_test", 1),
    ],
)
def test_figures_are_plotly_and_the_same_as_in_the_folder(logged: Logged, name: str, times: int) -> None:
    found = logged.files(f"figures/{name}", "plotly-file")
    assert len(found) == times
    kept = json.loads((logged.folder / "figures" / f"{name}.json").read_text())
    assert [trace["type"] for trace in found[-1]["data"]] == [trace["type"] for trace in kept["data"]]
    assert found[-1]["layout"]["title"] == kept["layout"]["title"]


def test_tables_have_their_rows(logged: Logged) -> None:
    (probabilities,) = logged.files("tables/dropout_p", "table-file")
    assert probabilities["columns"][:3] == ["layer", "initial", "final"]
    assert [row[0] for row in probabilities["data"]] == LAYERS
    for stage, count in (("val", 30), ("test", 45)):
        (coverage,) = logged.files(f"tables/coverage_{stage}", "table-file")
        curves = logged.task.results[stage].curves
        assert coverage["columns"] == ["expected", "observed"]
        assert [row[1] for row in coverage["data"]] == pytest.approx(curves["observed"])
        (predictions,) = logged.files(f"tables/predictions_{stage}", "table-file")
        assert len(predictions["data"]) == count
        assert "predictive_std" in predictions["columns"]


def test_metrics_of_all_stages_are_there(logged: Logged) -> None:
    keys = {key for item in logged.history for key in item}
    assert {"train/loss", "val/nll", "test/nll", "test/crps", "test/calibration_rmse"} <= keys


def test_everything_stays_in_the_run_folder(logged: Logged) -> None:
    staged = [
        entry["local_path"]
        for record in logged.records
        if record["type"] == "artifact"
        for entry in record["artifact"]["manifest"]["contents"]
    ]
    assert staged
    assert all(Path(path).is_relative_to(logged.folder) for path in staged)


def test_other_loggers_get_the_scalars(logged: Logged) -> None:
    header = (logged.folder / "csv" / "metrics.csv").read_text().splitlines()[0].split(",")
    assert {f"dropout_p/{layer}" for layer in LAYERS} <= set(header)
    assert not any(name.startswith(("figures/", "tables/", "charts/")) for name in header)


@pytest.mark.parametrize("name", ["workspace", "report"])
def test_the_views_of_the_dashboard_refer_to_what_is_there(logged: Logged, name: str) -> None:
    kinds = check_logged(references(logged.folder)[name], logged.history, logged.directory / "files")
    assert kinds == {"scalar", "config", "pattern", "table"}
