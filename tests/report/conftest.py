"""Run folders to report on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.report.runs import write_run


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A complete run of four Concrete layers on one input."""
    return write_run(tmp_path / "run")
