"""MNIST: small files of the same form for what can go wrong, the real ones for what must be right."""

from __future__ import annotations

import gzip
import hashlib
import os
import struct
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch

from concrete_dropout.data import mnist_download
from concrete_dropout.data.idx_file import read_bytes
from concrete_dropout.data.mnist import MNISTData
from concrete_dropout.data.mnist_download import FILES, fetch_missing
from concrete_dropout.errors import UserError

NUM_TRAIN, NUM_TEST = 60, 20
# How often each digit occurs, as published with the data.
TRAIN_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
TEST_COUNTS = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def idx_bytes(values: np.ndarray) -> bytes:
    return struct.pack(f">4B{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.astype(np.uint8).tobytes()


def write_mnist(folder: Path, compressed: bool = True) -> Path:
    """Pictures 4 x 4 that are numbered in their first pixel, tests from 100 on; picture n is of class n modulo 10."""
    folder.mkdir(parents=True)
    for prefix, count, first in (("train", NUM_TRAIN, 0), ("t10k", NUM_TEST, 100)):
        images = np.random.default_rng(first).integers(0, 256, (count, 4, 4))
        images[:, 0, 0] = np.arange(first, first + count)
        for kind, values in (("images-idx3", images), ("labels-idx1", np.arange(count) % 10)):
            content = idx_bytes(values)
            name = f"{prefix}-{kind}-ubyte"
            if compressed:
                (folder / f"{name}.gz").write_bytes(gzip.compress(content))
            else:
                (folder / name).write_bytes(content)
    return folder


def numbers(data: MNISTData, part: str) -> list[int]:
    own = getattr(data.pictures, part)
    return own.pictures.take(torch.arange(len(own)))[:, 0, 0, 0].tolist()


@pytest.fixture
def home(tmp_path) -> Path:
    return write_mnist(tmp_path / "data/mnist").parent


@pytest.mark.parametrize("compressed", [True, False])
def test_pictures_have_their_labels(tmp_path, compressed):
    write_mnist(tmp_path / "mnist", compressed)
    data = MNISTData(tmp_path, val_size=20)
    assert data.spec.num_train == 40
    assert data.spec.input_shape == (1, 4, 4)
    assert data.spec.class_names == tuple("0123456789")
    for part in data.parts:
        assert (np.array(numbers(data, part)) % 10).tolist() == getattr(data.pictures, part).labels.tolist()
    assert numbers(data, "test") == list(range(100, 120))


def test_training_and_validation_share_nothing(home):
    data = MNISTData(home, val_size=25)
    train, val = numbers(data, "train"), numbers(data, "val")
    assert len(val) == 25
    assert sorted(train + val) == list(range(NUM_TRAIN))
    assert train == sorted(train)
    assert val == sorted(val)


def test_the_split_follows_the_seed_only(home):
    def val(**settings: int) -> tuple[int, ...]:
        return tuple(numbers(MNISTData(home, val_size=20, **settings), "val"))

    assert val(seed=1) == val(seed=1) == val(seed=1, train_size=7, batch_size=3)
    assert len({val(seed=seed) for seed in range(5)}) == 5


def test_training_subsets_are_nested_and_leave_the_validation_pictures_alone(home):
    sizes = (5, 12, 30)
    several = [MNISTData(home, val_size=20, train_size=size, seed=2) for size in sizes]
    chosen = [set(numbers(data, "train")) for data in several]
    assert tuple(map(len, chosen)) == sizes
    assert chosen[0] < chosen[1] < chosen[2]
    assert not chosen[2] & set(numbers(several[0], "val"))


def test_without_validation(home):
    data = MNISTData(home, val_size=0)
    assert data.parts == ("train", "test")
    assert numbers(data, "train") == list(range(NUM_TRAIN))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"val_size": 60}, r"data\.val_size=60 leaves no picture for training: there are 60"),
        ({"val_size": -1}, r"data\.val_size=-1 must be a whole number"),
        ({"val_size": 20, "train_size": 41}, r"data\.train_size=41 is more than the 40 pictures"),
    ],
)
def test_wrong_settings_are_named(home, settings, message):
    with pytest.raises(UserError, match=message):
        MNISTData(home, **settings).setup()


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("train-labels-idx1-ubyte", np.zeros(59), r"images-idx3-ubyte\.gz has 60 pictures, .*labels.* has 59 labels"),
        ("t10k-labels-idx1-ubyte", np.full(20, 10), r"t10k-labels-idx1-ubyte\.gz has the label 10"),
        ("t10k-images-idx3-ubyte", np.zeros((20, 4, 5)), r"are \(1, 4, 4\), test pictures \(1, 4, 5\)"),
        ("train-images-idx3-ubyte", np.zeros((60, 16)), r"train-images-idx3-ubyte\.gz does not start with the magic"),
    ],
)
def test_files_that_do_not_fit_are_named(home, name, values, message):
    (home / "mnist" / f"{name}.gz").write_bytes(gzip.compress(idx_bytes(values)))
    with pytest.raises(UserError, match=message):
        MNISTData(home, val_size=10).setup()


def test_what_is_there_is_only_read(home):
    def state() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in [home, *home.rglob("*")]}

    before = state()
    data = MNISTData(home, val_size=10, mirrors=["http://127.0.0.1:1"])
    data.prepare_data()
    data.setup()
    assert state() == before


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def source(tmp_path, monkeypatch) -> Path:
    """Small files with checksums as if they were the published ones."""
    folder = write_mnist(tmp_path / "server")
    for name in FILES:
        content = gzip.decompress((folder / f"{name}.gz").read_bytes())
        monkeypatch.setitem(mnist_download.FILES, name, hashlib.sha256(content).hexdigest())
    return folder


