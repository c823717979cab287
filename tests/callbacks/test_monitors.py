"""Uncertainty and calibration on validation and test data of a real run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

from concrete_dropout.callbacks import CalibrationMonitor, UncertaintyMonitor
from concrete_dropout.callbacks.band import predictive_band
from concrete_dropout.data import RegressionData, SyntheticData, Table, Tables
from concrete_dropout.models import MLP, GaussianHead
from concrete_dropout.runfolder import BAND, CALIBRATION, UNCERTAINTY, RunFolder, predictions_name
from concrete_dropout.settings import DropoutSettings
from concrete_dropout.tasks import RegressionTask

from .conftest import MakeTask, MakeTrainer

STAGES = {"val": 30, "test": 45}


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory, make_task: MakeTask, make_trainer: MakeTrainer, data: SyntheticData
) -> tuple[RunFolder, RegressionTask]:
    folder = tmp_path_factory.mktemp("run")
    task = make_task()
    trainer = make_trainer(folder, max_epochs=3, callbacks=[UncertaintyMonitor(folder), CalibrationMonitor(folder)])
    trainer.fit(task, data)
    trainer.test(task, data, verbose=False)
    return RunFolder(folder), task


@pytest.mark.parametrize("stage", STAGES)
def test_predictions_are_those_of_the_task(
    run: tuple[RunFolder, RegressionTask], data: SyntheticData, stage: str
) -> None:
    folder, task = run
    table = folder.read_table(predictions_name(stage))
    assert list(table[0]) == [
        "x:x",
        "target",
        "mean",
        "epistemic_std",
        "aleatoric_std",
        "predictive_std",
        "log_likelihood",
        "pit",
    ]
    columns = {name: np.array([float(row[name]) for row in table]) for name in table[0]}
    part = data.tables.parts()[stage]  # type: ignore[index]
    np.testing.assert_allclose(columns["x:x"], part.x[:, 0], atol=1e-6)
    np.testing.assert_allclose(columns["target"], part.y[:, 0], atol=1e-5)
    np.testing.assert_allclose(
        columns["predictive_std"] ** 2, columns["epistemic_std"] ** 2 + columns["aleatoric_std"] ** 2
    )
    assert (columns["epistemic_std"] > 0).all()
    assert ((columns["pit"] > 0) & (columns["pit"] < 1)).all()
    assert columns["log_likelihood"].mean() == pytest.approx(task.results[stage].scalars["log_likelihood"], rel=1e-6)


def test_uncertainty_and_calibration_are_the_results(run: tuple[RunFolder, RegressionTask]) -> None:
    folder, task = run
    uncertainty, calibration = folder.read_json(UNCERTAINTY), folder.read_json(CALIBRATION)
    for stage, count in STAGES.items():
        result = task.results[stage]
        names = ("epistemic_std", "aleatoric_std", "predictive_std")
        assert uncertainty[stage] == {**{name: result.scalars[name] for name in names}, "num_points": count}
        assert calibration[stage] == {
            "expected": result.curves["expected"],
            "observed": result.curves["observed"],
            "rmse": result.scalars["calibration_rmse"],
            "sharpness": result.scalars["sharpness"],
            "nll": result.scalars["nll"],
            "crps": result.scalars["crps"],
            "num_points": count,
        }


def test_the_band_reaches_beyond_the_training_data(run: tuple[RunFolder, RegressionTask], data: SyntheticData) -> None:
    folder, task = run
    band = folder.read_json(BAND)
    train = data.tables.train
    assert (band["feature"], band["target"]) == ("x", "y")
    assert min(band["x"]) < train.x.min() < train.x.max() < max(band["x"])
    assert band["train_x"] == train.x[:, 0].tolist()
    assert band["train_y"] == train.y[:, 0].tolist()
    points = torch.tensor(band["x"], dtype=torch.float64)[:, None]
    prediction = task.predict(points, samples=100, frozen_masks=True)
    assert band["mean"] == pytest.approx(prediction.mean[:, 0].tolist())
    assert band["epistemic_std"] == pytest.approx(prediction.epistemic.sqrt()[:, 0].tolist())
    assert band["predictive_std"] == pytest.approx(prediction.predictive.sqrt()[:, 0].tolist())


def test_figures_are_kept_as_plotly_json(run: tuple[RunFolder, RegressionTask]) -> None:
    figures = {path.stem: json.loads(path.read_text()) for path in (run[0].path / "figures").iterdir()}
    assert set(figures) == {
        "band",
        *(f"{name}_{stage}" for name in ("coverage", "error_against_std") for stage in STAGES),
    }
    assert all(figure["data"] and figure["layout"] for figure in figures.values())


def test_tables_are_bounded(
    tmp_path: Path, make_task: MakeTask, make_trainer: MakeTrainer, data: SyntheticData
) -> None:
    trainer = make_trainer(tmp_path, callbacks=[UncertaintyMonitor(tmp_path, max_rows=10)])
    trainer.validate(make_task(), data, verbose=False)
    table = RunFolder(tmp_path).read_table(predictions_name("val"))
    assert len(table) == 10
    assert float(table[0]["x:x"]) == pytest.approx(data.tables.parts()["val"].x[0, 0])
    assert RunFolder(tmp_path).read_json(UNCERTAINTY)["val"]["num_points"] == 30
    assert (tmp_path / "figures" / "error_against_std_val.json").is_file()


def test_the_sanity_check_leaves_nothing(
    tmp_path: Path, make_task: MakeTask, make_trainer: MakeTrainer, data: SyntheticData
) -> None:
    class Look(pl.Callback):
        def on_train_start(self, trainer: pl.Trainer, *_: Any) -> None:
            assert not (tmp_path / UNCERTAINTY).exists()
            assert not (tmp_path / CALIBRATION).exists()

    monitors = [UncertaintyMonitor(tmp_path), CalibrationMonitor(tmp_path), Look()]
    make_trainer(tmp_path, max_epochs=1, num_sanity_val_steps=2, callbacks=monitors).fit(make_task(), data)
    assert RunFolder(tmp_path).read_json(UNCERTAINTY)["val"]["num_points"] == 30


class TwoByTwo(RegressionData):
    """Two inputs, two targets, no validation part."""

    def load(self) -> Tables:
        x = np.random.default_rng(0).normal(size=(40, 2))
        y = np.stack([x.sum(1), x[:, 0] - x[:, 1]], axis=1)
        return Tables(Table(x, y), None, Table(x[:9], y[:9]), ("a", "b"), ("sum", "gap"))


@pytest.fixture(scope="module")
def two_by_two() -> tuple[TwoByTwo, RegressionTask]:
    data = TwoByTwo(batch_size=20)
    network = DropoutSettings().apply(GaussianHead(MLP(2, 4, hidden=(6,))), data.example_input)
    task = RegressionTask(
        network, num_train=40, inputs=data.spec.inputs, targets=data.spec.targets, val_samples=2, test_samples=2
    )
    return data, task


def test_several_outputs_and_no_validation(
    tmp_path: Path, make_trainer: MakeTrainer, two_by_two: tuple[TwoByTwo, RegressionTask]
) -> None:
    data, task = two_by_two
    trainer = make_trainer(tmp_path, callbacks=[UncertaintyMonitor(tmp_path), CalibrationMonitor(tmp_path)])
    trainer.test(task, data, verbose=False)
    (first, *_) = table = RunFolder(tmp_path).read_table(predictions_name("test"))
    assert len(table) == 9
    assert list(first)[:4] == ["x:a", "x:b", "target:sum", "mean:sum"]
    assert {"target:gap", "predictive_std:gap", "pit:sum", "pit:gap", "log_likelihood"} <= set(first)
    assert float(first["target:gap"]) == pytest.approx(float(first["x:a"]) - float(first["x:b"]), abs=1e-5)
    assert not (tmp_path / BAND).exists()
    assert {path.name for path in (tmp_path / "figures").glob("error*")} == {
        "error_against_std_test_0.json",
        "error_against_std_test_1.json",
    }
    assert list(RunFolder(tmp_path).read_json(CALIBRATION)) == ["test"]


def test_without_a_data_module_columns_are_numbered(
    tmp_path: Path, make_trainer: MakeTrainer, two_by_two: tuple[TwoByTwo, RegressionTask]
) -> None:
    data, task = two_by_two
    trainer = make_trainer(tmp_path, callbacks=[UncertaintyMonitor(tmp_path)])
    trainer.test(task, DataLoader(TensorDataset(*data.tensors("test")), batch_size=5), verbose=False)
    assert list(RunFolder(tmp_path).read_table(predictions_name("test"))[0])[:3] == ["x:x0", "x:x1", "target:y0"]
    assert predictive_band(trainer, task) is None
