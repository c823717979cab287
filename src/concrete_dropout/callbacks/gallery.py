"""A gallery of classified samples: the ones that the network is least sure of, and its most confident errors."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytorch_lightning as pl
import torch
from PIL import Image
from torch import Tensor

from concrete_dropout.callbacks.evaluation import EvaluationMonitor, gathered
from concrete_dropout.callbacks.loggers import log_made, wandb_loggers
from concrete_dropout.callbacks.pictures import (
    Pixels,
    log_pictures,
    name_of,
    picture_of,
    remove_pictures,
    save_picture,
)
from concrete_dropout.callbacks.stages import CategoricalOutput, class_names
from concrete_dropout.runfolder import GALLERY, IMAGES

KINDS = ("uncertain", "wrong")


@dataclass(frozen=True)
class Sample:
    """One prediction; ``score`` is what samples of a kind are ordered by, the highest first."""

    score: float
    index: int
    target: int
    predicted: int
    confidence: float
    predictive_entropy: float
    mutual_information: float


class GalleryMonitor(EvaluationMonitor):
    """Leaves ``gallery.json`` and the pictures of its samples for classification.

    Of each kind the first ``samples`` are kept while the evaluation goes by, so memory does not grow with the data:
    "uncertain" has the largest predictive entropy, "wrong" the largest confidence in another class than the true one.
    Pictures come from the data module's ``image(part, index)``. They are written after the fit (of its last validation)
    and after the test, and logged to W&B with a table.

    Args:
        folder: the run folder.
        samples: of each kind.
        max_size: pixels of a picture's longer side; larger ones are made smaller.
    """

    def __init__(self, folder: str | Path, samples: int = 12, max_size: int = 160) -> None:
        if samples < 1 or max_size < 1:
            raise ValueError(f"callbacks.gallery: samples={samples} and max_size={max_size} must be at least 1")
        super().__init__(folder)
        self.samples, self.max_size = samples, max_size
        self._found: dict[str, list[Sample]] = {}
        self._waiting: dict[str, dict[str, list[Sample]]] = {}
        self._names: list[str] = []

    def begin(self, stage: str, total: int | None) -> None:
        """Forget the last evaluation."""
        self._found = {kind: [] for kind in KINDS}

    def collect(self, trainer: pl.Trainer, stage: str, output: CategoricalOutput, indices: list[int]) -> None:
        """Keep the first samples of each kind."""
        if output.targets.dim() != 1:
            return
        self._names = class_names(trainer, output.num_classes)
        for kind, found in candidates(output, indices, self.samples).items():
            self._found[kind] = first(self.samples, [*self._found[kind], *found])

    def finish(self, trainer: pl.Trainer, stage: str) -> None:
        """Put together what all processes have found."""
        shares = gathered(trainer, self._found)
        found = {kind: first(self.samples, (sample for share in shares for sample in share[kind])) for kind in KINDS}
        if trainer.is_global_zero and any(found.values()):
            self._waiting[stage] = found

    def show(self, trainer: pl.Trainer, stage: str) -> None:
        """Write the gallery, and log its pictures and a table to W&B."""
        found = self._waiting.pop(stage, None)
        if found is None:
            return
        entries, pictures = [], []
        for kind in KINDS:
            for number, sample in enumerate(found[kind]):
                entry, picture = self._entry(trainer, stage, kind, number, sample)
                entries.append(entry)
                pictures.append(picture)
        self.folder.update_json(GALLERY, **{stage: entries})
        absent = [(kind, number) for kind in KINDS for number in range(len(found[kind]), self.samples)]
        remove_pictures(self.folder, [f"{IMAGES}/gallery_{stage}_{kind}_{number}.png" for kind, number in absent])
        _log(trainer, stage, entries, pictures)

    def _entry(
        self, trainer: pl.Trainer, stage: str, kind: str, number: int, sample: Sample
    ) -> tuple[dict[str, Any], Pixels | None]:
        picture, file = picture_of(trainer, stage, sample.index), None
        if picture is not None:
            from concrete_dropout.plots.pictures import fitted  # plotly takes half a second to import

            picture = cast(Pixels, fitted(picture, self.max_size))
            file = save_picture(self.folder, f"gallery_{stage}_{kind}_{number}", picture)
        entry = {
            "kind": kind,
            "index": sample.index,
            "name": name_of(trainer, stage, sample.index),
            "target": self._names[sample.target],
            "predicted": self._names[sample.predicted],
            "confidence": sample.confidence,
            "predictive_entropy": sample.predictive_entropy,
            "mutual_information": sample.mutual_information,
            "file": file,
        }
        return entry, picture


def candidates(output: CategoricalOutput, indices: list[int], count: int) -> dict[str, list[Sample]]:
    """The first samples of each kind in a batch; those without a true class are left out."""
    prediction, targets = output.prediction, output.targets
    confidence, predicted = prediction.probabilities.max(dim=1)
    entropy = prediction.predictive_entropy
    scores = {"uncertain": entropy, "wrong": confidence.masked_fill(predicted == targets, -torch.inf)}
    columns = (targets, predicted, confidence, entropy, prediction.mutual_information)
    return {
        kind: _chosen(score.masked_fill(output.void, -torch.inf), indices, columns, count)
        for kind, score in scores.items()
    }


def first(count: int, samples: Iterable[Sample]) -> list[Sample]:
    """The ``count`` samples of the highest scores, each index once; of equals the one that comes first in the data."""
    once = {sample.index: sample for sample in samples}
    return heapq.nsmallest(count, once.values(), key=lambda sample: (-sample.score, sample.index))


def caption(entry: dict[str, Any]) -> str:
    """A sample in one line."""
    verdict = "right" if entry["target"] == entry["predicted"] else "wrong"
    return (
        f"{entry['name']}: {entry['target']}, predicted {entry['predicted']} ({verdict}, {entry['confidence']:.1%}), "
        f"entropy {entry['predictive_entropy']:.3f}, mutual information {entry['mutual_information']:.3f}"
    )


def _log(trainer: pl.Trainer, stage: str, entries: list[dict[str, Any]], pictures: list[Pixels | None]) -> None:
    step = trainer.global_step
    for kind in KINDS:
        shown = {
            caption(entry): picture
            for entry, picture in zip(entries, pictures, strict=True)
            if entry["kind"] == kind and picture is not None
        }
        log_pictures(trainer, f"gallery/{stage}_{kind}", shown, step)
    columns = [name for name in entries[0] if name != "file"]
    for logger in wandb_loggers(trainer):
        log_made(logger, f"tables/gallery_{stage}", partial(_table, columns, entries, pictures), step)


def _table(columns: list[str], entries: list[dict[str, Any]], pictures: list[Pixels | None]) -> Any:
    """The samples as a table of W&B."""
    import wandb

    rows = [
        [*(entry[name] for name in columns), None if picture is None else wandb.Image(Image.fromarray(picture))]
        for entry, picture in zip(entries, pictures, strict=True)
    ]
    return wandb.Table(columns=[*columns, "image"], data=rows)


def _chosen(score: Tensor, indices: list[int], columns: tuple[Tensor, ...], count: int) -> list[Sample]:
    values, rows = score.topk(min(count, len(score)))
    kept = rows[values > -torch.inf]
    table = zip(kept.tolist(), score[kept].tolist(), *(column[kept].tolist() for column in columns), strict=True)
    return [Sample(value, indices[row], *rest) for row, value, *rest in table]
