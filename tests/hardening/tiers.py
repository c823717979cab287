"""Which of the many cases run every time; ``make test-hardening`` runs all of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

THOROUGH = os.environ.get("TEST_HARDENING") == "1"
thorough = pytest.mark.skipif(not THOROUGH, reason="takes long: make test-hardening")
Entry = TypeVar("Entry")


def some(entries: Sequence[Entry], every: int) -> list[Entry]:
    """Every n-th entry, or all."""
    return list(entries if THOROUGH else entries[::every])
