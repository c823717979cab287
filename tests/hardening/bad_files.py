"""Files that a user may come with by mistake, and that must be refused by name."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from tests.vision_files import write_camvid, write_mnist, write_pictures, write_scene_folder


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def table(folder: Path, text: str) -> None:
    (folder / "my table.csv").write_text(text)


def good_table(rows: int = 40) -> str:
    numbers = generator().normal(size=(rows, 3))
    return "a,b,y\n" + "".join(f"{a:.4f},{b:.4f},{y:.4f}\n" for a, b, y in numbers)


def changed_cell(column: int, text: str) -> str:
    lines = good_table().splitlines()
    cells = lines[7].split(",")
    cells[column] = text
    lines[7] = ",".join(cells)
    return "\n".join(lines) + "\n"


def short_row() -> str:
    lines = good_table().splitlines()
    lines[7] = lines[7].rpartition(",")[0]
    return "\n".join(lines) + "\n"


def constant_column(name: str) -> str:
    lines = good_table().splitlines()
    place = lines[0].split(",").index(name)
    rows = [line.split(",") for line in lines[1:]]
    for row in rows:
        row[place] = "1.5"
    return "\n".join([lines[0], *(",".join(row) for row in rows)]) + "\n"


def pictures(folder: Path) -> Path:
    write_pictures(folder / "pictures", generator())
    return folder / "pictures"


def scenes(folder: Path) -> Path:
    write_scene_folder(folder / "scenes", generator())
    return folder / "scenes"


def camvid(folder: Path) -> Path:
    write_camvid(folder / "data" / "camvid", generator())
    return folder / "data" / "camvid"


def mnist(folder: Path) -> Path:
    write_mnist(folder / "data" / "mnist", generator())
    return folder / "data" / "mnist"


def truncate(path: Path, share: float = 0.5) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


def animated(path: Path) -> None:
    rng = generator()
    frames = [Image.fromarray(rng.integers(0, 256, (40, 40), dtype=np.uint8)) for _ in range(3)]  # all different
    frames[0].save(path, save_all=True, append_images=frames[1:])


def enormous(path: Path) -> None:
    """About 100 megapixels, in a file of a few hundred kilobytes."""
    Image.new("1", (20_000, 10_000)).save(path)


def uci(folder: Path, splits: int = 2) -> Path:
    root = folder / "data" / "uci" / "mine" / "data"
    root.mkdir(parents=True)
    values = generator().normal(size=(20, 3))
    np.savetxt(root / "data.txt", values)
    np.savetxt(root / "index_features.txt", np.arange(2), fmt="%d")
    np.savetxt(root / "index_target.txt", [2], fmt="%d")
    (root / "n_splits.txt").write_text(f"{splits}\n")
    for split in range(splits):
        np.savetxt(root / f"index_train_{split}.txt", np.arange(15), fmt="%d")
        np.savetxt(root / f"index_test_{split}.txt", np.arange(15, 20), fmt="%d")
    return root


class Payload:
    """What a malicious author puts into a checkpoint."""

    def __init__(self, file: str) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return os.mkdir, (self.file,)


def malicious_checkpoint(path: Path) -> None:
    torch.save({"state_dict": Payload(str(path.parent / "OWNED"))}, path)


def pickled(path: Path) -> None:
    path.write_bytes(pickle.dumps(Payload(str(path.parent / "OWNED"))))


def without_permission(path: Path) -> None:
    path.chmod(0)


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()
