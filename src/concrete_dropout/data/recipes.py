"""How files become inputs of a network, kept in its checkpoints: a network can be used where its data are not.

A recipe is plain containers on disk, so that it loads with ``weights_only``. The scales of tables are tensors of the
task's state dict, and not repeated here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from concrete_dropout.data.classification import ClassificationData, ClassificationSpec
from concrete_dropout.data.crops import Standardise
from concrete_dropout.data.csv_file import CSVData
from concrete_dropout.data.encoding import CategoryColumn, Encoder, Missing, NumericColumn
from concrete_dropout.data.label_files import Colour, read_image, shrink
from concrete_dropout.data.labelled_images import Bytes, planes_of
from concrete_dropout.data.picture_file import Channels, read_picture
from concrete_dropout.data.pixels import PixelScale
from concrete_dropout.data.regression import RegressionData, RegressionSpec
from concrete_dropout.data.segmentation import SegmentationData, SegmentationSpec
from concrete_dropout.errors import UserError
from concrete_dropout.scaling import Affine

KIND = "kind"
UNSCALED = PixelScale((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


@dataclass(frozen=True)
class TableRecipe:
    """Rows of a table.

    Attributes:
        num_train: N of the objective.
        encoder: feature columns to numbers, with the categories and means of the training part.
        targets: names of the target columns.
        missing: what training did about missing values.
    """

    kind: ClassVar[str] = "regression"
    num_train: int
    encoder: Encoder
    targets: tuple[str, ...]
    missing: Missing

    @property
    def spec(self) -> RegressionSpec:
        """Sizes and names; the scales are placeholders, which a state dict fills."""
        inputs, outputs = len(self.encoder.outputs), len(self.targets)
        return RegressionSpec(
            self.num_train,
            inputs,
            outputs,
            self.encoder.outputs,
            self.targets,
            Affine.identity(inputs),
            Affine.identity(outputs),
        )

    @property
    def example_input(self) -> Tensor:
        """(1, D)."""
        return torch.zeros(1, len(self.encoder.outputs))

    def plain(self) -> dict[str, Any]:
        """As plain containers."""
        columns = [
            {"name": column.name, "mean": column.mean}
            if isinstance(column, NumericColumn)
            else {"name": column.name, "categories": list(column.categories)}
            for column in self.encoder.columns
        ]
        return {
            KIND: self.kind,
            "num_train": self.num_train,
            "columns": columns,
            "targets": list(self.targets),
            "missing": self.missing,
        }

    @classmethod
    def read(cls, saved: Mapping[str, Any]) -> TableRecipe:
        """What ``plain`` gave."""
        columns = tuple(
            CategoryColumn(entry["name"], tuple(entry["categories"]))
            if "categories" in entry
            else NumericColumn(entry["name"], entry["mean"])
            for entry in saved["columns"]
        )
        return cls(saved["num_train"], Encoder(columns), tuple(saved["targets"]), saved["missing"])


@dataclass(frozen=True)
class PictureRecipe:
    """Pictures of one size with one label each.

    Attributes:
        num_train: N of the objective.
        class_names: C.
        shape: (channels, H, W) that pictures are resized to.
        scale: of pixels.
    """

    kind: ClassVar[str] = "classification"
    num_train: int
    class_names: tuple[str, ...]
    shape: tuple[int, int, int]
    scale: PixelScale

    @property
    def spec(self) -> ClassificationSpec:
        """Sizes and names."""
        return ClassificationSpec(self.num_train, len(self.class_names), self.class_names, self.shape)

    @property
    def example_input(self) -> Tensor:
        """(1, channels, H, W)."""
        return torch.zeros(1, *self.shape)

    def read_file(self, path: Path) -> Bytes:
        """(channels, H, W) of a file."""
        channels, height, width = self.shape
        return read_picture(path, (height, width), cast(Channels, channels))

    def plain(self) -> dict[str, Any]:
        """As plain containers."""
        return {
            KIND: self.kind,
            "num_train": self.num_train,
            "class_names": list(self.class_names),
            "shape": list(self.shape),
            **_plain_scale(self.scale),
        }

    @classmethod
    def read(cls, saved: Mapping[str, Any]) -> PictureRecipe:
        """What ``plain`` gave."""
        channels, height, width = saved["shape"]
        return cls(saved["num_train"], tuple(saved["class_names"]), (channels, height, width), _read_scale(saved))


@dataclass(frozen=True)
class SceneRecipe:
    """Images of any size with a label for every pixel.

    Attributes:
        num_train: N of the objective.
        class_names: C.
        class_colours: C.
        resolution: fraction of an image's height and width that the network works at (``data.scale``).
        crop: (H, W) of a training input.
        image_size: (H, W) of evaluation.
        scale: of pixels.
    """

    kind: ClassVar[str] = "segmentation"
    num_train: int
    class_names: tuple[str, ...]
    class_colours: tuple[Colour, ...]
    resolution: float
    crop: tuple[int, int]
    image_size: tuple[int, int]
    scale: PixelScale

    @property
    def spec(self) -> SegmentationSpec:
        """Sizes and names."""
        names, colours = self.class_names, self.class_colours
        return SegmentationSpec(self.num_train, 1, len(names), names, colours, self.image_size)

    @property
    def example_input(self) -> Tensor:
        """(1, 3, H, W)."""
        return torch.zeros(1, 3, *self.crop)

    def read_file(self, path: Path) -> Bytes:
        """(H, W, 3) of a file, at its own size."""
        return read_image(path)

    def shrunk(self, image: Bytes, share: float = 1.0) -> Bytes:
        """(3, h, w): an image (H, W, 3) at the network's resolution, times ``share``."""
        empty = np.zeros(image.shape[:2], np.uint8)
        return shrink(planes_of(image, empty), self.resolution * share)[:3]

    def inputs(self, pixels: Bytes) -> Tensor:
        """(1, 3, h, w) in float32 from bytes (3, h, w), to the last digit as in training."""
        x = pixels.astype(np.float32) / np.float32(255)
        mean, std = (np.array(values, np.float32).reshape(3, 1, 1) for values in (self.scale.mean, self.scale.std))
        Standardise(mean, std)(x)
        return torch.from_numpy(x).unsqueeze(0)

    def plain(self) -> dict[str, Any]:
        """As plain containers."""
        return {
            KIND: self.kind,
            "num_train": self.num_train,
            "class_names": list(self.class_names),
            "class_colours": [list(colour) for colour in self.class_colours],
            "resolution": self.resolution,
            "crop": list(self.crop),
            "image_size": list(self.image_size),
            **_plain_scale(self.scale),
        }

    @classmethod
    def read(cls, saved: Mapping[str, Any]) -> SceneRecipe:
        """What ``plain`` gave."""
        (crop_height, crop_width), (height, width) = saved["crop"], saved["image_size"]
        return cls(
            saved["num_train"],
            tuple(saved["class_names"]),
            tuple((red, green, blue) for red, green, blue in saved["class_colours"]),
            saved["resolution"],
            (crop_height, crop_width),
            (height, width),
            _read_scale(saved),
        )


