"""One warm process and a few trained runs for all tests of this folder: starting them takes longer than most tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hardening.commands import WarmCommands
from tests.hardening.trained import Runs


@pytest.fixture(scope="session")
def commands() -> Iterator[WarmCommands]:
    with WarmCommands() as warm:
        yield warm


@pytest.fixture(scope="session")
def runs(commands: WarmCommands, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(commands, Path(tmp_path_factory.mktemp("runs")))
