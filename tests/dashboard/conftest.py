"""Folders of runs for the dashboard, and the browser of the reports' tests."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from benchmarks.dashboard import write_one
from tests.report.conftest import browser as browser


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """Eight generated runs of four experiments."""
    root = tmp_path / "outputs"
    for number, experiment in enumerate(("synthetic", "uci", "digits", "mnist") * 2):
        write_one(root / experiment / f"run_{number}", experiment, number, random.Random(number))
    return root
