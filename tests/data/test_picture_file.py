"""Every kind of picture file becomes the same bytes, and a faulty one is named."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from concrete_dropout.data.decoding import PicturesOnDisk, check_all, decode_all
from concrete_dropout.data.picture_file import UnreadablePictureError, check_picture, read_picture
from concrete_dropout.data.pictures import LabelledPictures, PictureRows
from concrete_dropout.data.pixels import IMAGENET
from concrete_dropout.errors import UserError

HEIGHT, WIDTH = 6, 9
SIZE = (HEIGHT, WIDTH)


def colours(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)


def greys() -> np.ndarray:
    return np.linspace(0, 255, HEIGHT * WIDTH).round().astype(np.uint8).reshape(HEIGHT, WIDTH)


@pytest.mark.parametrize("suffix", ["png", "bmp", "ppm", "tif", "PNG"])
def test_colours_come_through_exactly(tmp_path, suffix):
    path = tmp_path / f"picture.{suffix}"
    Image.fromarray(colours()).save(path)
    pixels = read_picture(path, SIZE, channels=3)
    assert pixels.dtype == np.uint8
    assert np.array_equal(pixels, colours().transpose(2, 0, 1))


@pytest.mark.parametrize("suffix", ["jpg", "webp"])
def test_lossy_formats_come_through_nearly(tmp_path, suffix):
    smooth = np.linspace(0, 255, 64 * 64).reshape(64, 64).astype(np.uint8)
    Image.fromarray(np.stack([smooth, smooth.T, 255 - smooth], axis=2)).save(tmp_path / f"a.{suffix}", quality=95)
    pixels = read_picture(tmp_path / f"a.{suffix}", (64, 64), channels=3)
    assert np.abs(pixels[0].astype(int) - smooth).mean() < 4


def test_grey_and_colours_change_into_each_other(tmp_path):
    Image.fromarray(greys()).save(tmp_path / "grey.png")
    Image.fromarray(colours()).save(tmp_path / "colour.png")
    assert np.array_equal(read_picture(tmp_path / "grey.png", SIZE, channels=1), greys()[None])
    assert np.array_equal(read_picture(tmp_path / "grey.png", SIZE, channels=3), np.stack([greys()] * 3))
    luminance = colours() @ np.array([0.299, 0.587, 0.114])
    assert read_picture(tmp_path / "colour.png", SIZE, channels=1)[0] == pytest.approx(luminance, abs=1)


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bits_keep_their_range(tmp_path, suffix):
    Image.fromarray(greys().astype(np.uint16) * 257).save(tmp_path / f"deep.{suffix}")
    with Image.open(tmp_path / f"deep.{suffix}") as file:
        assert file.mode.startswith("I")
    assert np.array_equal(read_picture(tmp_path / f"deep.{suffix}", SIZE, channels=1)[0], greys())


def test_two_colours_and_palettes(tmp_path):
    black_and_white = Image.fromarray(np.where(greys() > 100, 255, 0).astype(np.uint8))
    black_and_white.convert("1").save(tmp_path / "bits.png")
    assert np.array_equal(read_picture(tmp_path / "bits.png", SIZE, channels=1)[0], np.asarray(black_and_white))
    indexed = Image.fromarray(np.arange(HEIGHT * WIDTH, dtype=np.uint8).reshape(HEIGHT, WIDTH))
    indexed.putpalette(colours().reshape(-1).tolist() + [0] * (768 - 3 * HEIGHT * WIDTH))
    for suffix in ("png", "gif"):
        indexed.save(tmp_path / f"palette.{suffix}")
        pixels = read_picture(tmp_path / f"palette.{suffix}", SIZE, channels=3)
        assert np.array_equal(pixels, colours().transpose(2, 0, 1))


def test_transparent_pictures_lie_on_white(tmp_path):
    alpha = np.full((HEIGHT, WIDTH, 1), 255, np.uint8)
    alpha[0], alpha[1] = 0, 51
    Image.fromarray(np.concatenate([colours(), alpha], axis=2)).save(tmp_path / "rgba.png")
    share = alpha / 255
    expected = colours() * share + 255 * (1 - share)
    pixels = read_picture(tmp_path / "rgba.png", SIZE, channels=3).transpose(1, 2, 0)
    assert pixels == pytest.approx(expected, abs=1)
    grey = Image.fromarray(np.concatenate([greys()[..., None], alpha], axis=2))
    grey.save(tmp_path / "la.png")
    assert (read_picture(tmp_path / "la.png", SIZE, channels=1)[0, 0] == 255).all()
    for mode, transparency in (("P", 3), ("P", bytes([0] * 256)), ("L", 3)):
        hole = Image.fromarray(np.full((HEIGHT, WIDTH), 3, np.uint8))
        if mode == "P":
            hole.putpalette([value for value in range(256) for _ in range(3)])
        hole.save(tmp_path / "hole.png", transparency=transparency)
        with Image.open(tmp_path / "hole.png") as file:
            assert file.mode == mode
        assert (read_picture(tmp_path / "hole.png", SIZE, channels=3) == 255).all()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_stand_upright(tmp_path, orientation):
    upright = np.zeros((8, 16, 3), np.uint8)
    upright[:4, :8], upright[:4, 8:], upright[4:, :8] = 80, 160, 240  # quarters 80, 160, 240, 0
    # What a camera stores is what the metadata undo.
    undo = {
        1: lambda a: a,
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
        5: lambda a: a.swapaxes(0, 1),
        6: lambda a: np.rot90(a, 1),
        7: lambda a: a.swapaxes(0, 1)[::-1, ::-1],
        8: lambda a: np.rot90(a, -1),
    }
    exif = Image.Exif()
    exif[274] = orientation
    Image.fromarray(np.ascontiguousarray(undo[orientation](upright))).save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(read_picture(tmp_path / "a.png", (8, 16), channels=3), upright.transpose(2, 0, 1))


def test_other_colour_spaces(tmp_path):
    Image.new("CMYK", (WIDTH, HEIGHT), (0, 255, 255, 0)).save(tmp_path / "print.tif")
    pixels = read_picture(tmp_path / "print.tif", SIZE, channels=3)
    assert pixels[:, 0, 0].tolist() == [255, 0, 0]


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_shrinking_averages(tmp_path, suffix):
    # A fine chequered pattern is grey from afar; picking single pixels would give black or white.
    pattern = (np.indices((400, 600)).sum(0) % 2 * 255).astype(np.uint8)
    Image.fromarray(pattern).save(tmp_path / f"a.{suffix}")
    pixels = read_picture(tmp_path / f"a.{suffix}", (10, 10), channels=1)
    assert pixels == pytest.approx(127.5, abs=12)


def faulty_files(folder) -> dict[str, str]:
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (50, 50, 3), dtype=np.uint8)).save(folder / "whole.png")
    Image.open(folder / "whole.png").save(folder / "whole.jpg")
    for suffix in ("png", "jpg"):
        whole = (folder / f"whole.{suffix}").read_bytes()
        (folder / f"cut.{suffix}").write_bytes(whole[: len(whole) // 2])
    (folder / "page.png").write_text("<html>not found</html>")
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "folder.png").mkdir()
    Image.fromarray(np.zeros((3, 3), np.float32)).save(folder / "float.tif")
    Image.fromarray(np.full((3, 3), 70_000, np.int32)).save(folder / "deep.tif")
    return {
        "cut.png": "truncated",
        "cut.jpg": "truncated",
        "page.png": "no known format",
        "empty.jpg": "no known format",
        "absent.png": "No such file",
        "folder.png": "Is a directory",
        "float.tif": "floating-point numbers of unknown range; save it with 8 or 16 bits",
        "deep.tif": "more than 16 bits",
    }


def test_faulty_files_are_named(tmp_path):
    for name, reason in faulty_files(tmp_path).items():
        with pytest.raises(
            UserError, match=rf"^{tmp_path / name} cannot be read as a picture \(.*{reason}.*Replace it"
        ):
            read_picture(tmp_path / name, SIZE, channels=3)
    assert read_picture(tmp_path / "whole.jpg", SIZE, channels=3).shape == (3, *SIZE)


def test_the_beginning_of_a_file_tells_whether_it_is_a_picture(tmp_path):
    faulty_files(tmp_path)
    check_picture(tmp_path / "whole.png")
    check_picture(tmp_path / "cut.jpg")  # its end is not looked at
    check_all([tmp_path / "whole.png"] * 3)
    with pytest.raises(UserError, match=r"page\.png cannot be read as a picture \(no known format\)"):
        check_all([tmp_path / "whole.png", tmp_path / "page.png"])


def test_all_pictures_are_decoded_in_order(tmp_path):
    paths = [tmp_path / f"{number}.png" for number in range(20)]
    for number, path in enumerate(paths):
        Image.fromarray(colours(number)).save(path)
    pixels = decode_all(paths, SIZE, channels=3)
    assert pixels.shape == (20, 3, *SIZE)
    for number in range(20):
        assert np.array_equal(pixels[number].numpy(), colours(number).transpose(2, 0, 1))
    lazy = PicturesOnDisk(paths, SIZE, channels=3)
    assert (len(lazy), lazy.shape) == (20, (3, *SIZE))
    rows = torch.tensor([7, 0, 7])
    assert torch.equal(lazy.take(rows), pixels[rows])


def test_faulty_files_are_named_all_at_once(tmp_path):
    paths = []
    for number in range(8):
        paths += [tmp_path / f"good{number}.png", tmp_path / f"bad{number}.png"]
        Image.fromarray(colours()).save(paths[-2])
        paths[-1].write_bytes(b"")
    with pytest.raises(UserError) as caught:
        decode_all(paths, SIZE, channels=1)
    message = str(caught.value)
    assert message.startswith("8 files are no whole pictures.")
    assert [f"bad{number}.png" in message for number in range(8)] == [True] * 5 + [False] * 3
    assert message.endswith("And 3 more files.")


def test_a_worker_names_the_file_and_nothing_else(tmp_path):
    faulty_files(tmp_path)
    pictures = PicturesOnDisk([tmp_path / "whole.png", tmp_path / "cut.png"], SIZE, channels=3)
    rows = PictureRows(LabelledPictures(pictures, torch.tensor([0, 1])), IMAGENET)
    with pytest.raises(UnreadablePictureError) as caught:
        list(DataLoader(rows, num_workers=1, batch_size=2, collate_fn=lambda batch: batch))
    assert str(caught.value).startswith(f"{tmp_path / 'cut.png'} cannot be read as a picture (")
    assert "\n" not in str(caught.value)
