"""Gallery and maps of two real processes: one record, of the rows of both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from concrete_dropout.callbacks import GalleryMonitor, MapsMonitor
from concrete_dropout.runfolder import CALIBRATION, CLASSES, GALLERY, MAPS, UNCERTAINTY, RunFolder

from .conftest import MakeTrainer
from .vision import classification_task, digits, monitors, read_png, scenes, segmentation_task

TWO = {"devices": 2, "strategy": "ddp_fork", "max_epochs": 1, "num_sanity_val_steps": 0}


def test_the_gallery_is_of_both_processes(tmp_path: Path, make_trainer: MakeTrainer) -> None:
    data = digits()
    monitor = GalleryMonitor(tmp_path, samples=40)
    make_trainer(tmp_path, callbacks=[monitor], **TWO).fit(classification_task(data), data)
    entries = [entry for entry in RunFolder(tmp_path).read_json(GALLERY)["val"] if entry["kind"] == "uncertain"]
    indices = [entry["index"] for entry in entries]
    assert len(set(indices)) == len(indices) == 40
    assert {index % 2 for index in indices} == {0, 1}
    labels = data.pictures.parts()["val"].labels
    assert [entry["target"] for entry in entries] == [str(int(labels[index])) for index in indices]
    scores = [entry["predictive_entropy"] for entry in entries]
    assert scores == sorted(scores, reverse=True)


def test_maps_are_of_both_processes(tmp_path: Path, make_trainer: MakeTrainer) -> None:
    data = scenes()  # five validation images: the second process sees the first one again
    monitor = MapsMonitor(tmp_path, images=[0, 1, 4])
    make_trainer(tmp_path, callbacks=[monitor], **TWO).fit(segmentation_task(data), data)
    folder = RunFolder(tmp_path)
    images = folder.read_json(MAPS)["val"]["images"]
    assert [image["index"] for image in images] == [0, 1, 4]
    colours = np.array(data.spec.class_colours)
    for image in images:
        targets = data.mask("val", image["index"])
        shown = read_png(tmp_path / image["target"])
        np.testing.assert_array_equal(shown[targets < 11], colours[targets[targets < 11]])
        np.testing.assert_array_equal(read_png(tmp_path / image["input"]), data.image("val", image["index"]))


@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric")  # in the process that has no rows
def test_a_process_may_have_no_images(tmp_path: Path, make_trainer: MakeTrainer) -> None:
    """Two test images in three processes: what all monitors write is that of one process."""
    data = scenes(num_test=2)
    found = []
    for devices in (1, 3):
        folder = tmp_path / str(devices)
        several = {"devices": devices, "strategy": "ddp_fork"} if devices > 1 else {}
        task = segmentation_task(data, val_samples=0, test_samples=0)
        make_trainer(folder, callbacks=monitors(folder), **several).test(task, data, verbose=False)
        found.append({name: RunFolder(folder).read_json(name)["test"] for name in (CALIBRATION, UNCERTAINTY, CLASSES)})
        assert [image["index"] for image in RunFolder(folder).read_json(MAPS)["test"]["images"]] == [0, 1]
    one, three = found
    assert one[CALIBRATION]["num_points"] == three[CALIBRATION]["num_points"] > 0
    for name in (CALIBRATION, UNCERTAINTY):
        numbers = {key: value for key, value in one[name].items() if isinstance(value, float)}
        assert len(numbers) > 2
        assert {key: three[name][key] for key in numbers} == pytest.approx(numbers, rel=1e-6)
    assert one[CLASSES] == three[CLASSES]
