"""python train.py as a user types it: what it prints, what it leaves behind, and how it ends when it is stopped."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

ROOT = Path(__file__).parents[1]
LAYERS = ["network.layers.0", "network.layers.3"]
STEPS, EPOCH, LOGGED = 600, 60, 20
COMMON = [
    "trainer=cpu",
    "data.num_data=40",
    "data.num_val=30",
    "data.num_test=20",
    "model.hidden=[8]",
    "task.val_samples=2",
    "task.test_samples=5",
    "callbacks.uncertainty.band_samples=5",
]
LONG = [
    *COMMON,
    f"trainer.max_steps={STEPS}",
    f"data.min_steps_per_epoch={EPOCH}",
    f"trainer.log_every_n_steps={LOGGED}",
]


class Command:
    """python train.py in a directory of its own, with an empty home."""

    def __init__(self, place: Path, *arguments: str, through: tuple[str, ...] = ()) -> None:
        self.place = place
        for name in ("home", "work", "tmp"):
            (place / name).mkdir(parents=True, exist_ok=True)
        own = {"HOME": str(place / "home"), "TMPDIR": str(place / "tmp"), "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
        outside = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("WANDB", "XDG", "PYTEST", "DATA_DIR", "OUTPUT_DIR", "MPLCONFIG", "NETRC"))
        }
        self.process = subprocess.Popen(
            [sys.executable, *through, str(ROOT / "train.py"), *arguments],
            cwd=place / "work",
            env={**outside, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.out = self.err = ""

    @property
    def code(self) -> int:
        return int(self.process.returncode)

    def wait(self, seconds: float = 300) -> Command:
        self.out, self.err = self.process.communicate(timeout=seconds)
        return self

    def stop(self, folder: Path, number: signal.Signals, after: int, delay: float = 0.0) -> Command:
        """Send a signal when a checkpoint has come to a step, and some seconds have passed."""
        self.come_to(folder, after)
        time.sleep(delay)
        self.process.send_signal(number)
        return self.wait()

    def come_to(self, folder: Path, step: int, seconds: float = 300) -> None:
        """Wait until a checkpoint has come to a step."""
        deadline = time.monotonic() + seconds
        while checkpoint_step(folder) < step:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)


def checkpoint_step(folder: Path) -> int:
    path = folder / "checkpoints" / "last.ckpt"
    if not path.is_file():
        return -1
    return int(torch.load(path, weights_only=True, mmap=True)["global_step"])


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


@dataclass(frozen=True)
class Finished:
    command: Command
    folder: Path

    def json(self, name: str) -> Any:
        return read_json(self.folder / name)


@dataclass(frozen=True)
class Everything:
    whole: Finished
    sweep: Command
    killed: Command
    interrupted: Command
    resumed: Finished
    kill: tuple[int, float]  # where SIGKILL came: after the checkpoint of this step, and so many seconds


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Everything:
    """All commands of this module, two at a time: most of what they take is importing."""
    place = tmp_path_factory.mktemp("train")
    broken = place / "broken" / "work" / "run"
    whole = Command(place / "whole", *LONG)
    killed = Command(place / "broken", *LONG, f"hydra.run.dir='{broken}'")
    kill = (EPOCH * random.SystemRandom().randint(1, 3), random.SystemRandom().uniform(0, 0.4))
    killed.stop(broken, signal.SIGKILL, *kill)
    whole.wait()
    last = f"ckpt_path={broken}/checkpoints/last.ckpt"
    sweep = Command(place / "sweep", "-m", *COMMON, "trainer.max_steps=4", "seed=0,1", "dropout=fixed")
    reached = checkpoint_step(broken)
    interrupted = Command(place / "broken", last).stop(broken, signal.SIGINT, after=reached + EPOCH)
    resumed = Command(place / "broken", last)
    sweep.wait()
    (folder,) = (place / "whole" / "work" / "outputs" / "synthetic").iterdir()
    return Everything(Finished(whole, folder), sweep, killed, interrupted, Finished(resumed.wait(), broken), kill)


@pytest.fixture(scope="module")
def whole(everything: Everything) -> Finished:
    assert everything.whole.command.code == 0, everything.whole.command.err
    return everything.whole


# What a run prints ---------------------------------------------------------------------------------------------------


def test_the_summary_has_metrics_p_and_paths(whole: Finished) -> None:
    lines = whole.command.out.splitlines()
    place = f"outputs/synthetic/{whole.folder.name}"
    assert lines[0] == f"synthetic: concrete dropout, N = 40, in {place}"
    text = whole.command.out
    summary = whole.json("summary.json")
    assert "Test data" in text
    assert f"{summary['metrics']['test/rmse']:.4g}" in text
    for layer in LAYERS:
        (row,) = [line.split() for line in lines if line.split()[:1] == [layer]]
        assert row[1:4] == ["concrete", "0.1000", f"{summary['probabilities'][layer]['final']:.4f}"]
    paths = dict(line.split(maxsplit=1) for line in lines[-3:])
    assert paths["checkpoint"] == f"{place}/checkpoints/last.ckpt"
    assert paths["report"] == f"{place}/report.html"
    assert paths["W&B"].startswith(f"logged offline; upload with: wandb sync {place}/wandb/offline-run-")


def test_a_file_gets_no_progress_bar_and_no_stray_warnings(whole: Finished) -> None:
    assert "\x1b" not in whole.command.out
    assert "━" not in whole.command.out
    known = ("WARNING: dropout p of ",)  # saturated, or not converged: ours, and true of a run this short
    assert [line for line in whole.command.err.splitlines() if not line.startswith(known)] == []
    assert max(map(len, whole.command.out.splitlines())) < 200


def test_nothing_is_written_outside_of_the_run_folder(whole: Finished) -> None:
    assert outside(whole.command.place, whole.folder) == []


def outside(place: Path, folder: Path) -> list[str]:
    """Files and folders beside the run folder and those on the way to it."""
    expected = {place / name for name in ("home", "work", "tmp")}
    expected |= set((place / "tmp").glob("torchinductor_*"))  # torch makes it, empty, when it is imported
    beside = (path for path in place.rglob("*") if not path.is_relative_to(folder) and not folder.is_relative_to(path))
    return [str(path.relative_to(place)) for path in beside if path not in expected]


# The run folder ------------------------------------------------------------------------------------------------------


def test_config_and_its_difference(whole: Finished) -> None:
    config = yaml.safe_load((whole.folder / "config.yaml").read_text())
    assert config["model"]["hidden"] == [8]
    assert config["name"] == "synthetic"
    assert config["paths"]["run_dir"] == str(whole.folder)
    diff = {entry["key"]: (entry["default"], entry["value"]) for entry in whole.json("config_diff.json")}
    assert diff["data.num_data"] == (1000, 40)
    assert diff["model.hidden"] == ([1024, 1024, 1024], [8])
    assert "paths.run_dir" not in diff


def test_the_record(whole: Finished) -> None:
    record = whole.json("run.json")
    expected = {
        "experiment": "synthetic",
        "dropout": "concrete",
        "state": "finished",
        "error": None,
        "seed": 0,
        "num_train": 40,
        "kl_weight": 1.0,
        "max_steps": STEPS,
        "step": STEPS,
        "checkpoints": {"last": "checkpoints/last.ckpt", "best": "checkpoints/best.ckpt"},
        "num_parameters": 2 * 8 + 2 * 9 + 2,
    }
    assert {key: record[key] for key in expected} == expected
    assert record["command"].startswith("python train.py trainer=cpu data.num_data=40")
    assert record["started"] <= record["ended"]
    assert record["versions"]["torch"] == torch.__version__.partition("+")[0]
    assert record["versions"]["concrete-dropout-lightning"]
    assert record["device"] == "cpu"
    assert [(layer["name"], layer["initial_p"], layer["K"]) for layer in record["layers"]] == [
        (LAYERS[0], pytest.approx(0.1), 1),
        (LAYERS[1], pytest.approx(0.1), 8),
    ]


def test_tables(whole: Finished) -> None:
    check_tables(whole.folder)
    predictions = read_table(whole.folder / "predictions_test.csv")
    assert len(predictions) == 20
    assert {"x:x", "target", "mean", "epistemic_std", "pit"} <= set(predictions[0])
    assert len(read_table(whole.folder / "predictions_val.csv")) == 30


def check_tables(folder: Path) -> None:
    """Every logged step once: no gap where a run was continued, nothing twice."""
    steps = list(range(0, STEPS + 1, LOGGED))
    p = [(int(row["step"]), row["layer"]) for row in read_table(folder / "dropout.csv")]
    assert p == [(step, layer) for step in steps for layer in LAYERS]
    metrics = read_table(folder / "metrics.csv")
    for name, expected in (
        ("train/nll", steps[1:]),
        ("train/loss", steps[1:]),
        ("val/nll", list(range(EPOCH, STEPS + 1, EPOCH))),
        ("test/nll", [STEPS]),
    ):
        assert [int(row["step"]) for row in metrics if row["metric"] == name] == expected, name


def test_results(whole: Finished) -> None:
    assert set(whole.json("convergence.json")["layers"]) == set(LAYERS)
    assert {stage: entry["num_points"] for stage, entry in whole.json("calibration.json").items()} == {
        "val": 30,
        "test": 20,
    }
    assert set(whole.json("uncertainty.json")) == {"val", "test"}
    assert len(whole.json("band.json")["train_x"]) == 40
    assert {path.stem for path in (whole.folder / "figures").iterdir()} >= {"dropout_p_over_steps", "band"}
    page = (whole.folder / "report.html").read_text()
    assert LAYERS[0] in page
    assert (whole.folder / "run.log").is_file()


@pytest.mark.parametrize("name", ["last", "best"])
def test_checkpoints_hold_plain_values_and_the_config(whole: Finished, name: str) -> None:
    checkpoint = torch.load(whole.folder / "checkpoints" / f"{name}.ckpt", weights_only=True)
    assert checkpoint["config"] == yaml.safe_load((whole.folder / "config.yaml").read_text())
    assert type(checkpoint["config"]["model"]["hidden"]) is list
    assert checkpoint["global_step"] <= STEPS


# Weights & Biases ----------------------------------------------------------------------------------------------------


def inspect(run: Path) -> list[dict[str, Any]]:
    command = [str(Path(sys.executable).parent / "wandb"), "leet", "inspect", "--json", str(run)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def records(whole: Finished) -> list[dict[str, Any]]:
    pytest.importorskip("wandb")
    return inspect(whole.folder / whole.json("run.json")["loggers"]["wandb"])


def test_wandb_has_scalars_figures_tables_and_charts(records: list[dict[str, Any]]) -> None:
    rows = [record["history"]["item"] for record in records if record["type"] == "history"]
    keys = {key for row in rows for key in row}
    scalars = {"train/nll", "train/kl", "train/loss", "val/nll", "val/rmse", "test/nll", "test/crps"}
    assert scalars | {f"dropout_p/{layer}" for layer in LAYERS} <= keys
    kinds = {key.removesuffix("._type"): row[key] for row in rows for key in row if key.endswith("._type")}
    figures = ("dropout_p_over_steps", "dropout_p_by_depth", "band", "coverage_val", "coverage_test")
    assert {kinds[f"figures/{name}"] for name in figures} == {"plotly-file"}
    tables = ("tables/dropout_p", "tables/predictions_test", "tables/coverage_val", "charts/dropout_p_table")
    assert {kinds[name] for name in tables} == {"table-file"}
    steps = [row["trainer/global_step"] for row in rows if f"dropout_p/{LAYERS[0]}" in row]
    assert steps == list(range(0, STEPS + 1, LOGGED))


def test_wandb_has_the_config(records: list[dict[str, Any]], whole: Finished) -> None:
    merged: dict[str, Any] = {}
    for record in records:
        if record["type"] == "config":
            merged |= record["config"]["update"]
    assert merged["seed"] == 0
    assert merged["data"]["num_data"] == 40


def test_a_sweep_has_a_folder_and_a_wandb_run_per_job(everything: Everything) -> None:
    sweep = everything.sweep
    assert sweep.code == 0, sweep.err
    (folder,) = (sweep.place / "work" / "outputs" / "synthetic").iterdir()
    assert folder.name.startswith("sweep_")
    runs = [read_json(folder / number / "run.json") for number in ("0", "1")]
    assert [(run["state"], run["seed"], run["dropout"], run["step"]) for run in runs] == [
        ("finished", 0, "fixed", 4),
        ("finished", 1, "fixed", 4),
    ]
    pytest.importorskip("wandb")
    for number, run in zip(("0", "1"), runs, strict=True):
        assert len(list((folder / number / "wandb").glob("offline-run-*"))) == 1
        logged = inspect(folder / number / run["loggers"]["wandb"])
        assert any("test/nll" in record["history"]["item"] for record in logged if record["type"] == "history")


# Runs that are stopped -----------------------------------------------------------------------------------------------


def test_a_stopped_run_says_how_to_go_on(everything: Everything) -> None:
    command = everything.interrupted
    assert command.code == 130, command.err
    assert "Stopped by Ctrl-C. It had come to step " in command.err
    assert "  python train.py ckpt_path=run/checkpoints/last.ckpt\n" in command.err
    assert "What it has so far: run/report.html" in command.err
    assert "Traceback" not in command.err
    assert "Validation data" in command.out  # the summary so far
    assert all(layer in command.out for layer in LAYERS)


def test_a_run_that_goes_on_is_one_wandb_run(everything: Everything) -> None:
    pytest.importorskip("wandb")
    parts = sorted((everything.resumed.folder / "wandb").glob("offline-run-*"))
    assert len({part.name.rpartition("-")[2] for part in parts}) == 1
    headers = [record["run"] for part in parts[1:] for record in inspect(part) if record["type"] == "run"]
    assert {header["run_id"] for header in headers} == {parts[0].name.rpartition("-")[2]}


def test_a_killed_and_interrupted_run_ends_as_if_nothing_had_happened(everything: Everything, whole: Finished) -> None:
    step, seconds = everything.kill
    where = f"killed {seconds:.3f} s after the checkpoint of step {step}"
    assert everything.killed.code == -signal.SIGKILL, where
    resumed = everything.resumed
    assert resumed.command.code == 0, resumed.command.err
    ours, expected = (
        torch.load(run.folder / "checkpoints" / "last.ckpt", weights_only=True) for run in (resumed, whole)
    )
    assert ours["global_step"] == expected["global_step"] == STEPS, where
    torch.testing.assert_close(
        ours["state_dict"], expected["state_dict"], rtol=0, atol=0, msg=lambda text: f"{where}: {text}"
    )
    check_tables(resumed.folder)
    record = resumed.json("run.json")
    assert (record["state"], record["error"], record["step"]) == ("finished", None, STEPS)
    assert record["layers"][0]["initial_p"] == pytest.approx(0.1)
    assert resumed.json("summary.json")["metrics"]["test/nll"] == whole.json("summary.json")["metrics"]["test/nll"]
    assert "ckpt_path" not in record["command"]  # it repeats the whole run
    left = outside(resumed.command.place, resumed.folder)
    assert [path for path in left if not path.endswith(("wandb-artifacts", "wandb-media"))] == []  # of the killed one
