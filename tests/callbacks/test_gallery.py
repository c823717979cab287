"""The gallery against a full sort of everything that was predicted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_dropout.callbacks import GalleryMonitor
from concrete_dropout.callbacks.gallery import Sample, candidates, caption, first
from concrete_dropout.callbacks.stages import CategoricalOutput
from concrete_dropout.data.digits import DigitsData
from concrete_dropout.predictive import CategoricalPrediction
from concrete_dropout.runfolder import GALLERY, RunFolder

from .conftest import MakeTrainer
from .vision import Outputs, classification_task, digits, read_png

KEYS = [
    "kind",
    "index",
    "name",
    "target",
    "predicted",
    "confidence",
    "predictive_entropy",
    "mutual_information",
    "file",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, make_trainer: MakeTrainer) -> tuple[RunFolder, DigitsData, Outputs]:
    folder, data, outputs = tmp_path_factory.mktemp("digits"), digits(eval_batch_size=60), Outputs()
    task = classification_task(data)
    trainer = make_trainer(folder, max_epochs=2, callbacks=[GalleryMonitor(folder, samples=5), outputs])
    trainer.fit(task, data)
    trainer.test(task, data, verbose=False)
    return RunFolder(folder), data, outputs


@pytest.mark.parametrize("stage", ["val", "test"])
def test_samples_are_the_extremes_of_all_predictions(run: tuple[RunFolder, DigitsData, Outputs], stage: str) -> None:
    folder, _, outputs = run
    entries = folder.read_json(GALLERY)[stage]
    assert all(list(entry) == KEYS for entry in entries)
    prediction, targets = outputs.joined(stage)
    confidence, predicted = (values.numpy() for values in prediction.probabilities.max(1))
    entropy, information = prediction.predictive_entropy.numpy(), prediction.mutual_information.numpy()
    wrong = np.flatnonzero(predicted != targets.numpy())
    expected = {
        "uncertain": np.argsort(-entropy, kind="stable")[:5],
        "wrong": wrong[np.argsort(-confidence[wrong], kind="stable")][:5],
    }
    for kind, indices in expected.items():
        chosen = [entry for entry in entries if entry["kind"] == kind]
        assert [entry["index"] for entry in chosen] == indices.tolist()
        assert [entry["target"] for entry in chosen] == [str(int(targets[i])) for i in indices]
        assert [entry["predicted"] for entry in chosen] == [str(predicted[i]) for i in indices]
        np.testing.assert_allclose([entry["confidence"] for entry in chosen], confidence[indices], rtol=1e-6)
        np.testing.assert_allclose([entry["predictive_entropy"] for entry in chosen], entropy[indices], rtol=1e-6)
        np.testing.assert_allclose([entry["mutual_information"] for entry in chosen], information[indices], atol=1e-6)


@pytest.mark.parametrize("stage", ["val", "test"])
def test_pictures_are_the_originals(run: tuple[RunFolder, DigitsData, Outputs], stage: Any) -> None:
    folder, data, _ = run
    for number, entry in enumerate(folder.read_json(GALLERY)[stage]):
        assert entry["file"] == f"images/gallery_{stage}_{entry['kind']}_{number % 5}.png"
        assert entry["name"] == data.label_name(stage, entry["index"])
        np.testing.assert_array_equal(read_png(folder.path / entry["file"]), data.image(stage, entry["index"]))


def test_pictures_of_another_run_do_not_stay(tmp_path: Path, make_trainer: MakeTrainer) -> None:
    data = digits()
    (tmp_path / "images").mkdir()
    for name in ("gallery_test_wrong_2.png", "other.png"):
        (tmp_path / "images" / name).touch()

    class Nearly(GalleryMonitor):
        """Of a network that makes one error."""

        def finish(self, trainer: Any, stage: str) -> None:
            self._found["wrong"] = self._found["wrong"][:1]
            super().finish(trainer, stage)

    trainer = make_trainer(tmp_path, callbacks=[Nearly(tmp_path, samples=3)])
    trainer.test(classification_task(data), data, verbose=False)
    named = {entry["file"] for entry in RunFolder(tmp_path).read_json(GALLERY)["test"]}
    assert len(named) == 4
    assert {f"images/{path.name}" for path in (tmp_path / "images").iterdir()} == named | {"images/other.png"}


def test_large_pictures_are_made_smaller(tmp_path: Path, make_trainer: MakeTrainer) -> None:
    class Large(DigitsData):
        def image(self, part: Any, index: int) -> Any:
            return np.kron(super().image(part, index), np.ones((20, 40), dtype=np.uint8))

    data = Large(eval_batch_size=400)
    monitor = GalleryMonitor(tmp_path, samples=2, max_size=64)
    make_trainer(tmp_path, callbacks=[monitor]).test(classification_task(data), data, verbose=False)
    shapes = {read_png(path).shape for path in (tmp_path / "images").iterdir()}
    assert shapes == {(32, 64)}


def test_without_pictures_there_are_the_numbers(tmp_path: Path, make_trainer: MakeTrainer) -> None:
    data = digits()
    monitor = GalleryMonitor(tmp_path, samples=2)
    make_trainer(tmp_path, callbacks=[monitor]).test(classification_task(data), data.test_dataloader(), verbose=False)
    entries = RunFolder(tmp_path).read_json(GALLERY)["test"]
    assert [entry["file"] for entry in entries] == [None] * 4
    assert entries[0]["name"] == f"test {entries[0]['index']}"
    assert not (tmp_path / "images").exists()


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 6))
def test_what_is_kept_of_a_stream_is_what_a_sort_would_keep(scores: list[int], count: int) -> None:
    samples = [Sample(float(score), index, 0, 0, 0.0, 0.0, 0.0) for index, score in enumerate(scores)]
    kept: list[Sample] = []
    for start in range(0, len(samples), 4):
        kept = first(count, [*kept, *samples[start : start + 4]])
        assert len(kept) <= count
    assert kept == sorted(samples, key=lambda sample: (-sample.score, sample.index))[:count]


def test_captions() -> None:
    entry = {"name": "a.png", "target": "cat", "predicted": "dog", "confidence": 0.987}
    line = caption({**entry, "predictive_entropy": 0.1, "mutual_information": 0.02})
    assert line == "a.png: cat, predicted dog (wrong, 98.7%), entropy 0.100, mutual information 0.020"


@pytest.mark.parametrize("setting", [{"samples": 0}, {"max_size": 0}])
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, setting: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"callbacks\.gallery"):
        GalleryMonitor(tmp_path, **setting)


def test_unlabelled_samples_are_left_out() -> None:
    probabilities = torch.tensor([[0.5, 0.5], [0.4, 0.6], [0.9, 0.1]])
    output = CategoricalOutput(CategoricalPrediction(probabilities, torch.zeros(3)), torch.tensor([-1, 0, 255]))
    found = candidates(output, [10, 11, 12], 3)
    assert [[sample.index for sample in found[kind]] for kind in ("uncertain", "wrong")] == [[11], [11]]
