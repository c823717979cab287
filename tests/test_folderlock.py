"""One process at a time in a folder: refused, waited for, freed by a kill, and never twice through a removed file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from concrete_dropout.errors import UserError
from concrete_dropout.folderlock import LOCK, alone_in, is_taken

HOLDER = (
    "import sys; from concrete_dropout.folderlock import alone_in\n"
    "with alone_in(sys.argv[1]): print('has it', flush=True); sys.stdin.readline()"
)


@contextmanager
def held_elsewhere(folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "has it\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_second_process_is_refused_by_name(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path / "run") as first:
        assert is_taken(tmp_path / "run")
        message = f"run is in use by process {first.pid} on .*Wait for its end, or take another with out="
        with pytest.raises(UserError, match=message), alone_in(tmp_path / "run", "take another with out=..."):
            pytest.fail("both are in")
        assert first.stdin is not None
        first.stdin.write("\n")
        first.stdin.flush()
        assert first.wait(timeout=30) == 0
    assert not (tmp_path / "run" / LOCK).exists()
    with alone_in(tmp_path / "run"):
        assert (tmp_path / "run" / LOCK).is_file()


def test_a_folder_into_which_nothing_came_goes_again(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for name in ("made", "mine", "used"):
        with alone_in(tmp_path / name):
            (tmp_path / "used").mkdir(exist_ok=True)
            (tmp_path / "used" / "file").touch()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "used"]


def test_a_killed_process_locks_nobody_out(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as first:
        first.send_signal(signal.SIGKILL)
        first.wait(timeout=30)
        assert (tmp_path / LOCK).is_file()
        assert not is_taken(tmp_path)
        with alone_in(tmp_path):
            assert str(os.getpid()) in (tmp_path / LOCK).read_text()
    assert not (tmp_path / LOCK).exists()


def test_the_same_process_may_have_it_twice(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "run")
    with alone_in(tmp_path / "run"):
        with alone_in(tmp_path / "link"):
            assert not is_taken(tmp_path / "run")
        assert (tmp_path / "run" / LOCK).is_file()


def test_one_that_waits_comes_in_when_the_first_has_ended(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as first:
        killer = threading.Timer(0.3, first.kill)
        began = time.monotonic()
        killer.start()
        with alone_in(tmp_path, wait=True):
            assert time.monotonic() - began > 0.2
        killer.join()


def test_a_file_that_was_removed_meanwhile_locks_nothing(tmp_path: Path) -> None:
    """As when its owner ends between the second one's opening and locking of it."""
    with alone_in(tmp_path):
        (tmp_path / LOCK).unlink()
        with held_elsewhere(tmp_path):
            assert is_taken(tmp_path) is False  # ours, by what this process knows
        (tmp_path / LOCK).write_text("{}")
    assert (tmp_path / LOCK).read_text() == "{}"  # somebody else's is left alone
