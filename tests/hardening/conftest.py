"""The warm commands that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.hardening.commands import WarmCommands


@pytest.fixture(scope="session")
def commands() -> Iterator[WarmCommands]:
    with WarmCommands() as warm:
        yield warm