@pytest.fixture
def url(source, monkeypatch) -> Iterator[str]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(source)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_missing_files_are_downloaded_once(tmp_path, source, url):
    data = MNISTData(tmp_path / "new", val_size=10, mirrors=["http://127.0.0.1:1", url + "/"])
    data.prepare_data()
    folder = tmp_path / "new/mnist"
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{name}.gz" for name in FILES)
    for path in folder.iterdir():
        assert path.read_bytes() == (source / path.name).read_bytes()
        assert path.stat().st_mode & 0o777 == 0o644
    assert data.spec.num_train == 50
    # The second time there is no request: nobody would answer at this address.
    fetch_missing(folder, ["http://127.0.0.1:1"])


def test_files_that_are_there_already_are_kept(tmp_path, source, url):
    folder = tmp_path / "new/mnist"
    folder.mkdir(parents=True)
    plain = folder / "train-labels-idx1-ubyte"
    plain.write_bytes(gzip.decompress((source / f"{plain.name}.gz").read_bytes()))
    assert MNISTData(tmp_path / "new", val_size=10, mirrors=[url]).spec.num_train == 50
    assert not (folder / f"{plain.name}.gz").exists()


def test_a_recompressed_copy_is_as_good(tmp_path, source, url):
    path = source / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), compresslevel=1))
    assert MNISTData(tmp_path / "new", val_size=10, mirrors=[url]).spec.num_train == 50


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(idx_bytes(np.zeros((20, 4, 4)))), "has another sha256 than the published file"),
        (b"\x1f\x8bcut", "is damaged or cut short"),
        (gzip.compress(bytes(2 * 10**6)), "has another sha256 than the published file"),
        (None, "404"),
    ],
    ids=["other", "cut", "bomb", "absent"],
)
def test_a_faulty_file_is_not_kept(tmp_path, source, url, content, message, monkeypatch):
    monkeypatch.setattr(mnist_download, "MAX_BYTES", 10**6)
    path = source / "t10k-images-idx3-ubyte.gz"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(UserError, match=rf"lacks t10k-images-idx3-ubyte\.gz.*Downloading failed: .*{message}"):
        MNISTData(tmp_path / "new", mirrors=[url]).setup()
    # Those that came before are whole, and need not come again.
    assert sorted(entry.name for entry in (tmp_path / "new/mnist").iterdir()) == [
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
    ]


def test_without_a_network_the_message_says_what_to_put_where(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    mirrors = ["http://127.0.0.1:1/mnist", "http://127.0.0.1:2/mnist"]
    with pytest.raises(UserError) as caught:
        MNISTData(tmp_path, mirrors=mirrors).prepare_data()
    message = str(caught.value)
    assert all(f"{name}.gz" in message for name in FILES)
    assert f"into {tmp_path / 'mnist'};" in message
    assert "no connection to 127.0.0.1:1; no connection to 127.0.0.1:2." in message
    assert "DATA_DIR" in message
    assert "\n" not in message
    assert list((tmp_path / "mnist").iterdir()) == []


def test_downloads_can_be_forbidden(tmp_path):
    with pytest.raises(UserError, match=r"lacks train-images-idx3-ubyte\.gz.*, or data\.download=true to fetch them"):
        MNISTData(tmp_path, download=False).setup()
    assert not (tmp_path / "mnist").exists()


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"not writable \(Not a directory\)"):
        MNISTData(tmp_path / "file").setup()


@pytest.fixture(scope="session")
def real_home() -> Path:
    folder = os.environ.get("DATA_DIR")
    if not folder or not (Path(folder) / "mnist").is_dir():
        pytest.skip("the environment variable DATA_DIR names no folder with MNIST")
    return Path(folder)


def test_the_real_files_are_the_published_ones(real_home):
    for name, checksum in FILES.items():
        path = mnist_download.find_file(real_home / "mnist", name)
        assert path is not None
        assert hashlib.sha256(read_bytes(path)).hexdigest() == checksum


def test_the_real_pictures(real_home):
    data = MNISTData(real_home, batch_size=256)
    spec = data.spec
    assert (spec.num_train, spec.num_classes, spec.input_shape) == (50_000, 10, (1, 28, 28))
    train, val, test = data.pictures.train, data.pictures.val, data.pictures.test
    assert (len(train), len(val), len(test)) == (50_000, 10_000, 10_000)
    assert torch.bincount(torch.cat([train.labels, val.labels])).tolist() == TRAIN_COUNTS
    assert torch.bincount(test.labels).tolist() == TEST_COUNTS
    assert test.labels[:5].tolist() == [7, 2, 1, 0, 4]
    # The published mean and deviation of all 60,000 pictures are 0.1307 and 0.3081.
    assert data.scale.mean[0] == pytest.approx(0.1307, abs=5e-4)
    assert data.scale.std[0] == pytest.approx(0.3081, abs=5e-4)
    x, y = next(iter(data.train_dataloader()))
    assert x.shape == (256, 1, 28, 28)
    assert y.shape == (256,)
    assert data.steps_per_epoch == 196
    assert data.image("test", 0).shape == (28, 28)
