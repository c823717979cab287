"""Folders of runs for the dashboard."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from benchmarks.dashboard import write_one


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """Eight generated runs of four experiments."""
    root = tmp_path / "outputs"
    for number, experiment in enumerate(("synthetic", "uci", "digits", "mnist") * 2):
        write_one(root / experiment / f"run_{number}", experiment, number, random.Random(number))
    return root
