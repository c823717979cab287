"""Gallery and maps of two real processes: one record, of the rows of both."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from concrete_dropout.callbacks import GalleryMonitor, MapsMonitor
from concrete_dropout.runfolder import GALLERY, MAPS, RunFolder

from .conftest import MakeTrainer
from .vision import classification_task, digits, read_png, scenes, segmentation_task

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
