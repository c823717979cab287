"""A process that ends without taking its interpreter apart still does all else."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import atexit, sys, threading, time
from concrete_dropout.cli.process_end import leave_after

class Torn:
    def __del__(self):
        print("taken apart")

def linger():
    time.sleep(0.3)
    print("thread ended")

def main():
    threading.Thread(target=linger).start()
    print("worked", end="")  # no end of line: stays in the buffer
    {end}

torn = Torn()
atexit.register(print, "exit function")
{leave}
"""


def run(end: str, leave: str = "leave_after(main)") -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(end=end, leave=leave)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("end", "code", "err"),
    [
        ("return 0", 0, ""),
        ("return 3", 3, ""),
        ("sys.exit(143)", 143, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit('no such file')", 1, "no such file\n"),
    ],
)
def test_ends_as_python_would_but_for_the_interpreter(end: str, code: int, err: str) -> None:
    ours, pythons = run(end), run(end, "sys.exit(main())")
    assert (ours.returncode, ours.stderr) == (pythons.returncode, pythons.stderr) == (code, err)
    assert ours.stdout == "workedthread ended\nexit function\n"
    assert pythons.stdout == ours.stdout + "taken apart\n"


def test_a_bug_shows_its_traceback() -> None:
    ended = run("raise RuntimeError('a bug')")
    assert ended.returncode == 1
    assert ended.stderr.endswith("RuntimeError: a bug\n")
