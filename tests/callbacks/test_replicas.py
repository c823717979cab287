"""The record of replicas: files of real runs, read back."""

from __future__ import annotations

import csv
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from concrete_dropout.callbacks import RandomState, RunRecord
from concrete_dropout.callbacks.replicas import REPLICA_LABELS, REPLICAS, ReplicaRecord, replica_checkpoint
from concrete_dropout.data import SyntheticData
from concrete_dropout.data.replicas import ReplicatedData
from concrete_dropout.metrics import LEVELS
from concrete_dropout.runfolder import (
    CALIBRATION,
    CONVERGENCE,
    DROPOUT,
    METRICS,
    RUN,
    SUMMARY,
    UNCERTAINTY,
    RunFolder,
)
from concrete_dropout.tasks.replicas import ReplicatedTask

from .conftest import MakeTask, MakeTrainer

SIZES = (20, 64, 33)
LABELS = [{"data.num_data": size, "seed": index} for index, size in enumerate(SIZES)]
LAYERS = ["network.layers.0", "network.layers.3", "network.layers.6"]
MakeReplicas = Callable[..., ReplicatedTask]


@pytest.fixture
def replicated() -> ReplicatedData:
    sizes = {"num_val": 10, "num_test": 15, "batch_size": 16, "eval_batch_size": 8}
    return ReplicatedData([SyntheticData(num_data=size, seed=seed, **sizes) for seed, size in enumerate(SIZES)])


@pytest.fixture
def make_replicas(make_task: MakeTask) -> MakeReplicas:
    def make(kind: str = "concrete", **dropout: Any) -> ReplicatedTask:
        return ReplicatedTask([make_task(kind, init_p=0.1 + 0.1 * i, **dropout) for i in range(len(SIZES))])

    return make


