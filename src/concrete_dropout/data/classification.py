"""What every data set of labelled pictures has in common: parts, classes, standardised batches."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import cast, get_args

import numpy as np
from torch import Tensor

from concrete_dropout.data.base import Part
from concrete_dropout.data.checks import choice, whole_number
from concrete_dropout.data.loaders import BatchedData, part_of
from concrete_dropout.data.pictures import Image, LabelledPictures, PictureRows, PictureSet
from concrete_dropout.data.pixels import Augment, PixelScale, fit_pixel_scale
from concrete_dropout.errors import UserError

# The training subset has a generator of its own: the split is not drawn anew for another size.
SUBSET_STREAM = 1

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class ClassificationSpec:
    """What a model and a task need to know about the data.

    Attributes:
        num_train: N of the objective: pictures of the whole training part.
        num_classes: of the labels 0, 1, ...
        class_names: one per class.
        input_shape: (C, H, W) of a picture.
    """

    num_train: int
    num_classes: int
    class_names: tuple[str, ...]
    input_shape: tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class _Loaded:
    pictures: PictureSet
    scale: PixelScale


class ClassificationData(BatchedData, ABC):
    """Batches (x, y): float32 pictures (B, C, H, W) and int64 labels (B,).

    Pixels are divided by 255, then standardised with one mean and one standard deviation per channel, those of the
    training part. A subclass says where the pictures come from; it is asked once, on the first use of anything that
    needs them.

    Args:
        batch_size: pictures of a training batch. Batches are always full, also where N is smaller.
        eval_batch_size: pictures of a validation or test batch.
        num_workers: processes that make batches; 0 is fastest for pictures in memory.
        min_steps_per_epoch: an epoch has max(ceil(N / batch_size), this) batches.
        train_size: train on so many pictures of the training part, chosen by the seed; null for all. Smaller sets are
            subsets of larger ones.
        augment: of training pictures: "flip" mirrors every other one, "shift" moves each by up to an eighth of its
            size, "flip_shift" does both.
        seed: of everything random about the data; the order of training batches follows torch's global generator.
    """

    def __init__(
        self,
        *,
        batch_size: int = 64,
        eval_batch_size: int = 1000,
        num_workers: int = 0,
        min_steps_per_epoch: int = 1,
        train_size: int | None = None,
        augment: Augment = "none",
        seed: int = 0,
    ) -> None:
        super().__init__(
            batch_size=batch_size,
            eval_batch_size=eval_batch_size,
            num_workers=num_workers,
            min_steps_per_epoch=min_steps_per_epoch,
            seed=seed,
        )
        self.train_size = None if train_size is None else whole_number("data.train_size", train_size, minimum=1)
        self.augment = cast(Augment, choice("data.augment", augment, get_args(Augment)))
        self._loaded: _Loaded | None = None

    @abstractmethod
    def load(self) -> PictureSet:
        """Read the pictures; whatever the user can mend is a ``UserError``."""

    @property
    def pictures(self) -> PictureSet:
        """The pictures as bytes, the training part cut to ``train_size``."""
        return self._state().pictures

    @property
    def scale(self) -> PixelScale:
        """From bytes to what the network gets."""
        return self._state().scale

    @property
    def spec(self) -> ClassificationSpec:
        """Sizes and names."""
        pictures = self.pictures
        names, train = pictures.class_names, pictures.train
        return ClassificationSpec(len(train), len(names), names, train.pictures.shape)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that have pictures."""
        return tuple(self.pictures.parts())

    @property
    def example_input(self) -> Tensor:
        """(1, C, H, W): the first training picture, standardised."""
        return self.items("train")[0][0].unsqueeze(0)

    @property
    def num_items(self) -> int:
        """Training pictures."""
        return len(self.pictures.train)

    def items(self, part: Part, training: bool = False) -> PictureRows:
        """The pictures of a part as the network gets them."""
        return PictureRows(self._part(part), self.scale, self.augment if training else "none")

    def image(self, part: Part, index: int) -> Image:
        """Picture number ``index`` of a part in the order of evaluation: uint8 (H, W) or (H, W, 3)."""
        return self._part(part).image(index)

    def label_name(self, part: Part, index: int) -> str:
        """What to call this picture: its file, or the likes of "test 123"."""
        names = self._part(part).names
        return f"{part} {index}" if names is None else names[index]

    def _part(self, part: Part) -> LabelledPictures:
        return part_of(self.pictures.parts(), part)

    def _state(self) -> _Loaded:
        if self._loaded is None:
            pictures = self.load()
            if self.train_size is not None:
                pictures = replace(pictures, train=subset(pictures.train, self.train_size, self.seed))
            _warn_of_absent_classes(pictures)
            self._loaded = _Loaded(pictures, pictures.scale or fit_pixel_scale(pictures.train.chunks()))
        return self._loaded


def subset(train: LabelledPictures, size: int, seed: int) -> LabelledPictures:
    """A random part of the training pictures, in their order; a smaller one is part of a larger one."""
    if size > len(train):
        raise UserError(
            f"data.train_size={size} is more than the {len(train)} pictures of the training part. "
            "Lower it; null takes all."
        )
    order = np.random.default_rng((seed, SUBSET_STREAM)).permutation(len(train))
    return train.some(np.sort(order[:size]))


def _warn_of_absent_classes(pictures: PictureSet) -> None:
    present = set(pictures.train.labels.unique().tolist())
    absent = [name for label, name in enumerate(pictures.class_names) if label not in present]
    if absent:
        log.warning("No training picture shows %s; the network cannot learn what never comes.", ", ".join(absent))
