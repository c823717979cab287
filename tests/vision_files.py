"""Small vision data sets on disk, in the layouts of the real ones."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
from PIL import Image


def write_mnist(folder: Path, rng: np.random.Generator, num_train: int = 60, num_test: int = 10) -> None:
    folder.mkdir(parents=True)
    for name, number in (("train", num_train), ("t10k", num_test)):
        images = rng.integers(0, 256, (number, 28, 28), dtype=np.uint8)
        labels = (np.arange(number) % 10).astype(np.uint8)
        head = struct.pack(">IIII", 0x803, number, 28, 28)
        (folder / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(head + images.tobytes()))
        head = struct.pack(">II", 0x801, number)
        (folder / f"{name}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(head + labels.tobytes()))


def write_camvid(folder: Path, rng: np.random.Generator, number: int = 3, size: tuple[int, int] = (36, 48)) -> None:
    """A few images with 11 classes and void (label 11); the lists have a foreign prefix, as the real ones."""
    for part in ("train", "val", "test"):
        lines = []
        for index in range(number):
            name = f"{part}_{index}.png"
            write_pair(folder / part / name, folder / f"{part}annot" / name, rng.integers(0, 12, size), rng)
            lines.append(f"/SegNet/CamVid/{part}/{name} /SegNet/CamVid/{part}annot/{name}")
        (folder / f"{part}.txt").write_text("\n".join(lines) + "\n")


def write_scene_folder(folder: Path, rng: np.random.Generator, classes: int = 2, number: int = 3) -> None:
    for part in ("train", "val", "test"):
        for index in range(number):
            image, mask = (folder / part / kind / f"{index}.png" for kind in ("images", "masks"))
            write_pair(image, mask, rng.integers(0, classes, (36, 48)), rng)


def write_pictures(folder: Path, rng: np.random.Generator, number: int = 4) -> None:
    for part in ("train", "val", "test"):
        for name in ("cat", "dog"):
            for index in range(number):
                path = folder / part / name / f"{index}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(path)


def write_pair(image: Path, mask: Path, labels: np.ndarray, rng: np.random.Generator) -> None:
    for path in (image, mask):
        path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(rng.integers(0, 256, (*labels.shape, 3), dtype=np.uint8)).save(image)
    Image.fromarray(labels.astype(np.uint8)).save(mask)
