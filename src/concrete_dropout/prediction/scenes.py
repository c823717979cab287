"""Segmentation: an image of any size to its classes and maps of uncertainty."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from concrete_dropout.data.labelled_images import Bytes
from concrete_dropout.data.recipes import SceneRecipe
from concrete_dropout.dropout.sampling import active_dropouts
from concrete_dropout.errors import UserError
from concrete_dropout.memory import GB, is_out_of_memory
from concrete_dropout.plots.pictures import uncertainty_scales
from concrete_dropout.prediction.maps import class_file, class_overlay, most_probable, npy, resized, uncertainty_overlay
from concrete_dropout.prediction.memory import free_bytes, peak_bytes
from concrete_dropout.prediction.outcome import OneByOne, Outcome
from concrete_dropout.prediction.picture_source import read_source
from concrete_dropout.prediction.settings import Settings
from concrete_dropout.prediction.sources import Source
from concrete_dropout.runfolder import RunFolder
from concrete_dropout.tasks import SegmentationTask


@dataclass(frozen=True)
class ScenePredictor(OneByOne):
    """Writes files that begin with the image's name and have its size.

    ``_classes.png`` has class numbers as values and their colours as palette, ``_overlay.png`` shows them over the
    image; ``_epistemic`` (mutual information) and ``_aleatoric`` (expected entropy) are a PNG over the image and an
    array of nats. Without stochastic passes there is no epistemic part.

    Args:
        task: with its weights.
        recipe: from files to inputs.
        settings: of the prediction.
        output: folder of results.
        names: name of a file -> of its results.
        memory: bytes that a pass may take; None for most of what is free.
    """

    task: SegmentationTask
    recipe: SceneRecipe
    settings: Settings
    output: RunFolder
    names: dict[str, str]
    memory: int | None = None

    def one(self, source: Source) -> Outcome:
        """Masks follow from the seed and the image's name."""
        image = read_source(source.path, self.recipe.read_file)
        pixels = self.recipe.shrunk(image, self._share(image))
        self._check_memory(source, image, pixels)
        seed = (self.settings.seed << 32 | zlib.crc32(source.name.encode())) % (1 << 62)
        x = self.recipe.inputs(pixels)
        try:
            found = self.task.predict(x, self.settings.samples, seed)
        except (RuntimeError, MemoryError, ValueError) as error:
            raise self._refusal(source, pixels, error) from error
        classes = most_probable(found.probabilities[0].float().cpu().numpy(), _size(image))
        maps = {"aleatoric": found.aleatoric[0].float().cpu().numpy()}
        if self._is_stochastic:
            maps["epistemic"] = found.epistemic[0].float().cpu().numpy()
        return self._written(source, image, classes, maps)

    def _written(
        self, source: Source, image: Bytes, classes: Bytes, maps: dict[str, npt.NDArray[np.float32]]
    ) -> Outcome:
        size = _size(image)
        colours, scales = self.recipe.class_colours, uncertainty_scales(len(self.recipe.class_names))
        content = {"classes.png": class_file(classes, colours), "overlay.png": class_overlay(image, classes, colours)}
        for kind, values in maps.items():
            values = resized(values, size)
            content[f"{kind}.png"] = uncertainty_overlay(image, values, scales[kind])
            if self.settings.raw:
                content[f"{kind}.npy"] = npy(values)
        files = {f"{self.names[source.name]}_{ending}": data for ending, data in content.items()}
        for name, data in files.items():
            self.output.write_bytes(name, data)
        shares = np.bincount(classes.ravel(), minlength=len(self.recipe.class_names)) / classes.size
        values_of = {
            "width": size[1],
            "height": size[0],
            **{f"mean_{kind}": float(values.mean()) for kind, values in maps.items()},
            **{f"share_{name}": float(share) for name, share in zip(self.recipe.class_names, shares, strict=True)},
        }
        return Outcome(values_of, tuple(files))

    def _share(self, image: Bytes) -> float:
        """What the network's resolution is multiplied by, so that it sees no more than ``max_size``."""
        longest = self.recipe.resolution * max(image.shape[:2])
        limit = self.settings.max_size
        return 1.0 if limit is None or longest <= limit else limit / longest

    @cached_property
    def _is_stochastic(self) -> bool:
        return self.settings.samples > 0 and bool(active_dropouts(self.task.network))

    @cached_property
    def _bytes_per_pixel(self) -> float:
        """Of a prediction, measured on a training input."""
        x = self.recipe.example_input
        return peak_bytes(lambda: self.task.predict(x, min(2, self.settings.samples))) / math.prod(x.shape[2:])

    def _check_memory(self, source: Source, image: Bytes, pixels: Bytes) -> None:
        number = math.prod(pixels.shape[1:])
        if number <= math.prod(self.recipe.image_size):
            return
        need = self._bytes_per_pixel * number
        there = free_bytes(self.task.device) if self.memory is None else self.memory
        if need > there:
            side = int(max(pixels.shape[1:]) * math.sqrt(there / need) * 0.95)
            raise UserError(
                f"{source.path} has {image.shape[1]} x {image.shape[0]} pixels, for which this network takes about "
                f"{need / GB:.1f} GB of memory; {there / GB:.1f} may be used. Set max_size={side} to have it predicted "
                f"at a lower resolution, or memory={math.ceil(need / GB)} (GB)."
            )

    def _refusal(self, source: Source, pixels: Bytes, error: BaseException) -> UserError:
        height, width = pixels.shape[1:]
        if is_out_of_memory(error):
            way_out = f"Set max_size={max(height, width) * 2 // 3}, which has it predicted at a lower resolution."
            return UserError(f"{source.path}: there is not enough memory for {width} x {height} pixels. {way_out}")
        reason = " ".join(str(error).split())[:200]
        return UserError(
            f"{source.path}: the network cannot take {width} x {height} pixels ({reason}). It was trained on "
            f"{self.recipe.crop[1]} x {self.recipe.crop[0]}; give it an image of at least that size."
        )


def _size(image: Bytes) -> tuple[int, int]:
    """(H, W) of an image (H, W, 3)."""
    height, width, _ = image.shape
    return height, width
