"""Moving pictures of a policy, as GIF files: every browser plays them, and no codec is needed."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image

Frame = npt.NDArray[np.uint8]  # (H, W, 3)
COLOURS = 64
LAST_SECONDS = 1.0  # that the end is looked at before it starts again


def gif(frames: Sequence[Frame], frames_per_second: float = 10.0, width: int = 360) -> bytes:
    """A GIF that plays for ever, as the bytes of a file.

    Args:
        frames: of one size.
        frames_per_second: of the system itself, so that it moves as fast as in truth.
        width: in pixels; larger frames are made smaller.

    >>> gif([np.zeros((20, 30, 3), np.uint8)] * 2)[:6]
    b'GIF89a'
    """
    if not frames:
        raise ValueError("a video needs at least one frame")
    pictures = [_picture(frame, width) for frame in frames]
    pause = round(1000 / frames_per_second)
    times = [pause] * (len(pictures) - 1) + [pause + round(1000 * LAST_SECONDS)]
    file = io.BytesIO()
    pictures[0].save(file, "GIF", save_all=True, append_images=pictures[1:], duration=times, loop=0, optimize=False)
    return file.getvalue()


def _picture(frame: Frame, width: int) -> Image.Image:
    image = Image.fromarray(frame)
    if image.width > width:
        image = image.resize((width, round(image.height * width / image.width)), Image.Resampling.BOX)
    return image.convert("P", palette=Image.Palette.ADAPTIVE, colors=COLOURS)
