"""Classification: pictures to a row each, with class, probabilities and uncertainties."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from concrete_dropout.data.labelled_images import Bytes
from concrete_dropout.data.recipes import PictureRecipe
from concrete_dropout.errors import UserError
from concrete_dropout.prediction.outcome import Outcome
from concrete_dropout.prediction.picture_source import read_source
from concrete_dropout.prediction.settings import Settings
from concrete_dropout.prediction.sources import Source
from concrete_dropout.tasks import ClassificationTask

BLOCK, BLOCK_BYTES = 256, 1 << 28  # pictures that are decoded together


@dataclass(frozen=True)
class PicturePredictor:
    """Predicts pictures in blocks. The numbers of a picture depend on the seed and on its place in the list alone.

    Args:
        task: with its weights.
        recipe: from files to inputs.
        settings: of the prediction.
    """

    task: ClassificationTask
    recipe: PictureRecipe
    settings: Settings

    def blocks(self, sources: Sequence[Source]) -> list[list[Source]]:
        """As many pictures as fit into a bounded piece of memory; one where they are normalised with each other."""
        most = min(BLOCK, max(1, BLOCK_BYTES // (4 * math.prod(self.recipe.shape))))
        size = 1 if self.task.batch_norm == "batch" else most
        return [list(sources[start : start + size]) for start in range(0, len(sources), size)]

    def predict(
        self, block: Sequence[Source], waiting: Sequence[Source], number: int
    ) -> Iterator[tuple[Source, Outcome | UserError]]:
        """All pictures of the block are passed, so that those which are wanted get the masks of their place."""
        with ThreadPoolExecutor() as pool:  # Pillow decodes without holding Python's lock
            decoded = list(pool.map(self._decode, block))
        readable = [pixels for pixels in decoded if not isinstance(pixels, UserError)]
        if readable:
            blank = np.zeros(self.recipe.shape, np.uint8)  # keeps the place of one that cannot be read
            pixels = np.stack([blank if isinstance(entry, UserError) else entry for entry in decoded])
            x = self.recipe.scale(torch.from_numpy(pixels))
            prediction = self.task.predict(x, self.settings.samples, self.settings.seed + number)
            probabilities = prediction.probabilities.double().cpu()
            entropies = [
                values.double().cpu()
                for values in (
                    prediction.predictive_entropy,
                    prediction.mutual_information,
                    prediction.expected_entropy,
                )
            ]
        wanted = {source.name for source in waiting}
        for row, (source, entry) in enumerate(zip(block, decoded, strict=True)):
            if source.name not in wanted:
                continue
            if isinstance(entry, UserError):
                yield source, entry
            else:
                yield source, self._outcome(probabilities[row].tolist(), [float(values[row]) for values in entropies])

    def _decode(self, source: Source) -> Bytes | UserError:
        try:
            return read_source(source.path, self.recipe.read_file)
        except UserError as error:
            return error

    def _outcome(self, probabilities: list[float], entropies: list[float]) -> Outcome:
        best = max(range(len(probabilities)), key=probabilities.__getitem__)
        predictive, mutual, expected = entropies
        return Outcome({
            "class": self.recipe.class_names[best],
            "confidence": probabilities[best],
            "predictive_entropy": predictive,
            "mutual_information": mutual,
            "expected_entropy": expected,
            **{f"p_{name}": p for name, p in zip(self.recipe.class_names, probabilities, strict=True)},
        })  # fmt: skip
