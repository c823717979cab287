"""Run folders to report on, and a browser to look at reports with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.report.runs import write_run

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A complete run of four Concrete layers on one input."""
    return write_run(tmp_path / "run")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's chromium through playwright; the tests that need it are skipped where one of them is missing."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"no browser at {CHROMIUM} (apt-get install chromium, or set CHROMIUM)")
    with api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield launched
        launched.close()
