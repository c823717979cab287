"""Maps of a real segmentation: every pixel against what was predicted, and which steps stay."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pytorch_lightning.callbacks import ModelCheckpoint

from concrete_dropout.callbacks import MapsMonitor
from concrete_dropout.callbacks.scene import scene_of
from concrete_dropout.callbacks.stages import CategoricalOutput
from concrete_dropout.data.scenes import ScenesData
from concrete_dropout.plots.pictures import FADED, RIGHT, VOID, WRONG, scale_colours, scale_position
from concrete_dropout.predictive import CategoricalPrediction
from concrete_dropout.runfolder import MAPS, RunFolder

from .conftest import MakeTrainer
from .vision import Outputs, read_png, scenes, segmentation_task

CHANGING = ("prediction", "epistemic", "aleatoric", "error")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, make_trainer: MakeTrainer) -> tuple[RunFolder, ScenesData, Outputs]:
    folder, data, outputs = tmp_path_factory.mktemp("scenes"), scenes(), Outputs()
    task = segmentation_task(data)
    trainer = make_trainer(folder, max_epochs=6, callbacks=[MapsMonitor(folder, images=2, steps=3), outputs])
    trainer.fit(task, data)
    trainer.test(task, data, verbose=False)
    return RunFolder(folder), data, outputs


def images(folder: RunFolder, stage: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = folder.read_json(MAPS)[stage]["images"]
    return found


def test_the_record_names_what_is_there(run: tuple[RunFolder, ScenesData, Outputs]) -> None:
    folder, data, _ = run
    record = folder.read_json(MAPS)
    for stage, indices in (("val", [1, 3]), ("test", [1, 3])):
        assert record[stage]["names"] == list(data.spec.class_names)
        assert record[stage]["colours"] == [list(colour) for colour in data.spec.class_colours]
        assert record[stage]["scales"] == pytest.approx({"epistemic": math.log(11) / 4, "aleatoric": math.log(11)})
        assert [image["index"] for image in record[stage]["images"]] == indices
        assert [image["name"] for image in record[stage]["images"]] == [f"{stage} {i}" for i in indices]
    named = {
        place[kind]
        for stage in ("val", "test")
        for image in images(folder, stage)
        for place, kinds in ((image, ("input", "target")), *((at, CHANGING) for at in image["steps"]))
        for kind in kinds
    }
    assert named == {f"images/{path.name}" for path in (folder.path / "images").iterdir()}
    assert "images/maps_val_1_2_input.png" in named
    assert "images/maps_test_3_12_epistemic.png" in named


def test_the_first_and_the_last_validation_stay(run: tuple[RunFolder, ScenesData, Outputs]) -> None:
    folder, _, _ = run
    for image in images(folder, "val"):
        steps = [at["step"] for at in image["steps"]]
        assert len(steps) == 3
        assert (steps[0], steps[-1]) == (2, 12)
    assert [at["step"] for at in images(folder, "test")[0]["steps"]] == [12]


@pytest.mark.parametrize("stage", ["val", "test"])
def test_every_pixel_is_what_was_predicted(run: tuple[RunFolder, ScenesData, Outputs], stage: Any) -> None:
    folder, data, outputs = run
    prediction, all_targets = outputs.joined(stage)
    colours = np.array(data.spec.class_colours)
    for image in images(folder, stage):
        index, last = image["index"], image["steps"][-1]
        shown = {kind: read_png(folder.path / last[kind]).astype(int) for kind in CHANGING}
        predicted, targets = prediction.probabilities[index].argmax(0).numpy(), all_targets[index].numpy()
        void = (targets < 0) | (targets >= 11)
        np.testing.assert_array_equal(read_png(folder.path / image["input"]), data.image(stage, index))
        target = read_png(folder.path / image["target"])
        np.testing.assert_array_equal(target[~void], colours[targets[~void]])
        np.testing.assert_array_equal(target[void], np.broadcast_to(VOID, target[void].shape))
        np.testing.assert_array_equal(shown["prediction"][~void], colours[predicted[~void]])
        faded = FADED * colours[predicted[void]] + (1 - FADED) * np.array(VOID)
        np.testing.assert_allclose(shown["prediction"][void], faded, atol=0.5)
        wrong = (predicted != targets)[..., None]
        np.testing.assert_array_equal(shown["error"][~void], np.where(wrong, WRONG, RIGHT)[~void])
        assert last["wrong"] == pytest.approx((predicted != targets)[~void].mean())
        for kind, values, mean, high in (
            ("epistemic", prediction.mutual_information[index], "mutual_information", math.log(11) / 4),
            ("aleatoric", prediction.expected_entropy[index], "expected_entropy", math.log(11)),
        ):
            assert last[mean] == pytest.approx(float(values.numpy()[~void].mean()), abs=1e-6)
            place = scale_position(values.numpy(), high)
            nearest = np.abs(scale_colours()[None] - shown[kind][~void][:, None]).sum(-1).argmin(1) / 119
            np.testing.assert_allclose(nearest, place[~void], atol=0.5 / 119 + 1e-6)


def test_chosen_images_and_those_that_do_not_exist(
    tmp_path: Path, make_trainer: MakeTrainer, caplog: pytest.LogCaptureFixture
) -> None:
    data = scenes()
    monitor = MapsMonitor(tmp_path, images=[3, 0, 99])
    with caplog.at_level(logging.WARNING):
        make_trainer(tmp_path, callbacks=[monitor]).test(segmentation_task(data), data, verbose=False)
    assert [image["index"] for image in images(RunFolder(tmp_path), "test")] == [0, 3]
    assert "callbacks.maps.images: the last image of the test part is 3, there is no 99" in caplog.text


def test_a_shortened_evaluation_shows_images_that_it_sees(tmp_path: Path, make_trainer: MakeTrainer) -> None:
    data = scenes()
    trainer = make_trainer(tmp_path, limit_test_batches=1, callbacks=[MapsMonitor(tmp_path)])
    trainer.test(segmentation_task(data), data, verbose=False)
    assert [image["index"] for image in images(RunFolder(tmp_path), "test")] == [0, 1]


def test_a_resumed_run_drops_what_comes_after_its_checkpoint(tmp_path: Path, make_trainer: MakeTrainer) -> None:
    data = scenes(num_val=2)

    def fit(epochs: int, **settings: Any) -> list[int]:
        checkpoint = ModelCheckpoint(tmp_path / "checkpoints", save_top_k=-1, filename="{epoch}")
        callbacks = [MapsMonitor(tmp_path, images=1), checkpoint]
        trainer = make_trainer(tmp_path, max_epochs=epochs, enable_checkpointing=True, callbacks=callbacks)
        trainer.fit(segmentation_task(data), data, weights_only=True, **settings)
        (image,) = images(RunFolder(tmp_path), "val")
        assert {path.name for path in (tmp_path / "images").glob("*_prediction.png")} == {
            Path(at["prediction"]).name for at in image["steps"]
        }
        return [at["step"] for at in image["steps"]]

    assert fit(3) == [2, 4, 6]
    assert fit(2, ckpt_path=tmp_path / "checkpoints" / "epoch=0.ckpt") == [2, 4]
    # A run that starts anew keeps nothing of another one that used its folder.
    assert fit(1) == [2]


def test_images_that_were_filled_up_are_cut_to_their_size() -> None:
    probabilities = torch.softmax(torch.randn(1, 3, 6, 8), dim=1)
    output = CategoricalOutput(
        CategoricalPrediction(probabilities, torch.rand(1, 6, 8)), torch.randint(0, 3, (1, 6, 8))
    )
    scene = scene_of(output, 0, 0, np.zeros((4, 5, 3), dtype=np.uint8), max_size=100)
    assert scene.predicted.shape == scene.targets.shape == scene.epistemic.shape == (4, 5)
    np.testing.assert_array_equal(scene.predicted, probabilities[0].argmax(0)[:4, :5])


def test_large_images_are_made_smaller_and_uncertainties_averaged() -> None:
    probabilities = torch.zeros(1, 2, 8, 16)
    probabilities[:, 0] = 1.0
    aleatoric = torch.arange(128.0).reshape(1, 8, 16)
    output = CategoricalOutput(CategoricalPrediction(probabilities, aleatoric), torch.full((1, 8, 16), 255))
    scene = scene_of(output, 0, 0, np.zeros((8, 16, 3), dtype=np.uint8), max_size=4)
    assert scene.picture is not None
    assert scene.picture.shape == (2, 4, 3)
    np.testing.assert_allclose(scene.aleatoric, aleatoric[0].reshape(2, 4, 4, 4).mean((1, 3)))
    # All is void: there is nothing to be wrong about.
    assert scene.numbers() == {"wrong": None, "mutual_information": None, "expected_entropy": None}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"images": -1}, r"callbacks\.maps\.images=-1"),
        ({"images": [0, -2]}, "must not be negative"),
        ({"steps": 1}, "steps=1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MapsMonitor(tmp_path, **settings)


def test_no_images_leave_nothing(tmp_path: Path, make_trainer: MakeTrainer) -> None:
    data = scenes()
    make_trainer(tmp_path, callbacks=[MapsMonitor(tmp_path, images=0)]).test(
        segmentation_task(data), data, verbose=False
    )
    assert list(tmp_path.iterdir()) == []
