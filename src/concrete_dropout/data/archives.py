"""Zip archives from elsewhere: only what is asked for comes out, only into its folder, and only so much."""

from __future__ import annotations

import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath

Place = Callable[[PurePosixPath], PurePosixPath | None]


def extract(archive: Path, target: Path, place: Place, max_bytes: int) -> None:
    """Write members of an archive below ``target``; nothing is written where one of them is refused.

    Args:
        archive: of the zip format.
        target: a folder, made if need be.
        place: path of a member -> its place in ``target``; None for those that stay in the archive.
        max_bytes: that all extracted members may have together.

    Raises:
        ValueError: no archive, a damaged one, or one with paths that lead elsewhere, links, devices, or too many bytes.
    """
    try:
        with zipfile.ZipFile(archive) as file:
            members = file.infolist()
            for member in members:
                _check_path(member)
            places = [(member, place(PurePosixPath(member.filename))) for member in members if not member.is_dir()]
            wanted = [(member, inside) for member, inside in places if inside is not None]
            for member, inside in wanted:
                _check_file(member, inside)
            size = sum(member.file_size for member, _ in wanted)
            if size > max_bytes:
                raise ValueError(f"the archive would take {size / 1e6:,.0f} MB, more than {max_bytes / 1e6:,.0f}")
            for member, inside in wanted:
                path = target / inside
                path.parent.mkdir(parents=True, exist_ok=True)
                # zipfile reads no more than the size that was added up above, whatever the data hold.
                with file.open(member) as source, path.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OverflowError) as error:
        # RuntimeError: encrypted, or compressed in an unknown way
        raise ValueError(f"it is no whole archive ({str(error).strip() or type(error).__name__})") from error


def _check_path(member: zipfile.ZipInfo) -> None:
    """No honest archive has such names, whether or not they are asked for."""
    name = member.filename
    if name.startswith("/") or "\\" in name or ":" in name.partition("/")[0] or ".." in PurePosixPath(name).parts:
        raise ValueError(f"the archive has a file with a path that leads elsewhere, {name!r}")


def _check_file(member: zipfile.ZipInfo, inside: PurePosixPath) -> None:
    kind = stat.S_IFMT(member.external_attr >> 16)  # 0 where the archive was not made on Unix
    if kind not in (0, stat.S_IFREG):
        raise ValueError(f"{member.filename!r} in the archive is no ordinary file but a link or a device")
    if inside.is_absolute() or ".." in inside.parts:
        raise ValueError(f"{inside} would be written outside of its folder")
