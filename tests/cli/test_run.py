"""A run in this process: refused before it starts, continued, stopped, failed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from omegaconf import OmegaConf

from concrete_dropout.cli import build
from concrete_dropout.cli.compose import compose_config
from concrete_dropout.cli.run import run
from concrete_dropout.cli.stopped import Stopped, how_to_continue
from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import HEARTBEAT, RUN, RunFolder

CONF = Path(__file__).parents[2] / "conf"
TINY = [
    "trainer=cpu",
    "trainer.max_steps=4",
    "trainer.log_every_n_steps=1",
    "data.num_data=20",
    "data.num_val=10",
    "data.num_test=10",
    "data.min_steps_per_epoch=2",
    "model.hidden=[4]",
    "task.val_samples=1",
    "task.test_samples=1",
    "callbacks.uncertainty.band_samples=1",
    "logger=none",
]
Train = Callable[..., dict[str, float]]


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Train:
    monkeypatch.chdir(tmp_path)

    def train(*overrides: str, folder: str = "run") -> dict[str, float]:
        place = tmp_path / folder
        other_data = any(override.startswith("experiment=") for override in overrides)
        tiny = [override for override in TINY if not (other_data and override.startswith("data.num_"))]
        return run(compose_config([*tiny, *overrides], CONF, run_dir=place), place, CONF)

    return train


class Stumble(pl.Callback):
    """Something happens at a step."""

    def __init__(self, step: int, happens: Callable[[], Any]) -> None:
        self.step, self.happens = step, happens

    def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step == self.step:
            self.happens()


@pytest.fixture
def stumble(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], Any]], None]:
    keepers = build.keepers

    def stumble(step: int, happens: Callable[[], Any]) -> None:
        monkeypatch.setattr(build, "keepers", lambda *a, **k: [*keepers(*a, **k), Stumble(step, happens)])

    return stumble


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["experiment=csv", "data.path=missing.csv", "data.target=y"], "there is no file .*missing.csv"),
        (["experiment=uci", "data.name=nope"], "data.name='nope' is no UCI set"),
        (["experiment=uci", "paths.data_dir=nowhere", "data.download=false"], "paths.data_dir"),
        (["model.hidden=[0]"], r"model.hidden=\[0\].*widths of at least 1"),
        (["task.test_samples=-1"], "task.test_samples=-1 must be at least 0"),
        (["dropout.include=[nothing]"], "dropout=concrete does not fit this model"),
        (["ckpt_path=missing.ckpt"], "ckpt_path=missing.ckpt: there is no such file"),
        (["train=false"], "train=false has nothing to test"),
        (["data.num_val=0", "test_ckpt=best"], "test_ckpt=best needs validation data"),
        (["logger=wandb", "logger.wandb.mode=online"], "logger.wandb.mode=online needs an API key"),
        pytest.param(
            ["trainer=gpu"],
            "trainer.accelerator=gpu trainer.devices=1 is not possible here",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
    ],
)
def test_refused_before_anything_is_written(
    train: Train, tmp_path: Path, overrides: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("NETRC", raising=False)
    with pytest.raises(UserError, match=message):
        train(*overrides)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_checkpoints_that_do_not_fit(train: Train, tmp_path: Path) -> None:
    train()
    last = tmp_path / "run" / "checkpoints" / "last.ckpt"
    with pytest.raises(UserError, match=r"another network: .* model.hidden=\[4\] \(here \[3\]\)"):
        train(f"ckpt_path={last}", "model.hidden=[3]", folder="other")
    with pytest.raises(UserError, match=r"another network: .* dropout.kind=concrete \(here fixed\)"):
        train(f"ckpt_path={last}", "dropout=fixed", folder="other")
    last.write_bytes(last.read_bytes()[:1000])
    with pytest.raises(UserError, match="is no checkpoint, or a damaged one"):
        train(f"ckpt_path={last}", folder="other")
    assert list((tmp_path / "other").iterdir()) == []


def test_the_last_or_the_best_weights_are_tested(train: Train, tmp_path: Path) -> None:
    metrics = train("test_ckpt=best")
    last, best = (f"ckpt_path={tmp_path}/run/checkpoints/{name}.ckpt" for name in ("last", "best"))
    assert train("train=false", best, folder="test")["test/nll"] == metrics["test/nll"]
    assert train(folder="again")["test/nll"] == train("train=false", last, folder="last")["test/nll"]


def test_best_weights_of_a_training_without_validation(train: Train, caplog: pytest.LogCaptureFixture) -> None:
    assert "test/nll" in train("trainer.max_steps=1", "test_ckpt=best")
    assert "the last weights are tested" in caplog.text


def test_more_steps_continue_with_new_epochs(train: Train, tmp_path: Path) -> None:
    """Also from the middle of an epoch, where training had ended."""
    for steps in (3, 7):
        last = tmp_path / "run" / "checkpoints" / "last.ckpt"
        train(f"trainer.max_steps={steps}", *([f"ckpt_path={last}"] if last.is_file() else []))
    rows = RunFolder(tmp_path / "run").read_table("metrics.csv")
    assert [int(row["step"]) for row in rows if row["metric"] == "train/nll"] == list(range(1, 8))
    assert [int(row["step"]) for row in rows if row["metric"] == "val/nll"] == [2, 5, 7]


@pytest.mark.parametrize(
    ("number", "code", "reason"),
    [(signal.SIGINT, 130, "Stopped: by Ctrl-C"), (signal.SIGTERM, 143, "Stopped: by SIGTERM")],
)
def test_a_stopped_run_is_recorded_and_can_go_on(
    train: Train, tmp_path: Path, stumble: Callable[..., None], number: signal.Signals, code: int, reason: str
) -> None:
    folder = tmp_path / "run"
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    stumble(3, lambda: signal.raise_signal(number))
    with pytest.raises(Stopped) as stop:
        train()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert (stop.value.exit_code, stop.value.folder) == (code, folder)
    record = RunFolder(folder).read_json(RUN)
    assert (record["state"], record["error"]) == ("interrupted", reason)
    assert record["checkpoints"]["last"] == "checkpoints/last.ckpt"
    assert (folder / "report.html").is_file()
    message = how_to_continue(folder)
    assert "python train.py ckpt_path=run/checkpoints/last.ckpt" in message
    stumble(-1, lambda: None)
    train(f"ckpt_path={folder}/checkpoints/last.ckpt")
    record = RunFolder(folder).read_json(RUN)
    assert (record["state"], record["error"], record["step"]) == ("finished", None, 4)


def test_a_run_that_is_stopped_before_its_first_checkpoint(
    train: Train, tmp_path: Path, stumble: Callable[..., None]
) -> None:
    stumble(1, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(Stopped):
        train()
    assert "There was no checkpoint yet: start again." in how_to_continue(tmp_path / "run")


def test_a_failed_run_says_so(train: Train, tmp_path: Path, stumble: Callable[..., None]) -> None:
    hearts: list[dict[str, Any]] = []

    def fail() -> None:
        hearts.append(RunFolder(tmp_path / "run").read_json(HEARTBEAT))
        raise ZeroDivisionError("division by zero")

    stumble(3, fail)
    with pytest.raises(ZeroDivisionError):
        train()
    assert hearts[0]["pid"] == os.getpid()  # a sign of life, up to the end
    assert not (tmp_path / "run" / HEARTBEAT).exists()
    record = RunFolder(tmp_path / "run").read_json(RUN)
    assert (record["state"], record["error"]) == ("failed", "ZeroDivisionError: division by zero")
    assert (tmp_path / "run" / "report.html").is_file()


def test_loggers_write_to_the_run_folder(train: Train, tmp_path: Path) -> None:
    train("logger=csv")
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.csv")}
    assert "run/csv/version_0/metrics.csv" in files
    assert all(name.startswith("run/") for name in files)


def test_the_config_of_the_run_is_kept(train: Train, tmp_path: Path) -> None:
    train()
    config = OmegaConf.load(tmp_path / "run" / "config.yaml")
    assert config.name == "synthetic"
    diff = {entry["key"] for entry in RunFolder(tmp_path / "run").read_json("config_diff.json")}
    assert {"model.hidden", "trainer.max_steps", "logger.wandb"} <= diff
    assert "paths.run_dir" not in diff
