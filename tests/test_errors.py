"""What the system does not allow, told with the file and the way out."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from concrete_dropout.errors import as_user_error
from concrete_dropout.memory import free_main_memory, is_out_of_memory, memory_error
from concrete_dropout.runfolder import RunFolder, naming


def test_an_error_without_a_file_gets_one() -> None:
    with pytest.raises(OSError, match="No space left") as caught, naming(Path("run/metrics.csv")):
        raise OSError(errno.ENOSPC, "No space left on device")
    told = str(as_user_error(caught.value))
    assert told.startswith("run/metrics.csv: no space left on device. Make room")


def test_kinds_of_errors_are_kept() -> None:
    with pytest.raises(PermissionError) as caught, naming("a"):
        raise PermissionError(errno.EACCES, "Permission denied", "/tmp/.a.xyz.tmp")
    assert caught.value.filename == "a"


def test_a_place_for_those_that_name_none() -> None:
    error = OSError(errno.EFBIG, "File too large")
    assert as_user_error(error) is None
    assert "ulimit -f" in str(as_user_error(error, "outputs/run"))
    assert as_user_error(FileNotFoundError(errno.ENOENT, "gone", "x")) is None
    assert as_user_error(None) is None


def test_a_file_in_the_way_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(OSError, match=r"run\.json"):
        RunFolder(tmp_path / "taken").write_json("run.json", {})


def test_memory() -> None:
    assert free_main_memory() > 0
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(ValueError("out of memory"))
    assert memory_error(RuntimeError("shapes do not fit")) is None
    assert "data.batch_size" in str(memory_error(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")))
