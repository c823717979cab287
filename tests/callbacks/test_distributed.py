"""All callbacks on two real processes: one writes, none waits for the other for ever."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytorch_lightning.callbacks import ModelCheckpoint

from concrete_dropout.callbacks import (
    AtomicCheckpointIO,
    CalibrationMonitor,
    ProbabilityMonitor,
    RandomState,
    RunRecord,
    UncertaintyMonitor,
)
from concrete_dropout.callbacks.rng import KEY
from concrete_dropout.data import SyntheticData
from concrete_dropout.runfolder import (
    CALIBRATION,
    DROPOUT,
    METRICS,
    RUN,
    UNCERTAINTY,
    RunFolder,
    predictions_name,
)

from .conftest import MakeTask, MakeTrainer


def test_two_processes_leave_one_record(
    tmp_path: Path, make_task: MakeTask, make_trainer: MakeTrainer, data: SyntheticData
) -> None:
    own = RunRecord(tmp_path)
    trainer = make_trainer(
        tmp_path,
        max_epochs=2,
        devices=2,
        strategy="ddp_fork",
        log_every_n_steps=1,
        enable_checkpointing=True,
        callbacks=[
            ModelCheckpoint(tmp_path / "checkpoints", filename="last"),
            ProbabilityMonitor(tmp_path),
            UncertaintyMonitor(tmp_path),
            CalibrationMonitor(tmp_path),
            RandomState(),
            own,
        ],
        plugins=[AtomicCheckpointIO()],
    )
    trainer.fit(make_task(), data)
    own.finish()
    folder = RunFolder(tmp_path)
    rows = folder.read_table(DROPOUT)
    assert [int(row["step"]) for row in rows] == [step for step in range(5) for _ in range(3)]
    metrics = [(row["step"], row["metric"]) for row in folder.read_table(METRICS)]
    assert len(set(metrics)) == len(metrics) > 0
    assert folder.read_json(CALIBRATION)["val"]["num_points"] == 30
    assert len(folder.read_table(predictions_name("val"))) == 30
    record = folder.read_json(RUN)
    assert (record["state"], record["step"]) == ("finished", 4)
    assert record["checkpoints"]["last"] == "checkpoints/last.ckpt"
    checkpoint = AtomicCheckpointIO().load_checkpoint(tmp_path / "checkpoints" / "last.ckpt")
    first, second = (state["torch"] for state in checkpoint[KEY]["ranks"])
    assert not first.equal(second)


@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric")  # in the process that has no rows
def test_more_processes_than_rows(tmp_path: Path, make_task: MakeTask, make_trainer: MakeTrainer) -> None:
    """A process without rows adds nothing, and waits for nobody; without masks the result is that of one process."""
    data = SyntheticData(num_data=64, num_val=1, num_test=2, batch_size=16)
    found = []
    for devices in (1, 3):
        folder = tmp_path / str(devices)
        several = {"devices": devices, "strategy": "ddp_fork"} if devices > 1 else {}
        callbacks = [UncertaintyMonitor(folder), CalibrationMonitor(folder)]
        make_trainer(folder, callbacks=callbacks, **several).test(make_task("none"), data, verbose=False)
        found.append(RunFolder(folder))
    one, three = found
    for name in (CALIBRATION, UNCERTAINTY):
        expected, ours = (folder.read_json(name)["test"] for folder in (one, three))
        assert ours["num_points"] == expected["num_points"] == 2
        assert set(ours) == set(expected)
        numbers = {key: value for key, value in expected.items() if isinstance(value, float)}
        assert {key: ours[key] for key in numbers} == pytest.approx(numbers, rel=1e-6)
    ours, expected = (folder.read_table(predictions_name("test")) for folder in (three, one))
    assert [row["x:x"] for row in ours] == [row["x:x"] for row in expected]
