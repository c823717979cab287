"""Segmentation data that come from files, which are decoded once and mapped from the cache ever after."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from functools import partial
from pathlib import Path
from typing import Any

from concrete_dropout.data.base import Part
from concrete_dropout.data.image_cache import Pairs, cached, default_place
from concrete_dropout.data.label_files import read_planes
from concrete_dropout.data.labelled_images import LabelledImages
from concrete_dropout.data.segmentation import SegmentationData


class FileSegmentationData(SegmentationData, ABC):
    """Images and masks in files.

    Args:
        data_dir: the folder of all data.
        cache_dir: where decoded images are kept; None for ``<data_dir>/cache`` where that can be written, and the
            user's folder of caches otherwise.
        **loading: of ``SegmentationData``.
    """

    def __init__(self, data_dir: str | Path, cache_dir: str | Path | None = None, **loading: Any) -> None:
        super().__init__(**loading)
        self.data_dir = Path(data_dir).expanduser()
        self.cache_dir = None if cache_dir is None else Path(cache_dir).expanduser()

    @property
    @abstractmethod
    def source(self) -> Path:
        """The folder that has the files."""

    def decoded(self, pairs: Pairs) -> dict[Part, LabelledImages]:
        """The images of these files at ``scale``, from the cache, which is built if need be."""
        labels, source = self.labels, self.source.resolve()
        settings = f"{self.scale!r} {sorted(labels.classes.items())} {sorted(labels.colour_classes.items())}"
        # Folders of the same name in different places must not remove each other's caches.
        place = f"{source.name}-{hashlib.sha256(str(source).encode()).hexdigest()[:8]}"
        home = self.cache_dir or default_place(self.data_dir)
        return cached(pairs, partial(read_planes, labels=labels, scale=self.scale), home / place, settings)
