"""SIGTERM as an exception, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from concrete_dropout.signals import Terminated, stop_behind

HEAD = """
import os, signal
from concrete_dropout.signals import Terminated, check_terminated, terminable
def send(): os.kill(os.getpid(), signal.SIGTERM)
"""
CASES = {
    "raised, and the handler put back": """
        try:
            with terminable(): send(); print("unreached")
        except Terminated as stop: print(stop.exit_code, signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)
        # 143 True
    """,
    "once: closing is not disturbed": """
        with terminable():
            try: send()
            except Terminated: send(); print("closed")
        # closed
    """,
    "nobody else's signal is taken": """
        signal.signal(signal.SIGTERM, lambda *_: print("mine"))
        with terminable(): send()
        # mine
    """,
    "silent inside of a trainer, but not forgotten": """
        with terminable():
            ours = signal.getsignal(signal.SIGTERM)
            signal.signal(signal.SIGTERM, lambda *given: ours(*given))
            send(); print("goes on")
            signal.signal(signal.SIGTERM, ours)
            try: check_terminated()
            except Terminated: print("known")
        # goes on known
    """,
    "at once inside of a trainer as well": """
        with terminable(), terminable(at_once=True):
            ours = signal.getsignal(signal.SIGTERM)
            signal.signal(signal.SIGTERM, lambda *given: ours(*given))
            try: send()
            except Terminated: print("raised")
        # raised
    """,
}


@pytest.mark.parametrize("name", CASES)
def test_sigterm(name: str) -> None:
    code, _, expected = textwrap.dedent(CASES[name]).strip().rpartition("# ")
    done = subprocess.run([sys.executable, "-c", HEAD + code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == expected.split(), done.stderr


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), Terminated()])
def test_a_stop_is_found_behind_the_error_of_a_library(stop: BaseException) -> None:
    error = ValueError("cannot be composed")
    error.__cause__ = RuntimeError("on the way")
    error.__cause__.__context__ = stop
    assert stop_behind(error) is stop
    assert stop_behind(ValueError("its own")) is None
