from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger

from concrete_dropout import dropout_probabilities
from concrete_dropout.callbacks import RunRecord
from concrete_dropout.callbacks.run_record import relative
from concrete_dropout.data import SyntheticData
from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import METRICS, RUN, SUMMARY, RunFolder
from concrete_dropout.tasks import RegressionTask

from .conftest import MakeTask, MakeTrainer

FACTS = {"experiment": "synthetic", "dropout": "concrete", "seed": 0, "kl_weight": 1.0, "num_train": 64}


class RaiseAt(pl.Callback):
    def __init__(self, step: int, error: BaseException) -> None:
        self.step, self.error = step, error

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step == self.step:
            raise self.error


def rows(folder: Path) -> list[tuple[int, int, str, float]]:
    table = RunFolder(folder).read_table(METRICS)
    return [(int(row["step"]), int(row["epoch"]), row["metric"], float(row["value"])) for row in table]


def record(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = RunFolder(folder).read_json(RUN)
    return value


@pytest.fixture
def start(make_task: MakeTask, make_trainer: MakeTrainer, data: SyntheticData) -> Any:
    def run(
        folder: Path, others: Sequence[pl.Callback] = (), resume: Path | None = None, **settings: Any
    ) -> tuple[RunRecord, pl.Trainer, RegressionTask]:
        task, own = make_task(), RunRecord(folder, FACTS)
        trainer = make_trainer(folder, **{"max_epochs": 2, **settings}, callbacks=[own, *others])
        trainer.fit(task, data, ckpt_path=resume)
        return own, trainer, task

    return run


def test_the_life_of_a_run(tmp_path: Path, start: Any, data: SyntheticData) -> None:
    checkpoints = [
        ModelCheckpoint(tmp_path / "checkpoints", filename="last", enable_version_counter=False),
        ModelCheckpoint(tmp_path / "checkpoints", filename="best", monitor="val/nll"),
    ]
    own, trainer, task = start(
        tmp_path, checkpoints, enable_checkpointing=True, logger=CSVLogger(tmp_path, name="csv", version="")
    )
    running = record(tmp_path)
    assert running | FACTS == running
    assert (running["state"], running["error"], running["ended"], running["step"]) == ("running", None, None, 8)
    assert running["max_steps"] == 8
    assert running["num_parameters"] == sum(p.numel() for p in task.parameters())
    assert running["checkpoints"] == {"last": "checkpoints/last.ckpt", "best": "checkpoints/best.ckpt"}
    assert all((tmp_path / path).is_file() for path in running["checkpoints"].values())
    assert running["loggers"] == {"wandb": None, "csv": "csv"}
    layer = running["layers"][1]
    assert layer.pop("initial_p") == pytest.approx(0.2)
    assert layer == {
        "name": "network.layers.3",
        "kind": "concrete",
        "owners": ["network.layers.4.weight"],
        "K": 8,
    }

    trainer.test(task, data, verbose=False)
    assert record(tmp_path)["state"] == "running"
    own.finish()
    finished = record(tmp_path)
    assert (finished["state"], finished["error"]) == ("finished", None)
    assert finished["ended"] >= finished["started"] == running["started"]

    summary = RunFolder(tmp_path).read_json(SUMMARY)
    assert {"test/nll", "val/nll", "train/loss"} <= set(summary["metrics"])
    assert summary["metrics"]["test/nll"] == pytest.approx(task.results["test"].scalars["nll"], rel=1e-5)
    final = {name: value["final"] for name, value in summary["probabilities"].items()}
    assert final == dropout_probabilities(task)
    assert summary["probabilities"]["network.layers.0"]["initial"] == pytest.approx(0.2)


def test_metrics_are_written_once_and_with_all_digits(tmp_path: Path, start: Any, data: SyntheticData) -> None:
    _, trainer, task = start(tmp_path, log_every_n_steps=3)
    trainer.test(task, data, verbose=False)
    found = rows(tmp_path)
    steps = {name: [step for step, _, metric, _ in found if metric == name] for _, _, name, _ in found}
    assert steps["train/loss"] == steps["train/kl"] == [3, 6, 8]
    assert steps["val/nll"] == [4, 8]
    assert steps["test/nll"] == [8]
    assert len({(step, metric) for step, _, metric, _ in found}) == len(found)
    assert [epoch for _, epoch, metric, _ in found if metric == "val/nll"] == [0, 1]
    (last,) = [value for step, _, metric, value in found if (step, metric) == (8, "val/rmse")]
    assert last == float(trainer.callback_metrics.get("val/rmse", last))
    assert last == pytest.approx(task.results["val"].scalars["rmse"], rel=1e-6)


def test_epoch_averages_come_with_the_end_of_the_epoch(
    tmp_path: Path, make_task: MakeTask, make_trainer: MakeTrainer, data: SyntheticData
) -> None:
    class Averages(pl.Callback):
        def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
            pl_module.log("train/step_mean", float(trainer.global_step), on_step=False, on_epoch=True, batch_size=1)

    make_trainer(tmp_path, max_epochs=2, log_every_n_steps=100, callbacks=[Averages(), RunRecord(tmp_path)]).fit(
        make_task(), data
    )
    found = rows(tmp_path)
    assert [row for row in found if row[2] == "train/step_mean"] == [
        (4, 0, "train/step_mean", 2.5),
        (8, 1, "train/step_mean", 6.5),
    ]
    assert [step for step, _, metric, _ in found if metric == "train/loss"] == [8]


@pytest.mark.parametrize(
    ("error", "raised", "state", "text"),
    [
        (RuntimeError("boom"), RuntimeError, "failed", "RuntimeError: boom"),
        (UserError("data.path=x is no file"), UserError, "failed", "data.path=x is no file"),
        (KeyboardInterrupt(), SystemExit, "interrupted", "KeyboardInterrupt"),
    ],
)
def test_what_stopped_a_run_is_recorded(
    tmp_path: Path, start: Any, error: BaseException, raised: type[BaseException], state: str, text: str
) -> None:
    handler = signal.getsignal(signal.SIGINT)  # Lightning ignores Ctrl-C from then on
    try:
        with pytest.raises(raised):
            start(tmp_path, [RaiseAt(3, error)])
    finally:
        signal.signal(signal.SIGINT, handler)
    stopped = record(tmp_path)
    assert (stopped["state"], stopped["error"], stopped["step"]) == (state, text, 3)
    assert stopped["ended"] is not None
    assert [step for step, _, metric, _ in rows(tmp_path) if metric == "train/loss"] == [2]


def test_errors_outside_of_the_trainer(tmp_path: Path, start: Any) -> None:
    own, _, _ = start(tmp_path, max_epochs=1)
    own.fail(OSError("disk full"))
    assert (record(tmp_path)["state"], record(tmp_path)["error"]) == ("failed", "OSError: disk full")
    RunRecord(tmp_path / "never").fail(OSError("before the run started"))
    assert not (tmp_path / "never").exists()


def test_a_resumed_run_continues_the_record(tmp_path: Path, start: Any) -> None:
    def checkpoint() -> ModelCheckpoint:
        return ModelCheckpoint(tmp_path / "checkpoints", save_last=True, save_on_train_epoch_end=True)

    with pytest.raises(RuntimeError, match="killed"):
        start(tmp_path, [checkpoint(), RaiseAt(7, RuntimeError("killed"))], enable_checkpointing=True, max_epochs=3)
    first = record(tmp_path)
    before = rows(tmp_path)
    assert max(step for step, _, _, _ in before) == 6
    path = tmp_path / RUN
    path.write_text(json.dumps({**first, "started": "2020-01-01T00:00:00+00:00"}))
    resume = tmp_path / "checkpoints" / "last.ckpt"
    start(tmp_path, [checkpoint()], resume, enable_checkpointing=True, max_epochs=3)
    resumed = record(tmp_path)
    assert (resumed["state"], resumed["error"], resumed["step"]) == ("running", None, 12)
    assert resumed["started"].startswith("2020")
    assert resumed["layers"] == first["layers"]
    after = rows(tmp_path)
    assert len({(step, metric) for step, _, metric, _ in after}) == len(after)
    assert [row for row in after if row[0] <= 4] == [row for row in before if row[0] <= 4]
    assert [step for step, _, metric, _ in after if metric == "val/nll"] == [4, 8, 12]
    assert [step for step, _, metric, _ in after if metric == "train/loss"] == [2, 4, 6, 8, 10, 12]


def test_a_run_that_was_stopped_in_its_test_keeps_what_training_gave(
    tmp_path: Path, start: Any, data: SyntheticData
) -> None:
    def checkpoint() -> ModelCheckpoint:
        return ModelCheckpoint(tmp_path / "checkpoints", save_last=True, save_on_train_epoch_end=True)

    _, trainer, task = start(tmp_path, [checkpoint()], enable_checkpointing=True)
    trained, table = record(tmp_path), rows(tmp_path)
    resume = tmp_path / "checkpoints" / "last.ckpt"
    _, trainer, task = start(tmp_path, [checkpoint()], resume, enable_checkpointing=True)  # has nothing left to do
    assert rows(tmp_path) == table
    trainer.test(task, data, verbose=False)
    summary = RunFolder(tmp_path).read_json(SUMMARY)
    assert {name: value for _, _, name, value in table}.items() <= summary["metrics"].items()
    assert "test/nll" in summary["metrics"]
    for key in ("layers", "max_steps", "step", "started"):
        assert record(tmp_path)[key] == trained[key]


@pytest.mark.parametrize(("seconds", "expected"), [(0.0, [1, 2, 3, 4]), (1000.0, [0, 0, 0, 0])])
def test_the_step_is_renewed_now_and_then(
    tmp_path: Path,
    make_task: MakeTask,
    make_trainer: MakeTrainer,
    data: SyntheticData,
    seconds: float,
    expected: list[int],
) -> None:
    seen: list[int] = []

    class Look(pl.Callback):
        def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
            seen.append(record(tmp_path)["step"])

    own = RunRecord(tmp_path, step_every_seconds=seconds)
    make_trainer(tmp_path, max_steps=4, callbacks=[own, Look()]).fit(make_task(), data)
    assert seen == expected
    assert record(tmp_path)["step"] == 4


def test_paths_are_relative_inside_of_the_folder_only(tmp_path: Path) -> None:
    assert relative(tmp_path / "a" / "b.ckpt", tmp_path) == "a/b.ckpt"
    assert relative(tmp_path / "c.ckpt", tmp_path / "run") == str(tmp_path / "c.ckpt")
