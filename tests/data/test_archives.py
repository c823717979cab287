"""Archives that somebody has made to do harm."""

from __future__ import annotations

import stat
import struct
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from concrete_dropout.data.archives import extract


def everything(path: PurePosixPath) -> PurePosixPath:
    return path


def flat(path: PurePosixPath) -> PurePosixPath | None:
    return PurePosixPath(path.name) if path.suffix == ".txt" else None


def member(name: str, mode: int = stat.S_IFREG | 0o644) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


@pytest.mark.parametrize("place", [everything, flat])
@pytest.mark.parametrize(
    "name",
    ["/etc/evil.txt", "../evil.txt", "a/../../evil.txt", "a/..", "..\\evil.txt", "C:/evil.txt", "C:\\evil.txt"],
)
def test_paths_that_lead_elsewhere(tmp_path: Path, name: str, place: object) -> None:
    archive, target = tmp_path / "a.zip", tmp_path / "inner" / "target"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("good.txt", "good")
        file.writestr(member(name), "evil")
    with pytest.raises(ValueError, match="a path that leads elsewhere"):
        extract(archive, target, place, 10**6)  # type: ignore[arg-type]
    assert files_below(tmp_path) == ["a.zip"]


@pytest.mark.parametrize(
    "kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK], ids=lambda kind: oct(kind)
)
def test_links_and_devices(tmp_path: Path, kind: int) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("good.txt", "good")
        file.writestr(member("link.txt", kind | 0o777), "/etc/passwd")
    with pytest.raises(ValueError, match=r"'link\.txt' in the archive is no ordinary file"):
        extract(archive, tmp_path / "target", everything, 10**6)
    assert files_below(tmp_path) == ["a.zip"]


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for index in range(3):
            file.writestr(f"{index}.txt", bytes(10**6))
    assert archive.stat().st_size < 10_000
    with pytest.raises(ValueError, match=r"the archive would take 3 MB, more than 2"):
        extract(archive, tmp_path / "target", everything, 2 * 10**6)
    assert files_below(tmp_path) == ["a.zip"]


def test_a_bomb_that_lies_about_its_size(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("0.txt", bytes(10**6))
    content = archive.read_bytes().replace(struct.pack("<I", 10**6), struct.pack("<I", 10))
    archive.write_bytes(content)
    with pytest.raises(ValueError, match="it is no whole archive"):
        extract(archive, tmp_path / "target", everything, 1000)
    assert sum(path.stat().st_size for path in (tmp_path / "target").rglob("*") if path.is_file()) <= 10


@pytest.mark.parametrize("content", [b"", b"<html>", b"PK\x03\x04" + bytes(100), b"PK\x05\x06" + b"\xff" * 18])
def test_what_is_no_archive(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(ValueError, match="it is no whole archive"):
        extract(tmp_path / "a.zip", tmp_path / "target", everything, 10**6)


def test_an_encrypted_one(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.txt", "abc")
    content = bytearray(archive.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(content)
    with pytest.raises(ValueError, match=r"it is no whole archive \(.*encrypted"):
        extract(archive, tmp_path / "target", everything, 10**6)


def test_what_is_asked_for_comes_out(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("deep/down/a.txt", "a")
        file.writestr("deep/down/b.bin", "b")
        file.writestr(member("deep/link.bin", stat.S_IFLNK | 0o777), "/etc/passwd")  # not asked for
    extract(tmp_path / "a.zip", tmp_path / "target", flat, 10**6)
    assert files_below(tmp_path / "target") == ["a.txt"]
    assert (tmp_path / "target/a.txt").read_text() == "a"
