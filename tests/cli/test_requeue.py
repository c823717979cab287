"""Jobs that a cluster takes away and gives back."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from concrete_dropout.cli import requeue
from concrete_dropout.cli.requeue import ask_for_requeue, was_requeued
from concrete_dropout.cli.stopped import Stopped


@pytest.mark.parametrize(("count", "expected"), [(None, False), ("", False), ("0", False), ("2", True)])
def test_slurm_counts_restarts(monkeypatch: pytest.MonkeyPatch, count: str | None, expected: bool) -> None:
    monkeypatch.delenv("SLURM_RESTART_COUNT", raising=False)
    if count is not None:
        monkeypatch.setenv("SLURM_RESTART_COUNT", count)
    assert was_requeued() is expected


@pytest.mark.parametrize(
    ("number", "passed_on"), [(signal.SIGUSR2, True), (signal.SIGUSR1, True), (signal.SIGTERM, False)]
)
def test_the_signal_goes_to_whom_it_was_meant_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, passed_on: bool
) -> None:
    monkeypatch.setattr(requeue, "PATIENCE", 0)
    seen: list[int] = []
    before = signal.signal(number, lambda signum, frame: seen.append(signum))
    try:
        ask_for_requeue(Stopped(number, tmp_path))
    finally:
        signal.signal(number, before)
    assert seen == ([number] if passed_on else [])
    ask_for_requeue(Stopped(signal.SIGUSR1, tmp_path))  # nobody has a handler: nothing happens
