"""Many picture files: decoded in threads with a progress bar, or one batch at a time."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor

from concrete_dropout.data.picture_file import Channels, UnreadablePictureError, check_picture, read_picture
from concrete_dropout.errors import UserError

LONG = 500  # files from which on there is a progress bar
NAMED = 5  # unreadable files that a message names

log = logging.getLogger(__name__)


class PicturesOnDisk:
    """Pictures that are decoded whenever they are taken.

    Args:
        paths: N files.
        size: (H, W) that all are resized to.
        channels: 1 or 3.
    """

    def __init__(self, paths: Sequence[Path], size: tuple[int, int], channels: Channels) -> None:
        self.paths, self.size, self.channels = paths, size, channels

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W)."""
        return self.channels, *self.size

    @property
    def decoded(self) -> bool:
        """They are not."""
        return False

    def __len__(self) -> int:
        return len(self.paths)

    def take(self, rows: Tensor) -> Tensor:
        """Read the files with these numbers: uint8 (B, C, H, W)."""
        pixels = torch.empty((len(rows), *self.shape), dtype=torch.uint8)
        for place, row in enumerate(rows.tolist()):
            pixels[place] = torch.tensor(read_picture(self.paths[row], self.size, self.channels))
        return pixels


def decode_all(paths: Sequence[Path], size: tuple[int, int], channels: Channels) -> Tensor:
    """All pictures as bytes (N, C, H, W).

    Raises:
        UserError: names the files that cannot be read, all at once.
    """
    pixels = torch.empty((len(paths), channels, *size), dtype=torch.uint8)

    def decode(row: int) -> None:
        pixels[row] = torch.tensor(read_picture(paths[row], size, channels))

    _for_each(decode, len(paths), "Decoding pictures")
    return pixels


def check_all(paths: Sequence[Path]) -> None:
    """Look at the beginning of every file, so that a wrong one is not met in the middle of the training."""
    _for_each(lambda row: check_picture(paths[row]), len(paths), "Looking at pictures")


def _for_each(action: Callable[[int], None], count: int, text: str) -> None:
    """Run an action for 0 ... count - 1 in threads: Pillow decodes without holding Python's lock."""

    def attempt(row: int) -> UnreadablePictureError | None:
        try:
            action(row)
        except UnreadablePictureError as error:
            return error
        return None

    console = Console(stderr=True)
    # One bar for all processes of a machine; a log file needs none.
    shown = count >= LONG and console.is_terminal and os.environ.get("LOCAL_RANK", "0") == "0"
    if count >= LONG and not shown:
        log.info("%s: %d files", text, count)
    executor = ThreadPoolExecutor()
    try:
        done = executor.map(attempt, range(count))
        progress = track(done, text, total=count, console=console, transient=True, disable=not shown)
        errors = [error for error in progress if error is not None]
    finally:
        executor.shutdown(cancel_futures=True)  # also after Ctrl-C
    if len(errors) == 1:
        raise errors[0]
    if errors:
        more = f" And {len(errors) - NAMED} more files." if len(errors) > NAMED else ""
        raise UserError(f"{len(errors)} files are no whole pictures. {' '.join(map(str, errors[:NAMED]))}{more}")
