from __future__ import annotations

from pathlib import Path

import numpy as np

from concrete_dropout.plots.pictures import png
from concrete_dropout.report.pictures import decode, read_pictures, tile

PNG = png(np.zeros((3, 5, 3), dtype=np.uint8))


def write(folder: Path, *names: str) -> None:
    (folder / "images").mkdir()
    for name in names:
        (folder / "images" / name).write_bytes(PNG)


def test_the_size_is_read_from_the_file() -> None:
    picture = decode(PNG)
    assert picture is not None
    assert (picture.width, picture.height) == (5, 3)
    assert picture.uri.startswith("data:image/png;base64,iVBOR")


def test_what_is_no_whole_picture_is_none() -> None:
    assert [decode(content) for content in (b"", PNG[:-1], PNG[1:], b"GIF89a", PNG[:20])] == [None] * 5


def test_pictures_beyond_the_limit_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a.png", "b.png", "c.png")
    problems: list[str] = []
    names = ["images/c.png", "images/c.png", "images/a.png", "images/b.png", "images/absent.png", "b.png"]
    found = read_pictures(tmp_path, names, problems, max_bytes=2 * len(PNG))
    assert list(found) == ["images/c.png", "images/a.png"]
    assert problems == []


def test_a_tile_says_what_it_shows() -> None:
    made = tile(decode(PNG), 'a "b"', "Seen <here>")
    assert 'alt="a &quot;b&quot;" width="5" height="3" class="small"' in made
    assert "<figcaption>Seen &lt;here&gt;</figcaption>" in made
    assert 'aria-label="alt: no picture"' in tile(None, "alt")
