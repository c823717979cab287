"""Pictures that callbacks claim to log really are in an offline W&B run, read back from its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytorch_lightning.loggers import WandbLogger
from tests.dashboard.wandb_panels import check_logged, references

from concrete_dropout.callbacks import CalibrationMonitor, GalleryMonitor, MapsMonitor, RunRecord
from concrete_dropout.callbacks.loggers import wandb_environment
from concrete_dropout.runfolder import GALLERY, RUN, RunFolder

from .conftest import MakeTrainer
from .test_wandb import read_back
from .vision import classification_task, digits, read_png, scenes, segmentation_task


class Logged:
    """A run folder, its W&B files and its history."""

    def __init__(self, folder: Path) -> None:
        self.folder = RunFolder(folder)
        directory = folder / self.folder.read_json(RUN)["loggers"]["wandb"]
        self.files = directory / "files"
        self.history = [record["history"]["item"] for record in read_back(directory) if record["type"] == "history"]

    def items(self, key: str, kind: str) -> list[dict[str, Any]]:
        return [item for item in self.history if item.get(f"{key}._type") == kind]


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory, make_trainer: MakeTrainer) -> dict[str, Logged]:
    wandb = pytest.importorskip("wandb")
    found = {}
    for name, data, make in (("gallery", digits(), classification_task), ("maps", scenes(), segmentation_task)):
        folder = tmp_path_factory.mktemp(name)
        with pytest.MonkeyPatch.context() as patch:
            own = {"WANDB_MODE": "offline", "WANDB_DIR": str(folder), "WANDB_SILENT": "true"}
            for variable, value in {**own, **wandb_environment(folder)}.items():
                patch.setenv(variable, value)
            task = make(data)  # type: ignore[operator]
            try:
                trainer = make_trainer(
                    folder,
                    max_epochs=4,
                    log_every_n_steps=1,
                    logger=WandbLogger(project="test", save_dir=folder, offline=True),
                    callbacks=[
                        GalleryMonitor(folder, samples=3),
                        MapsMonitor(folder, images=2),
                        CalibrationMonitor(folder),
                        RunRecord(folder),
                    ],
                )
                trainer.fit(task, data)
                trainer.test(task, data, verbose=False)
            finally:
                wandb.finish()
            found[name] = Logged(folder)
    return found


@pytest.mark.parametrize("stage", ["val", "test"])
def test_the_gallery_is_logged_once_as_pictures_and_as_a_table(logged: dict[str, Logged], stage: str) -> None:
    run = logged["gallery"]
    entries = run.folder.read_json(GALLERY)[stage]
    for kind in ("uncertain", "wrong"):
        (item,) = run.items(f"gallery/{stage}_{kind}", "images/separated")
        key = f"gallery/{stage}_{kind}"
        chosen = [entry for entry in entries if entry["kind"] == kind]
        assert len(item[f"{key}.filenames"]) == len(chosen) == 3
        for entry, file, caption in zip(chosen, item[f"{key}.filenames"], item[f"{key}.captions"], strict=True):
            assert caption.startswith(f"{entry['name']}: {entry['target']}, predicted {entry['predicted']}")
            np.testing.assert_array_equal(read_png(run.files / file), read_png(run.folder.path / entry["file"]))
    (item,) = run.items(f"tables/gallery_{stage}", "table-file")
    table = json.loads((run.files / item[f"tables/gallery_{stage}.path"]).read_text())
    assert table["columns"][:4] == ["kind", "index", "name", "target"]
    assert table["columns"][-1] == "image"
    assert [row[1] for row in table["data"]] == [entry["index"] for entry in entries]


def test_maps_are_logged_at_growing_steps_with_masks(logged: dict[str, Logged]) -> None:
    run = logged["maps"]
    for index in (1, 3):
        key = f"maps/val_{index}"
        items = run.items(key, "images/separated")
        # Validations were after steps 2, 4, 6 and 8; the last one is logged at the end of the fit.
        assert [item["trainer/global_step"] for item in items] == [2, 4, 6, 8]
        first = items[0]
        assert first[f"{key}.captions"] == [
            "input, with masks",
            "epistemic: mutual information",
            "aleatoric: expected entropy",
            "error",
        ]
        masks = first[f"{key}.all_masks"][0]
        assert set(masks) == {"prediction", "ground truth"}
        labels = read_png(run.files / masks["ground truth"]["path"])
        targets = scenes().mask("val", index).astype(int)
        np.testing.assert_array_equal(labels, np.where(targets == 255, 11, targets))
        (test,) = run.items(f"maps/test_{index}", "images/separated")
        assert test["trainer/global_step"] == 8


@pytest.mark.parametrize("name", ["gallery", "maps"])
def test_the_step_axis_never_goes_back(logged: dict[str, Logged], name: str) -> None:
    steps = [item["trainer/global_step"] for item in logged[name].history]
    assert steps == sorted(steps)


@pytest.mark.parametrize("name", ["gallery", "maps"])
def test_the_views_of_the_dashboard_refer_to_what_is_there(logged: dict[str, Logged], name: str) -> None:
    run = logged[name]
    kinds = check_logged(references(run.folder.path)["workspace"], run.history, run.files)
    assert {"scalar", "media", "table"} <= kinds
