"""The user's own images and masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from concrete_dropout.data.base import Part
from concrete_dropout.data.checks import fraction
from concrete_dropout.data.class_list import class_labels, entries_of, read_class_list
from concrete_dropout.data.label_files import Labels, Pair
from concrete_dropout.data.labelled_images import LabelledImages
from concrete_dropout.data.picture_file import SUFFIXES
from concrete_dropout.data.segmentation_files import FileSegmentationData
from concrete_dropout.data.splits import carve
from concrete_dropout.errors import UserError

CLASS_FILES = ("classes.csv", "classes.txt")


class SegFolderData(FileSegmentationData):
    """Images in ``<root>/<part>/images``, and masks of the same names in ``<root>/<part>/masks``.

    The other way round, ``<root>/images/<part>``, will do as well. Validation and test parts that have no folders are
    carved out of the training images at random. Where no part has folders, ``<root>/images`` and ``<root>/masks`` are
    the training part.

    Masks are 8-bit (or 16-bit) images of label values, or RGB images where the class list has colours. Values of masks
    with a palette are those of the palette if it is all greys, and the entries' numbers otherwise.

    Args:
        root: the folder.
        data_dir: the folder of all data, where the cache is by default.
        classes: names of the classes with labels 0, 1, 2 ...; or the path of a file (see ``read_class_list``). None for
            ``classes.csv`` or ``classes.txt`` in the root.
        void: label values that do not count, and names of the class list that are no classes.
        image_dir: name of the folders with images.
        mask_dir: name of the folders with masks.
        mask_suffix: what the names of masks have more than those of their images, before the ending.
        train_dir: name of the training part.
        val_dir: name of the validation part.
        test_dir: name of the test part.
        val_fraction: share of the training images to validate with, where there is no folder for it; 0 for none.
        test_fraction: the same for the test.
        **loading: of ``FileSegmentationData`` and ``SegmentationData``; its seed chooses the carved images.
    """

    def __init__(
        self,
        root: str | Path,
        data_dir: str | Path,
        classes: Sequence[str] | str | None = None,
        void: Sequence[int | str] = (255,),
        image_dir: str = "images",
        mask_dir: str = "masks",
        mask_suffix: str = "",
        train_dir: str = "train",
        val_dir: str = "val",
        test_dir: str = "test",
        val_fraction: float = 0.1,
        test_fraction: float = 0.1,
        **loading: Any,
    ) -> None:
        super().__init__(data_dir, **loading)
        self.root = Path(root).expanduser()
        self.classes, self.void = classes, tuple(void)
        self.image_dir, self.mask_dir, self.mask_suffix = image_dir, mask_dir, mask_suffix
        self.part_dirs: dict[Part, str] = {"train": train_dir, "val": val_dir, "test": test_dir}
        self.fractions: dict[Part, float] = {
            "val": fraction("data.val_fraction", val_fraction),
            "test": fraction("data.test_fraction", test_fraction),
        }
        self._labels: Labels | None = None

    @property
    def source(self) -> Path:
        """``root``."""
        return self.root

    @property
    def labels(self) -> Labels:
        """The classes of the list."""
        if self._labels is None:
            self._labels = self._read_labels()
        return self._labels

    def load(self) -> Mapping[Part, LabelledImages]:
        """Match, decode and split."""
        if not self.root.is_dir():
            raise UserError(f"data.root={self.root} is no folder.")
        folders = self._folders()
        # Split after decoding, so that all seeds share one cache.
        images = self.decoded({part: match(*pair, self.mask_suffix) for part, pair in folders.items()})
        missing = {f"data.{part}_fraction": share for part, share in self.fractions.items() if part not in folders}
        if not missing:
            return images
        *carved, rest = carve(
            len(images["train"]), missing, (self.seed,), f"The training part of {self.root}", unit="images"
        )
        train = images["train"]
        for part, rows in zip((part for part in self.fractions if part not in folders), carved, strict=True):
            images[part] = train.take(rows)
        images["train"] = train.take(rest)
        return {part: images[part] for part in self.part_dirs}

    def _folders(self) -> dict[Part, tuple[Path, Path]]:
        """The folders with images and masks of every part that has them."""
        root, found = self.root, {}
        for part, name in self.part_dirs.items():
            inside = (root / name / self.image_dir, root / name / self.mask_dir)
            outside = (root / self.image_dir / name, root / self.mask_dir / name)
            for pair in (inside, outside):
                if pair[0].is_dir() or pair[1].is_dir():
                    found[part] = pair
                    break
        whole = (root / self.image_dir, root / self.mask_dir)
        if not found and whole[0].is_dir():
            found["train"] = whole
        if "train" not in found:
            train = self.part_dirs["train"]
            raise UserError(
                f"data.root={root} should have the folders {train}/{self.image_dir} and {train}/{self.mask_dir}, or "
                f"{self.image_dir} and {self.mask_dir}. If yours have other names, set data.train_dir, data.image_dir "
                "and data.mask_dir."
            )
        return found

    def _read_labels(self) -> Labels:
        if self.classes is not None and not isinstance(self.classes, str):
            return class_labels(entries_of(self.classes), self.void, "data.classes")
        paths = (
            [self.root / name for name in CLASS_FILES] if self.classes is None else [Path(self.classes).expanduser()]
        )
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            raise UserError(
                f"There is no class list {' or '.join(map(str, paths))}. Name the classes in the order of their "
                "labels, as in data.classes=[road,car,sky], or set data.classes to a file."
            )
        return class_labels(read_class_list(path), self.void, str(path))


def match(images: Path, masks: Path, mask_suffix: str = "") -> list[Pair]:
    """Images and masks of the same names, in the order of the names.

    Raises:
        UserError: a folder is missing or has no images, or an image or a mask has no counterpart.
    """
    found, labels = _by_stem(images), _by_stem(masks)
    for stem, path in found.items():
        if stem + mask_suffix not in labels:
            raise UserError(f"{path} has no mask: {masks} has no image called {stem}{mask_suffix}.*")
    wanted = {stem + mask_suffix for stem in found}
    for stem, path in labels.items():
        if stem not in wanted:
            raise UserError(
                f"The mask {path} has no image: {images} has none called {stem.removesuffix(mask_suffix)}.*"
            )
    return [Pair(stem, path, labels[stem + mask_suffix]) for stem, path in found.items()]


def _by_stem(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}.")
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() not in SUFFIXES or path.name.startswith("."):
            continue
        if path.stem in found:
            raise UserError(f"{found[path.stem]} and {path} have the same name; remove one of them.")
        found[path.stem] = path
    if not found:
        raise UserError(f"{folder} has no images ({', '.join(ending[1:] for ending in SUFFIXES)}).")
    return found
