"""CamVid's road scenes: 367, 101 and 233 images of 360 x 480 pixels, 11 classes (section 4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from concrete_dropout.data.base import Part
from concrete_dropout.data.camvid_download import URL, fetch_camvid, is_camvid, ways_out
from concrete_dropout.data.camvid_sets import CAMVID_LABELS, camvid_pairs
from concrete_dropout.data.label_files import Labels
from concrete_dropout.data.labelled_images import LabelledImages
from concrete_dropout.data.segmentation_files import FileSegmentationData
from concrete_dropout.errors import UserError


class CamVidData(FileSegmentationData):
    """``<data_dir>/camvid`` has ``train.txt``, ``train`` and ``trainannot``, and the same for ``val`` and ``test``.

    A set that is not there is downloaded. One that is there is only read, so that the folder may be read-only.

    Args:
        data_dir: the folder of all data.
        download: fetch a missing set from the network.
        url: of the archive to fetch.
        **loading: of ``FileSegmentationData`` and ``SegmentationData``.
    """

    def __init__(self, data_dir: str | Path, download: bool = True, url: str = URL, **loading: Any) -> None:
        super().__init__(data_dir, **loading)
        self.download, self.url = download, url

    @property
    def source(self) -> Path:
        """``<data_dir>/camvid``."""
        return self.data_dir / "camvid"

    @property
    def labels(self) -> Labels:
        """Eleven classes; label 11 does not count."""
        return CAMVID_LABELS

    def load(self) -> Mapping[Part, LabelledImages]:
        """What the lists name, downloaded if need be."""
        if not self.source.is_dir() or not any(self.source.iterdir()):
            if not self.download:
                raise UserError(
                    f"CamVid is not in {self.source} (paths.data_dir, environment variable DATA_DIR), and "
                    f"data.download=false. {ways_out(self.source)}"
                )
            fetch_camvid(self.source, self.url)
        elif not is_camvid(self.source):
            raise UserError(
                f"{self.source} lacks some of the lists train.txt, val.txt and test.txt. {ways_out(self.source)}"
            )
        return self.decoded(camvid_pairs(self.source))
