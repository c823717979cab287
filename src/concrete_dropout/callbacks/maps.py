"""Maps of a segmentation: prediction, errors and uncertainty of chosen images, through training."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
from PIL import Image

from concrete_dropout.callbacks.evaluation import EvaluationMonitor, gathered
from concrete_dropout.callbacks.loggers import wandb_loggers
from concrete_dropout.callbacks.map_record import Classes, MapRecord, thinned
from concrete_dropout.callbacks.pictures import name_of, picture_of
from concrete_dropout.callbacks.scene import Scene, scene_of
from concrete_dropout.callbacks.stages import CategoricalOutput, class_colours, class_names

WANDB_GROWTH = 1.5  # during training W&B gets pictures whenever the step has grown by this factor
# Pictures and captions in W&B, beside the input, which has classes as masks.
UNMASKED = {
    "epistemic": "epistemic: mutual information",
    "aleatoric": "aleatoric: expected entropy",
    "error": "error",
}

log = logging.getLogger(__name__)


class MapsMonitor(EvaluationMonitor):
    """Leaves ``maps.json`` and pictures of chosen images for segmentation, after every validation and test.

    Every image has its input, ground truth, prediction, epistemic uncertainty (mutual information), aleatoric
    uncertainty (expected entropy) and errors. All come from what the evaluation computed anyway. Of the validations
    of a fit a few stay on disk, at growing distances, always the first and the last. The scales of uncertainties depend
    on the number of classes alone, so that pictures can be compared: aleatoric from 0 to log C nats, epistemic to a
    quarter of that, colours by the root (``plots.pictures.scale_position``).

    Args:
        folder: the run folder.
        images: how many, evenly spaced over the part, or a list of their numbers in the order of the part.
        max_size: pixels of a picture's longer side; larger ones are made smaller.
        steps: validations of a fit that are kept.
    """

    def __init__(
        self, folder: str | Path, images: int | Sequence[int] = 4, max_size: int = 320, steps: int = 6
    ) -> None:
        if any(number < 0 for number in ([images] if isinstance(images, int) else images)):
            raise ValueError(f"callbacks.maps.images={images} must not be negative")
        if max_size < 1 or steps < 2:
            raise ValueError(f"callbacks.maps: max_size={max_size} must be at least 1, and steps={steps} at least 2")
        super().__init__(folder)
        self.images, self.max_size, self.steps = images, max_size, steps
        self.record = MapRecord(self.folder)
        self._wanted: set[int] = set()
        self._scenes: dict[int, Scene] = {}
        self._waiting: dict[str, list[Scene]] = {}
        self._logged_step: int | None = None  # the last that W&B got
        self._due = False  # whether W&B gets the next

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Forget what comes after the checkpoint of a resumed run, and everything where a run starts anew."""
        self._logged_step, self._due = None, False
        if trainer.is_global_zero:
            now = trainer.global_step
            self.record.keep("val", [step for step in self.record.steps("val") if now and step <= now])

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Log the last validation, now and then; why not when it ends, see ``callbacks.loggers``."""
        if self._due:
            self._logged_step, self._due = trainer.global_step, False
            self.show(trainer, "val")

    def begin(self, stage: str, total: int | None) -> None:
        """Choose the images."""
        self._scenes = {}
        self._wanted = set(chosen(self.images, total))
        if not isinstance(self.images, int) and total is not None and (beyond := set(self.images) - self._wanted):
            message = "callbacks.maps.images: the last image of the %s part is %d, there is no %s"
            log.warning(message, stage, total - 1, ", ".join(map(str, sorted(beyond))))

    def collect(self, trainer: pl.Trainer, stage: str, output: CategoricalOutput, indices: list[int]) -> None:
        """Keep the chosen images."""
        if output.targets.dim() != 3:
            return
        for row, index in enumerate(indices):
            if index in self._wanted and index not in self._scenes:
                picture = picture_of(trainer, stage, index)
                self._scenes[index] = scene_of(output, row, index, picture, self.max_size)

    def finish(self, trainer: pl.Trainer, stage: str) -> None:
        """Write the pictures."""
        found = {index: scene for share in gathered(trainer, self._scenes) for index, scene in share.items()}
        scenes = [found[index] for index in sorted(found)]
        self._scenes = {}
        if not trainer.is_global_zero or not scenes:
            return
        if stage == "test":
            self.record.keep(stage, [])
        step, classes = trainer.global_step, _classes(trainer, scenes[0])
        self.record.add(stage, step, trainer.current_epoch, scenes, classes, partial(name_of, trainer, stage))
        self.record.keep(stage, thinned(self.record.steps(stage), self.steps))
        self._waiting[stage] = scenes
        self._due = stage == "val" and (self._logged_step is None or step >= WANDB_GROWTH * self._logged_step)

    def show(self, trainer: pl.Trainer, stage: str) -> None:
        """Log pictures to W&B, the input with masks of the prediction and of the ground truth."""
        for scene in self._waiting.pop(stage, []):
            for logger in wandb_loggers(trainer):
                classes = _classes(trainer, scene)
                pictures = scene.pictures(classes.colours)
                shown = [pictures.get("input", pictures["target"]), *(pictures[kind] for kind in UNMASKED)]
                logger.log_image(
                    f"maps/{stage}_{scene.index}",
                    [Image.fromarray(pixels) for pixels in shown],
                    step=trainer.global_step,
                    caption=["input, with masks", *UNMASKED.values()],
                    masks=[_masks(scene, classes.names), *([None] * len(UNMASKED))],
                )


def chosen(images: int | Sequence[int], total: int | None) -> list[int]:
    """Numbers of the images to show.

    >>> chosen(4, 100), chosen(4, 2), chosen(2, None), chosen([7, 3, 99], 10)
    ([12, 37, 62, 87], [0, 1], [0, 1], [3, 7])
    """
    if not isinstance(images, int):
        return sorted({index for index in images if total is None or index < total})
    if total is None:
        return list(range(images))
    count = min(images, total)
    return [(2 * i + 1) * total // (2 * count) for i in range(count)]


def _classes(trainer: pl.Trainer, scene: Scene) -> Classes:
    return Classes(class_names(trainer, scene.num_classes), class_colours(trainer, scene.num_classes))


def _masks(scene: Scene, names: list[str]) -> dict[str, Any]:
    """Classes over the input, as W&B wants them; void is a class of its own."""
    labels = {**dict(enumerate(names)), len(names): "void"}
    targets = np.where(scene.void, len(names), scene.targets)
    return {
        "prediction": {"mask_data": scene.predicted, "class_labels": labels},
        "ground truth": {"mask_data": targets, "class_labels": labels},
    }
