"""Generated road scenes with CamVid's classes: the whole path of segmentation, without any files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from concrete_dropout.data.base import Part
from concrete_dropout.data.camvid_sets import CAMVID_LABELS
from concrete_dropout.data.checks import whole_number
from concrete_dropout.data.label_files import Labels, shrink
from concrete_dropout.data.labelled_images import Bytes, LabelledImages
from concrete_dropout.data.scene_street import paint_scene
from concrete_dropout.data.segmentation import SegmentationData

# Each part has generators of its own, so that the size of one never changes the scenes of another.
STREAMS: dict[Part, int] = {"train": 0, "val": 1, "test": 2}
SMALLEST = 16


class ScenesData(SegmentationData):
    """Streets with houses, trees, cars and people, painted from the seed.

    Every scene has a generator of its own: more scenes extend fewer.

    Args:
        num_train: training images.
        num_val: validation images; 0 for none.
        num_test: test images; 0 for none.
        height: of an image in pixels, before ``scale``.
        width: of an image in pixels, before ``scale``.
        **loading: of ``SegmentationData``.

    >>> data = ScenesData(num_train=3, num_val=1, num_test=0, height=40, width=60, crop=32, batch_size=2)
    >>> data.spec.num_train, data.parts, [tuple(x.shape) for x, y in data.train_dataloader()]
    (7200, ('train', 'val'), [(2, 3, 32, 32), (2, 3, 32, 32)])
    """

    def __init__(
        self,
        num_train: int = 200,
        num_val: int = 50,
        num_test: int = 50,
        height: int = 120,
        width: int = 160,
        **loading: Any,
    ) -> None:
        super().__init__(**loading)
        self.counts: dict[Part, int] = {
            "train": whole_number("data.num_train", num_train, minimum=1),
            "val": whole_number("data.num_val", num_val, minimum=0),
            "test": whole_number("data.num_test", num_test, minimum=0),
        }
        self.height = whole_number("data.height", height, minimum=SMALLEST)
        self.width = whole_number("data.width", width, minimum=SMALLEST)

    @property
    def labels(self) -> Labels:
        """CamVid's eleven classes."""
        return CAMVID_LABELS

    def load(self) -> Mapping[Part, LabelledImages]:
        """Paint all scenes."""
        return {
            part: LabelledImages.stack(
                [self._paint(part, number) for number in range(count)], [f"{part} {number}" for number in range(count)]
            )
            for part, count in self.counts.items()
        }

    def _paint(self, part: Part, number: int) -> Bytes:
        random = np.random.default_rng((self.seed, STREAMS[part], number))
        return shrink(paint_scene(random, self.height, self.width), self.scale)
