"""What every segmentation data set has in common: images, crops and flips in training, whole images in evaluation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

import numpy as np
from torch import Tensor

from concrete_dropout.data.base import Part
from concrete_dropout.data.checks import choice, finite_number, whole_number
from concrete_dropout.data.crops import CropDraws, ImageBatches, Standardise
from concrete_dropout.data.label_files import Colour, Labels
from concrete_dropout.data.labelled_images import VOID, Bytes, LabelledImages, channel_statistics
from concrete_dropout.data.loaders import BatchedData, part_of
from concrete_dropout.errors import UserError

__all__ = ["VOID", "Normalise", "SegmentationData", "SegmentationSpec"]

Normalise = Literal["scale", "standardise"]
TRAIN_SIZE_STREAM = 1


@dataclass(frozen=True, eq=False)
class SegmentationSpec:
    """What a model and a task need to know about the data.

    Attributes:
        num_train: N of the objective: the pixels of all training images, whole and at ``data.scale``.
        num_images: training images.
        num_classes: C.
        class_names: C names.
        class_colours: C colours for figures.
        image_size: (H, W) of evaluation; the largest height and width where sizes differ.
    """

    num_train: int
    num_images: int
    num_classes: int
    class_names: tuple[str, ...]
    class_colours: tuple[Colour, ...]
    image_size: tuple[int, int]


@dataclass(frozen=True, eq=False)
class _Loaded:
    images: dict[Part, LabelledImages]
    spec: SegmentationSpec
    standardise: Standardise | None


class SegmentationData(BatchedData, ABC):
    """Batches x (B, 3, H, W) in float32, pixels / 255, and y (B, H, W) in int64, classes or VOID.

    A subclass says where the images come from. They are opened once, on the first use of anything that needs them.
    Training images that are smaller than the crop are put at a random place in it. Evaluation keeps the order and the
    full size; where the images of a batch differ in size, the smaller ones are at the top left. What an image does not
    fill is 0 in x and VOID in y.

    ``crop`` and ``batch_size`` may be changed at any time; the next training loader follows.

    Args:
        crop: side of the random squares of training; None for whole images.
        flips: mirror one half of the training images, left to right.
        batch_size: images of a training batch. Batches are always full, also where there are fewer images.
        eval_batch_size: images of a validation or test batch.
        num_workers: processes that make batches; 0 is fast enough for all but the smallest networks.
        scale: fraction of the images' height and width to work at: 0.5 is half resolution.
        normalise: "scale" for pixels / 255; "standardise" to also take the training images' mean and standard
            deviation out of every channel.
        train_size: use only this many of the training images, chosen by the seed; more extend fewer. None for all.
        min_steps_per_epoch: an epoch has max(ceil(images / batch_size), this) batches.
        seed: of everything random about the data; order, crops and flips follow torch's global generator.
    """

    def __init__(
        self,
        *,
        crop: int | None = 224,
        flips: bool = True,
        batch_size: int = 3,
        eval_batch_size: int = 1,
        num_workers: int = 0,
        scale: float = 1.0,
        normalise: Normalise = "scale",
        train_size: int | None = None,
        min_steps_per_epoch: int = 1,
        seed: int = 0,
    ) -> None:
        super().__init__(
            batch_size=batch_size,
            eval_batch_size=eval_batch_size,
            num_workers=num_workers,
            min_steps_per_epoch=min_steps_per_epoch,
            seed=seed,
        )
        self.crop = None if crop is None else whole_number("data.crop", crop, minimum=1)
        self.flips = bool(flips)
        self.scale = finite_number("data.scale", scale)
        if not 0 < self.scale <= 1:
            raise UserError(f"data.scale={scale!r} must be above 0 and at most 1 (0.5 for half resolution).")
        self.normalise = cast(Normalise, choice("data.normalise", normalise, get_args(Normalise)))
        self.train_size = None if train_size is None else whole_number("data.train_size", train_size, minimum=1)
        self._loaded: _Loaded | None = None

    @property
    @abstractmethod
    def labels(self) -> Labels:
        """The classes."""

    @abstractmethod
    def load(self) -> Mapping[Part, LabelledImages]:
        """Open or make the images at ``scale``; whatever the user can mend is a ``UserError``."""

    def prepare_data(self) -> None:
        """Lightning's hook, in one process only: downloads, and builds the cache."""
        self._state()

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that have images."""
        return tuple(self._state().images)

    @property
    def spec(self) -> SegmentationSpec:
        """Sizes and names."""
        return self._state().spec

    @property
    def standardise(self) -> Standardise | None:
        """What follows the division of pixels by 255; None for nothing."""
        return self._state().standardise

    @property
    def example_input(self) -> Tensor:
        """(1, 3, H, W): the top left crop of the first training image."""
        return self.items("train", training=True).__getitems__([0])[0]

    @property
    def num_items(self) -> int:
        """Training images."""
        return self.spec.num_images

    def items(self, part: Part, training: bool = False) -> ImageBatches:
        """The images of a part: crops in training, whole images otherwise."""
        return ImageBatches(self._images(part), self.crop if training else None, self._state().standardise)

    def sampler(self, length: int) -> CropDraws:
        """Images in shuffled order, with their crops and flips."""
        return CropDraws(self.num_items, length, self.flips, self.seed)

    def num_images(self, part: Part) -> int:
        """How many images a part has."""
        return len(self._images(part))

    def image(self, part: Part, index: int) -> Bytes:
        """(H, W, 3): an image at ``scale``, by its number in the order of evaluation."""
        return self._images(part).image(index)

    def mask(self, part: Part, index: int) -> Bytes:
        """(H, W): classes or VOID."""
        return self._images(part).mask(index)

    def name(self, part: Part, index: int) -> str:  # type: ignore[override]
        """What the image is called."""
        return self._images(part).names[index]

    def _images(self, part: Part) -> LabelledImages:
        return part_of(self._state().images, part)

    def _state(self) -> _Loaded:
        if self._loaded is None:
            images = {part: entries for part, entries in self.load().items() if len(entries)}
            if "train" not in images:
                raise UserError("The data have no training images.")
            images["train"] = _choose(images["train"], self.train_size, self.seed)
            _check_labelled(images["train"])
            self._loaded = _Loaded(images, _spec(images, self.labels), self._fit(images["train"]))
        return self._loaded

    def _fit(self, train: LabelledImages) -> Standardise | None:
        if self.normalise == "scale":
            return None
        mean, std = (values.astype(np.float32).reshape(3, 1, 1) for values in channel_statistics(train))
        return Standardise(mean, std)


def _check_labelled(images: LabelledImages) -> None:
    if not any((images.mask(index) != VOID).any() for index in range(len(images))):
        raise UserError(
            "All pixels of the training masks are void: there is nothing to learn from. Compare the labels in the "
            "masks with the class list, and with data.void where there is one."
        )


def _choose(images: LabelledImages, size: int | None, seed: int) -> LabelledImages:
    if size is None:
        return images
    if size > len(images):
        raise UserError(f"data.train_size={size}, but there are only {len(images)} training images.")
    order = np.random.default_rng((seed, TRAIN_SIZE_STREAM)).permutation(len(images))
    return images.take(np.sort(order[:size]))


def _spec(images: Mapping[Part, LabelledImages], labels: Labels) -> SegmentationSpec:
    evaluated = [entries.largest for part, entries in images.items() if part != "train"]
    heights, widths = zip(*(evaluated or [images["train"].largest]), strict=True)
    return SegmentationSpec(
        num_train=images["train"].num_pixels,
        num_images=len(images["train"]),
        num_classes=len(labels.names),
        class_names=labels.names,
        class_colours=labels.colours,
        image_size=(max(heights), max(widths)),
    )
