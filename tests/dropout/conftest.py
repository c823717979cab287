"""Masks come from compiled code, or from torch operations where it could not be built: both have to be right."""

from __future__ import annotations

import pytest

from concrete_dropout.dropout import native


@pytest.fixture(params=["compiled", "torch"])
def code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which of the two draws masks; a test that asks for it runs with each."""
    if request.param == "torch":
        monkeypatch.setattr(native, "_library", None)
    elif not native.available():
        pytest.skip("there was no C compiler when the package was installed")
    return str(request.param)
