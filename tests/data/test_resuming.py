"""Downloads from a server that misbehaves: what is whole arrives, and nothing else does."""

from __future__ import annotations

import hashlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.data.misbehaving import Misbehaviour, misbehaving

from concrete_dropout.data import resuming
from concrete_dropout.data.downloads import UnwritableError, fetch, workshop
from concrete_dropout.data.resuming import BrokenOffError, DownloadError, ResumingDownloader, shown

# Another process; without what the package's data modules import, which takes seconds.
PROCESS = """
import sys, types
package = types.ModuleType("concrete_dropout.data")
package.__path__ = [sys.argv[1]]
sys.modules[package.__name__] = package
from pathlib import Path
from concrete_dropout.data.downloads import ResumingDownloader, fetch, workshop
with workshop(Path(sys.argv[2])) as work:
    fetch(sys.argv[3], work, "data.bin", ResumingDownloader(work, 10**6))
"""
CONTENT = bytes(range(256)) * 40
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NAME = "data.bin"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Misbehaviour]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(resuming, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(resuming, "SILENT_SECONDS", 0.1)
    with misbehaving() as it:
        it.files["/data.bin"] = CONTENT
        yield it


def get(server: Misbehaviour, folder: Path, path: str = "/data.bin", max_bytes: int = 10**6) -> Path:
    return fetch(server.address + path, folder, NAME, ResumingDownloader(folder, max_bytes), SHA256)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


@pytest.mark.parametrize(
    ("faults", "ranges"),
    [
        ([], [None]),
        (["unsized"], [None]),
        (["cut 1000"], [None, "bytes=1000-"]),
        (["cut 1000", "cut 500", "reset"], [None, "bytes=1000-", "bytes=1500-", "bytes=1500-"]),
        (["stall 2000"], [None, "bytes=2000-"]),
        (["silence"], [None, None]),
        (["status 503", "status 500", "status 429"], [None] * 4),
        (["cut 1000", "wrong-range"], [None, "bytes=1000-", None]),
        (["cut 1000", "status 416"], [None, "bytes=1000-", None]),
        (["redirect /data.bin"], [None, None]),
    ],
    ids=lambda value: "-".join(map(str, value)).replace("/", "") or "none",
)
def test_a_whole_file_arrives_in_the_end(
    server: Misbehaviour, tmp_path: Path, faults: list[str], ranges: list[str | None]
) -> None:
    server.faults["/data.bin"] = list(faults)
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == ranges
    assert left(tmp_path) == [NAME]


@pytest.mark.parametrize("change", ["no ranges", "another version", "no version", "a weak version"])
def test_what_cannot_be_joined_is_begun_anew(server: Misbehaviour, tmp_path: Path, change: str) -> None:
    server.tag = {"no version": "", "a weak version": 'W/"one"'}.get(change, '"one"')
    server.resumes = change != "no ranges"
    server.faults["/data.bin"] = ["cut 1000", "cut 2000"]
    server.files["/data.bin"] = CONTENT if change == "no ranges" else b"old" * 5000
    url, parts = f"{server.address}/data.bin", tmp_path / "parts"
    if change == "another version":
        server.faults["/data.bin"] = ["cut 1000"] * resuming.ATTEMPTS
        with pytest.raises(BrokenOffError, match=r"after 0\.0 of 0\.0 MB"):
            ResumingDownloader(parts, 10**6)(url, str(tmp_path / NAME), None)
        server.tag = '"two"'
    server.files["/data.bin"] = CONTENT
    ResumingDownloader(parts, 10**6)(url, str(tmp_path / NAME), None)
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert left(parts) == []


def test_a_later_download_goes_on_where_an_earlier_one_stopped(server: Misbehaviour, tmp_path: Path) -> None:
    target = tmp_path / "set"
    server.faults["/data.bin"] = ["cut 3000", "cut 10", "cut 10", "cut 10", "", "status 503"]
    with (
        pytest.raises(BrokenOffError, match=r"127\.0\.0\.1:\d+ broke off after 0\.0 of 0\.0 MB"),
        workshop(target) as w,
    ):
        get(server, w)
    assert left(tmp_path) == [".set.part"]
    # A machine that is not there now takes nothing away from what has come.
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with pytest.raises(BrokenOffError, match="no connection to 127"), workshop(target) as work:
            fetch(f"http://127.0.0.1:{nobody.getsockname()[1]}/x", work, NAME, ResumingDownloader(work, 10**6))
    with workshop(target) as work:
        assert get(server, work).read_bytes() == CONTENT
    assert server.requests[-1] == ("/data.bin", "bytes=3030-")
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        (["page"], r"/data\.bin is a web page, perhaps of a login"),
        (["status 404"], r"answered 404 Not Found for http://127\.0\.0\.1:\d+/data\.bin"),
        (["status 403"], "answered 403 Forbidden"),
        (["redirect file:///etc/passwd"], "leads to file:///etc/passwd, which is no http or https address"),
        (["redirect ftp://127.0.0.1/x"], "no http or https address"),
        (["redirect /data.bin"] * 20, "leads from one address to the next without end"),
    ],
)
def test_what_is_not_the_file_is_refused_at_once(
    server: Misbehaviour, tmp_path: Path, faults: list[str], message: str
) -> None:
    server.faults["/data.bin"] = list(faults)
    with pytest.raises(DownloadError, match=message) as caught:
        get(server, tmp_path)
    assert not isinstance(caught.value, BrokenOffError)
    assert left(tmp_path) == []