Recipe = TableRecipe | PictureRecipe | SceneRecipe
KINDS: dict[str, type[Recipe]] = {recipe.kind: recipe for recipe in (TableRecipe, PictureRecipe, SceneRecipe)}


def recipe_of(data: object) -> Recipe | None:
    """The recipe of a data module; None for data that are no files (transitions of an agent, replicas)."""
    if isinstance(data, RegressionData):
        spec = data.spec
        missing: Missing = "error"
        encoder = Encoder(tuple(map(NumericColumn, spec.feature_names, spec.inputs.mean.tolist())))
        if isinstance(data, CSVData):
            encoder, missing = data.encoder, data.missing
        return TableRecipe(spec.num_train, encoder, spec.target_names, missing)
    if isinstance(data, ClassificationData):
        pictures = data.spec
        return PictureRecipe(pictures.num_train, pictures.class_names, pictures.input_shape, data.scale)
    if isinstance(data, SegmentationData):
        scenes = data.spec
        height, width = data.example_input.shape[2:]
        standardise = data.standardise
        scale = UNSCALED
        if standardise is not None:
            scale = PixelScale(tuple(standardise.mean.ravel().tolist()), tuple(standardise.std.ravel().tolist()))
        return SceneRecipe(
            scenes.num_train,
            scenes.class_names,
            scenes.class_colours,
            data.scale,
            (height, width),
            scenes.image_size,
            scale,
        )
    return None


def read_recipe(saved: Any) -> Recipe:
    """A recipe from what a checkpoint holds.

    Raises:
        UserError: it is of a later version of this project, or damaged.
    """
    try:
        return KINDS[saved[KIND]].read(saved)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"the checkpoint describes its data in a way that this version does not know ({type(error).__name__}: "
            f"{error}). Use the version that wrote it"
        ) from error


def _plain_scale(scale: PixelScale) -> dict[str, list[float]]:
    return {"mean": list(scale.mean), "std": list(scale.std)}


def _read_scale(saved: Mapping[str, Any]) -> PixelScale:
    return PixelScale(tuple(saved["mean"]), tuple(saved["std"]))
