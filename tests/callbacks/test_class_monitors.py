"""Calibration, uncertainty, selective prediction and classes of real runs that predict classes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytorch_lightning import Callback
from torch.utils.data import DataLoader

from concrete_dropout.callbacks import CalibrationMonitor, ClassMonitor, SelectiveMonitor, UncertaintyMonitor
from concrete_dropout.data import SyntheticData
from concrete_dropout.runfolder import (
    CALIBRATION,
    CLASSES,
    GALLERY,
    MAPS,
    SELECTIVE,
    UNCERTAINTY,
    RunFolder,
    predictions_name,
)
from concrete_dropout.tasks.base import Task

from .conftest import MakeTask, MakeTrainer
from .vision import Outputs, classification_task, digits, monitors, scenes, segmentation_task

Run = tuple[RunFolder, Task, Outputs]


@pytest.fixture(scope="module")
def classified(tmp_path_factory: pytest.TempPathFactory, make_trainer: MakeTrainer) -> Run:
    folder, data, outputs = tmp_path_factory.mktemp("digits"), digits(), Outputs()
    task = classification_task(data)
    trainer = make_trainer(folder, max_epochs=2, callbacks=[*monitors(folder), outputs])
    trainer.fit(task, data)
    trainer.test(task, data, verbose=False)
    return RunFolder(folder), task, outputs


@pytest.fixture(scope="module")
def segmented(tmp_path_factory: pytest.TempPathFactory, make_trainer: MakeTrainer) -> Run:
    folder, data, outputs = tmp_path_factory.mktemp("scenes"), scenes(), Outputs()
    task = segmentation_task(data)
    trainer = make_trainer(folder, max_epochs=2, callbacks=[*monitors(folder), outputs])
    trainer.fit(task, data)
    trainer.test(task, data, verbose=False)
    return RunFolder(folder), task, outputs


@pytest.fixture(params=["classified", "segmented"])
def run(request: pytest.FixtureRequest) -> Run:
    found: Run = request.getfixturevalue(request.param)
    return found


def test_reliability_is_the_result_with_and_without_mc(run: Run) -> None:
    folder, task, _ = run
    calibration = folder.read_json(CALIBRATION)
    assert set(calibration) == {"val", "test", "test_no_mc"}
    for key, entry in calibration.items():
        stage, suffix = key.removesuffix("_no_mc"), "_no_mc" if key.endswith("_no_mc") else ""
        result = task.results[stage]
        curves = {name: result.curves[f"{name}{suffix}"] for name in ("confidence", "frequency", "share")}
        names = {"rmse": "calibration_rmse", "ece": "ece", "mce": "mce", "nll": "nll", "brier": "brier"}
        scalars = {short: result.scalars[f"{name}{suffix}"] for short, name in names.items()}
        assert entry == {**curves, **scalars, "num_points": result.num_points}
        assert sum(entry["share"]) == pytest.approx(1)


def test_uncertainties_are_entropies(run: Run) -> None:
    folder, task, _ = run
    for stage, entry in folder.read_json(UNCERTAINTY).items():
        result = task.results[stage]
        names = ("predictive_entropy", "expected_entropy", "mutual_information")
        assert entry == {**{name: result.scalars[name] for name in names}, "num_points": result.num_points}


def test_selective_prediction_is_the_result(run: Run) -> None:
    folder, task, _ = run
    selective = folder.read_json(SELECTIVE)
    assert set(selective) == {"val", "test"}
    for stage, entry in selective.items():
        curves = task.results[stage].curves
        assert entry == {name: curves[name] for name in curves if name == "left_out" or "_kept" in name}
        assert {"accuracy_kept", "accuracy_kept_epistemic", "calibration_rmse_kept"} <= set(entry)
        assert entry["accuracy_kept"][0] == pytest.approx(task.results[stage].scalars["accuracy"])


def test_samples_have_a_table(classified: Run) -> None:
    folder, task, outputs = classified
    table = folder.read_table(predictions_name("test"))
    prediction, targets = outputs.joined("test")
    columns = {name: np.array([float(row[name]) for row in table]) for name in table[0]}
    np.testing.assert_array_equal(columns["target"], targets)
    np.testing.assert_array_equal(columns["predicted"], prediction.probabilities.argmax(1))
    np.testing.assert_allclose(columns["mutual_information"], prediction.mutual_information, atol=1e-6)
    assert columns["correct"].mean() == pytest.approx(task.results["test"].scalars["accuracy"])
    assert columns["log_likelihood"].mean() == pytest.approx(task.results["test"].scalars["log_likelihood"], rel=1e-5)


def test_pixels_have_no_table_and_samples_no_maps(classified: Run, segmented: Run) -> None:
    assert not (segmented[0].path / predictions_name("test")).exists()
    assert not (segmented[0].path / GALLERY).exists()
    assert not (classified[0].path / MAPS).exists()
    assert not (classified[0].path / CLASSES).exists()


def test_every_class_has_its_iou_name_and_colour(segmented: Run) -> None:
    folder, task, _ = segmented
    spec = scenes().spec
    classes = folder.read_json(CLASSES)
    assert set(classes["val"]) == {"names", "iou", "colours"}
    for stage, entry in classes.items():
        assert entry["names"] == list(spec.class_names)
        assert entry["colours"] == [list(colour) for colour in spec.class_colours]
        scalars = {name: value if np.isfinite(value) else None for name, value in task.results[stage].scalars.items()}
        assert entry["iou"] == [scalars[f"iou/{name}"] for name in spec.class_names]
    assert classes["test"]["iou_no_mc"] == [
        value if np.isfinite(value) else None
        for value in (task.results["test"].scalars[f"iou/{name}_no_mc"] for name in spec.class_names)
    ]


@pytest.mark.parametrize(
    ("kind", "figures"),
    [
        ("classified", {"reliability", "entropy_by_outcome", "selective_accuracy", "selective_calibration_rmse"}),
        (
            "segmented",
            {"reliability", "classes", "selective_accuracy", "selective_miou", "selective_calibration_rmse"},
        ),
    ],
)
def test_figures_are_kept_as_plotly_json(kind: str, figures: set[str], request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(kind)[0]
    found = {path.stem: json.loads(path.read_text()) for path in (folder.path / "figures").iterdir()}
    assert set(found) == {f"{name}_{stage}" for name in figures for stage in ("val", "test")}
    assert all(figure["data"] and figure["layout"] for figure in found.values())
    names = [trace.get("name") for trace in found["reliability_test"]["data"]]
    assert names[:2] == ["perfect", "with MC"]
    assert "without MC" in names


def test_without_a_data_module_classes_are_numbered(tmp_path: Path, make_trainer: MakeTrainer) -> None:
    data = scenes()
    task = segmentation_task(data, class_names=())
    loader = data.test_dataloader()
    assert isinstance(loader, DataLoader)
    make_trainer(tmp_path, callbacks=monitors(tmp_path)).test(task, loader, verbose=False)
    entry = RunFolder(tmp_path).read_json(CLASSES)["test"]
    assert entry["names"] == [str(i) for i in range(11)]
    assert len({tuple(colour) for colour in entry["colours"]}) == 11
    (image, *_) = RunFolder(tmp_path).read_json(MAPS)["test"]["images"]
    assert image["name"] == "test 0"
    assert "input" not in image
    assert (tmp_path / image["target"]).is_file()


def test_regression_is_left_alone(
    tmp_path: Path, make_task: MakeTask, make_trainer: MakeTrainer, data: SyntheticData
) -> None:
    make_trainer(tmp_path, callbacks=monitors(tmp_path)).validate(make_task(), data, verbose=False)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {CALIBRATION, UNCERTAINTY, "band.json", "figures", predictions_name("val")}


def test_the_sanity_check_leaves_nothing(tmp_path: Path, make_trainer: MakeTrainer) -> None:
    class Look(Callback):
        def on_train_start(self, *_: Any) -> None:
            assert list(tmp_path.iterdir()) == []

    data = scenes(num_val=2)
    callbacks = [*monitors(tmp_path), Look()]
    make_trainer(tmp_path, max_epochs=1, num_sanity_val_steps=1, callbacks=callbacks).fit(segmentation_task(data), data)
    assert (tmp_path / MAPS).is_file()


@pytest.mark.parametrize("monitor", [UncertaintyMonitor, CalibrationMonitor, SelectiveMonitor, ClassMonitor])
def test_a_task_without_results_leaves_nothing(
    tmp_path: Path, make_trainer: MakeTrainer, monitor: type[Callback]
) -> None:
    data = digits()
    task = classification_task(data)
    callback: Any = monitor(tmp_path)  # type: ignore[call-arg]
    trainer = make_trainer(tmp_path)
    callback.on_test_end(trainer, task)
    assert list(tmp_path.iterdir()) == []