@pytest.mark.parametrize("fault", ["", "unsized"])
def test_a_file_that_is_too_large_is_refused(server: Misbehaviour, tmp_path: Path, fault: str) -> None:
    server.faults["/data.bin"] = [fault]
    with pytest.raises(DownloadError, match=r"is larger than the 0\.005 MB that it may have"):
        get(server, tmp_path, max_bytes=5000)
    assert left(tmp_path) == []


@pytest.mark.parametrize("content", [b"", CONTENT[:-1], b"x" + CONTENT[1:]], ids=["empty", "short", "other"])
def test_a_file_of_another_checksum_is_not_kept(server: Misbehaviour, tmp_path: Path, content: bytes) -> None:
    server.files["/data.bin"] = content
    with pytest.raises(ValueError, match="has another sha256 than the published file"):
        get(server, tmp_path)
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        (["silence"] * 4, r"did not answer within 0\.1 s"),
        (["stall 10"] * 4, r"sent nothing for 0\.1 s after 0\.0 of 0\.0 MB"),
        (["reset"] * 4, "ended the connection without an answer"),
        (["status 503"] * 4, "answered 503 Service Unavailable"),
    ],
)
def test_it_gives_up_after_several_attempts(
    server: Misbehaviour, tmp_path: Path, faults: list[str], message: str
) -> None:
    server.faults["/data.bin"] = list(faults)
    began = time.monotonic()
    with pytest.raises(BrokenOffError, match=message):
        get(server, tmp_path)
    assert len(server.requests) == resuming.ATTEMPTS
    assert time.monotonic() - began < 5
    assert NAME not in left(tmp_path)


def test_a_stream_that_only_drips_counts_as_stalled(
    server: Misbehaviour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resuming, "SLOW_SECONDS", 0.05)
    server.faults["/data.bin"] = ["drip"] * resuming.ATTEMPTS
    with pytest.raises(BrokenOffError, match="sends next to nothing"):
        get(server, tmp_path)


def test_passwords_are_neither_told_nor_sent_to_others(
    server: Misbehaviour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password planted-netrc\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    url = server.address.replace("://", "://me:planted-url@") + "/data.bin?token=planted-query"
    server.faults["/data.bin?token=planted-query"] = ["status 404"]
    with pytest.raises(DownloadError) as caught:
        fetch(url, tmp_path / "d", NAME, ResumingDownloader(tmp_path / "d", 10**6))
    assert "planted" not in f"{caught.value} {shown(url)}"
    get(server, tmp_path / "d")
    assert "Authorization" not in server.headers[-1]
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("HTTP_PROXY", "http://me:planted-proxy@127.0.0.1:1")
    with pytest.raises(DownloadError, match=r"no connection to example\.invalid") as caught:
        fetch("http://example.invalid/x", tmp_path / "d", "x", ResumingDownloader(tmp_path / "d", 10**6))
    assert "planted" not in str(caught.value)


def test_one_of_two_waits_for_the_other(server: Misbehaviour, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    target, results = tmp_path / "set", list[str]()
    server.faults["/data.bin"] = ["cut 1000"]

    def download() -> None:
        with workshop(target) as work:
            if target.is_file():
                results.append("was there")
                return
            time.sleep(0.1)
            get(server, work).rename(target)
            results.append("fetched")

    threads = [threading.Thread(target=download) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert sorted(results) == ["fetched", "was there", "was there", "was there"]
    assert len(server.requests) == 2
    assert left(tmp_path) == ["set"]
    assert "another process is downloading" in caplog.text


def test_a_killed_process_leaves_its_part_to_the_one_that_waits(server: Misbehaviour, tmp_path: Path) -> None:
    target, part = tmp_path / "set", tmp_path / ".set.part"
    server.faults["/data.bin"] = ["stall 3000"]
    arguments = [str(Path(resuming.__file__).parent), str(target), f"{server.address}/data.bin"]
    other = subprocess.Popen([sys.executable, "-c", PROCESS, *arguments])
    try:
        deadline = time.monotonic() + 30
        while sum(path.stat().st_size for path in part.glob("*.bytes")) < 3000:
            assert other.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        killer = threading.Timer(0.2, other.kill)
        killer.start()
        began = time.monotonic()
        with workshop(target) as work:
            assert time.monotonic() - began > 0.1  # it had to wait
            assert get(server, work).read_bytes() == CONTENT
        killer.join()
    finally:
        other.kill()
        other.wait()
    assert [asked for _, asked in server.requests] == [None, "bytes=3000-"]
    assert left(tmp_path) == []


def test_ctrl_c_keeps_what_has_come_and_a_mistake_does_not(tmp_path: Path) -> None:
    def fail(error: BaseException) -> None:
        with workshop(tmp_path / "set") as work:
            (work / "x").write_text("x")
            raise error

    for error, kept in ((KeyboardInterrupt(), [".set.part"]), (ValueError(), [])):
        with pytest.raises(type(error)):
            fail(error)
        assert left(tmp_path) == kept


def test_a_place_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnwritableError, match=r"Not a directory|File exists"), workshop(tmp_path / "file" / "set"):
        pass
