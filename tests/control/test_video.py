from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from concrete_dropout.control.video import gif


def test_frames_come_back() -> None:
    frames = [np.full((40, 60, 3), shade, np.uint8) for shade in (0, 100, 200)]
    with Image.open(io.BytesIO(gif(frames, frames_per_second=10, width=30))) as film:
        assert (film.n_frames, film.size, film.info["loop"]) == (3, (30, 20), 0)
        durations, shades = [], []
        for number in range(3):
            film.seek(number)
            durations.append(film.info["duration"])
            shades.append(int(np.asarray(film.convert("L")).mean()))
    assert durations == [100, 100, 1100]
    assert shades == pytest.approx([0, 100, 200], abs=2)


def test_a_video_of_nothing() -> None:
    with pytest.raises(ValueError, match="at least one frame"):
        gif([])