class RaiseAt(pl.Callback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step == self.step:
            raise RuntimeError("killed")


def test_the_files_of_a_run(
    tmp_path: Path, make_replicas: MakeReplicas, make_trainer: MakeTrainer, replicated: ReplicatedData
) -> None:
    task, folder = make_replicas(), RunFolder(tmp_path)
    record = RunRecord(tmp_path, {"experiment": "synthetic"})
    trainer = make_trainer(tmp_path, max_epochs=3, callbacks=[record, ReplicaRecord(tmp_path, LABELS)])
    trainer.fit(task, replicated)
    trainer.test(task, replicated, verbose=False)

    assert folder.read_json(REPLICA_LABELS) == {"keys": ["data.num_data", "seed"], "labels": LABELS}

    dropout = folder.read_table(DROPOUT)
    assert list(dropout[0]) == ["step", "replica", "layer", "p"]
    assert sorted({int(row["step"]) for row in dropout}) == [0, 2, 4, 6, 8, 10, 12]
    assert len(dropout) == 7 * len(SIZES) * len(LAYERS)
    start = [float(row["p"]) for row in dropout if (row["step"], row["layer"]) == ("0", LAYERS[0])]
    assert start == pytest.approx([0.1, 0.2, 0.3])

    rows = folder.read_table(REPLICAS)
    assert [row["replica"] for row in rows] == ["0", "1", "2"]
    assert [row["data.num_data"] for row in rows] == [str(size) for size in SIZES]
    assert [row["num_train"] for row in rows] == [str(replica.num_train) for replica in task.tasks]
    for index, row in enumerate(rows):
        for stage in ("val", "test"):
            for name, value in task.results[index][stage].scalars.items():
                assert float(row[f"{stage}/{name}"]) == value
        for layer in LAYERS:
            assert float(row[f"p/{layer}"]) == task.stacked.probabilities()[layer][index]
        assert row["converged"] in ("True", "False")

    convergence = folder.read_json(CONVERGENCE)
    assert list(convergence["layers"]) == LAYERS
    layer = convergence["layers"][LAYERS[1]]
    assert layer["num_replicas"] == 3
    assert layer["initial"] == pytest.approx(0.2)
    assert layer["converged"] == (layer["converged_replicas"] == 3)
    assert convergence["converged"] == all(row["converged"] == "True" for row in rows)

    calibration = folder.read_json(CALIBRATION)["test"]
    assert calibration["expected"] == list(LEVELS)
    observed = [sum(r["test"].curves["observed"][level] for r in task.results) / 3 for level in range(99)]
    assert calibration["observed"] == pytest.approx(observed)
    assert calibration["num_points"] == 45
    stds = folder.read_json(UNCERTAINTY)["test"]
    assert stds["epistemic_std"] ** 2 + stds["aleatoric_std"] ** 2 == pytest.approx(stds["predictive_std"] ** 2)

    # What RunRecord writes for a single run, it writes of the means.
    metrics = {row["metric"]: float(row["value"]) for row in folder.read_table(METRICS)}
    assert metrics["test/nll"] == pytest.approx(sum(float(row["test/nll"]) for row in rows) / 3, rel=1e-5)
    layers = folder.read_json(RUN)["layers"]
    assert [entry["name"] for entry in layers] == LAYERS
    assert layers[0]["initial_p"] == pytest.approx(0.2)
    final = folder.read_json(SUMMARY)["probabilities"][LAYERS[2]]["final"]
    assert final == pytest.approx(sum(task.stacked.probabilities()[LAYERS[2]]) / 3, rel=1e-5)


def test_a_replica_s_checkpoint_is_one_of_the_ordinary_task(
    tmp_path: Path,
    make_replicas: MakeReplicas,
    make_task: MakeTask,
    make_trainer: MakeTrainer,
    replicated: ReplicatedData,
) -> None:
    task = make_replicas()
    trainer = make_trainer(tmp_path, max_epochs=1, callbacks=[ReplicaRecord(tmp_path, LABELS)])
    trainer.fit(task, replicated)
    trainer.test(task, replicated, verbose=False)
    path = tmp_path / replica_checkpoint(1)
    assert torch.load(path, weights_only=True)["global_step"] == 4
    alone = make_task()
    make_trainer(tmp_path).test(alone, replicated.replicas[1], ckpt_path=path, verbose=False, weights_only=True)
    assert alone.results["test"].scalars == pytest.approx(task.results[1]["test"].scalars, rel=1e-6)


@pytest.mark.parametrize("kind", ["none", "fixed"])
def test_other_kinds(
    tmp_path: Path,
    make_replicas: MakeReplicas,
    make_trainer: MakeTrainer,
    replicated: ReplicatedData,
    kind: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    trainer = make_trainer(tmp_path, max_epochs=1, callbacks=[ReplicaRecord(tmp_path, LABELS)])
    with caplog.at_level(logging.WARNING, logger="concrete_dropout"):
        trainer.fit(make_replicas(kind), replicated)
    assert not [entry for entry in caplog.records if entry.name.startswith("concrete_dropout")]
    folder = RunFolder(tmp_path)
    rows = folder.read_table(REPLICAS)
    assert all(row["converged"] == "True" for row in rows)
    assert ("p/network.layers.0" in rows[0]) == (kind == "fixed") == (tmp_path / DROPOUT).is_file()
    assert list(folder.read_json(CONVERGENCE)["layers"]) == (LAYERS if kind == "fixed" else [])


def test_p_that_still_moves_is_warned_about(
    tmp_path: Path,
    make_task: MakeTask,
    make_trainer: MakeTrainer,
    replicated: ReplicatedData,
    caplog: pytest.LogCaptureFixture,
) -> None:
    rates = [make_task(p_lr=0.5) for _ in SIZES]
    trainer = make_trainer(tmp_path, max_epochs=2, callbacks=[ReplicaRecord(tmp_path, LABELS)])
    with caplog.at_level(logging.WARNING, logger="concrete_dropout"):
        trainer.fit(ReplicatedTask(rates), replicated)
    assert any("has not converged in 3 of 3 replicas" in entry.getMessage() for entry in caplog.records)


def test_a_resumed_run_continues_the_tables(
    tmp_path: Path, make_replicas: MakeReplicas, make_trainer: MakeTrainer, replicated: ReplicatedData
) -> None:
    def run(folder: Path, extra: list[pl.Callback], resume: Path | None = None) -> None:
        torch.manual_seed(1)
        checkpoint = pl.callbacks.ModelCheckpoint(folder / "checkpoints", save_last=True, save_on_train_epoch_end=True)
        callbacks = [RandomState(), ReplicaRecord(folder, LABELS), checkpoint, *extra]
        trainer = make_trainer(folder, max_epochs=3, callbacks=callbacks, enable_checkpointing=True)
        trainer.fit(make_replicas(), replicated, ckpt_path=resume, weights_only=True)

    run(tmp_path / "whole", [])
    with pytest.raises(RuntimeError, match="killed"):
        run(tmp_path / "cut", [RaiseAt(7)])
    assert not (tmp_path / "cut" / "replicas").exists()
    run(tmp_path / "cut", [], tmp_path / "cut" / "checkpoints" / "last.ckpt")
    for name in (DROPOUT, REPLICAS):
        whole, cut = (RunFolder(tmp_path / folder).read_table(name) for folder in ("whole", "cut"))
        assert whole == cut
    convergence = [RunFolder(tmp_path / folder).read_json(CONVERGENCE) for folder in ("whole", "cut")]
    assert convergence[0] == convergence[1]


def test_scalars_for_loggers_are_means(
    tmp_path: Path, make_replicas: MakeReplicas, make_trainer: MakeTrainer, replicated: ReplicatedData
) -> None:
    logger = pl.loggers.CSVLogger(tmp_path, name="csv", version="")
    callbacks = [ReplicaRecord(tmp_path, LABELS)]
    make_trainer(tmp_path, max_epochs=1, logger=logger, callbacks=callbacks).fit(make_replicas(), replicated)
    with (tmp_path / "csv" / "metrics.csv").open() as file:
        logged = [row for row in csv.DictReader(file) if row.get(f"dropout_p/{LAYERS[0]}")]
    assert float(logged[0][f"dropout_p/{LAYERS[0]}"]) == pytest.approx(0.2)


def test_labels_must_be_as_many_as_replicas(
    tmp_path: Path, make_replicas: MakeReplicas, make_task: MakeTask, make_trainer: MakeTrainer, replicated: Any
) -> None:
    with pytest.raises(ValueError, match="2 labels for 3 replicas"):
        make_trainer(tmp_path, callbacks=[ReplicaRecord(tmp_path, LABELS[:2])]).fit(make_replicas(), replicated)
    with pytest.raises(TypeError, match="not for a RegressionTask"):
        make_trainer(tmp_path, callbacks=[ReplicaRecord(tmp_path, LABELS)]).fit(make_task(), replicated.replicas[0])
