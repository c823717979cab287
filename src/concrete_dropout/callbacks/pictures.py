"""Pictures from a data module, as PNG files in the run folder and as images in W&B."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytorch_lightning as pl
from numpy.typing import NDArray
from PIL import Image

from concrete_dropout.callbacks.loggers import wandb_loggers
from concrete_dropout.runfolder import IMAGES, RunFolder

Pixels = NDArray[np.uint8]


def picture_of(trainer: pl.Trainer, part: str, index: int) -> Pixels | None:
    """The original picture of a row, (H, W) or (H, W, 3); None where the data module has no pictures."""
    image = getattr(getattr(trainer, "datamodule", None), "image", None)
    return np.asarray(image(part, index), dtype=np.uint8) if callable(image) else None


def name_of(trainer: pl.Trainer, part: str, index: int) -> str:
    """What the data module calls a row, else its part and number."""
    data = getattr(trainer, "datamodule", None)
    for attribute in ("label_name", "name"):
        naming = getattr(data, attribute, None)  # Lightning's own ``name`` is no function
        if callable(naming):
            return str(naming(part, index))
    return f"{part} {index}"


def save_picture(folder: RunFolder, name: str, pixels: Pixels) -> str:
    """Write ``images/<name>.png``; returns the path as seen from the run folder."""
    from concrete_dropout.plots.pictures import png  # plotly takes half a second to import

    path = f"{IMAGES}/{name}.png"
    folder.write_bytes(path, png(pixels))
    return path


def remove_pictures(folder: RunFolder, paths: Iterable[Any]) -> None:
    """Delete pictures that no file names any more; anything but a picture of the run folder is left alone."""
    for path in paths:
        if isinstance(path, str) and path.startswith(f"{IMAGES}/") and "/" not in path.removeprefix(f"{IMAGES}/"):
            (folder.path / path).unlink(missing_ok=True)


def log_pictures(trainer: pl.Trainer, key: str, pictures: Mapping[str, Pixels], step: int) -> None:
    """Pictures by their captions, side by side under one key in W&B."""
    for logger in wandb_loggers(trainer) if pictures else []:
        images = [Image.fromarray(pixels) for pixels in pictures.values()]  # of an array W&B would guess the range
        logger.log_image(key, images, step=step, caption=list(pictures))
