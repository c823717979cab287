"""Signs of life: of a process that lives, one that ended, one that was killed, one on another machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from concrete_dropout import heartbeat
from concrete_dropout.heartbeat import beating, born, identity, is_alive
from concrete_dropout.runfolder import HEARTBEAT

SCRIPT = (
    "import sys, time; from concrete_dropout.heartbeat import beating\n"
    "with beating(sys.argv[1]): print('beats', flush=True); time.sleep(60)"
)


def test_a_heart_beats_while_the_run_goes_on(tmp_path: Path) -> None:
    with beating(tmp_path, every=0.02):
        file = tmp_path / HEARTBEAT
        heart = json.loads(file.read_text())
        assert heart["pid"] == os.getpid()
        assert is_alive(heart, file.stat().st_mtime)
        os.utime(file, (0, 0))
        deadline = time.monotonic() + 10
        while file.stat().st_mtime == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert file.stat().st_mtime > 0
    assert not file.exists()


def test_it_ends_with_an_error_as_well(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="boom"), beating(tmp_path):
        raise RuntimeError("boom")
    assert not (tmp_path / HEARTBEAT).exists()


def test_a_killed_process_is_known_at_once(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "beats\n"
        heart = json.loads((tmp_path / HEARTBEAT).read_text())
        assert is_alive(heart, time.time())
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
    assert not is_alive(heart, time.time())  # though it has just been seen


def test_another_process_with_the_same_number_is_not_taken_for_it() -> None:
    heart = identity(os.getpid())
    assert is_alive(heart, 0.0)
    assert not is_alive({**heart, "born": "1"}, time.time())
    assert born(2**22 + 1) is None


@pytest.mark.parametrize(("age", "alive"), [(5.0, True), (55.0, True), (65.0, False), (-300.0, True), (-3600.0, False)])
def test_on_another_machine_the_last_beat_decides(age: float, alive: bool) -> None:
    heart = {**identity(os.getpid()), "machine": "elsewhere", "every": 10.0}
    assert is_alive(heart, 1000.0, now=1000.0 + age) is alive


@pytest.mark.parametrize("heart", [{}, {"pid": "x", "every": "often"}, {"every": -1}])
def test_a_damaged_file_counts_by_its_age(heart: dict[str, object]) -> None:
    assert is_alive(heart, 100.0, now=101.0)
    assert not is_alive(heart, 100.0, now=100.0 + 2 * heartbeat.MISSED * heartbeat.EVERY)


def test_a_folder_that_is_gone_stops_nobody(tmp_path: Path) -> None:
    with beating(tmp_path / "run", every=0.01):
        (tmp_path / "run" / HEARTBEAT).unlink()
        (tmp_path / "run").rmdir()
        time.sleep(0.05)
