"""Independent references for several tests, which code draws masks, and a browser to look at pages with."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from concrete_dropout.dropout import native

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))


@pytest.fixture(scope="session")
def logistic_nodes() -> tuple[Tensor, Tensor]:
    """Nodes and weights of quadrature over logit(u), u ~ U(0, 1), in float64.

    The trapezoidal rule converges exponentially for analytic integrands on the whole line. Those of a
    Concrete mask with t >= 0.1 have no pole within 0.3 of it, hence an error far below 1e-12 at this spacing.
    """
    v = torch.linspace(-45.0, 45.0, 1801, dtype=torch.float64)
    density = torch.sigmoid(v) * torch.sigmoid(-v)
    return v, density * (v[1] - v[0])


@pytest.fixture(scope="session")
def expected_z(logistic_nodes: tuple[Tensor, Tensor]) -> Callable[[float, float], float]:
    """E[z] of the drop indicator for a probability and a temperature."""
    v, weights = logistic_nodes

    def expectation(p: float, temperature: float) -> float:
        logit = torch.logit(torch.tensor(p, dtype=torch.float64))
        return float(torch.sigmoid((v + logit) / temperature) @ weights)

    return expectation


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    """Compiled code of other tests does not count towards this test's recompilations, nor vice versa."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture(params=["compiled", "torch"])
def code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which of the two draws masks; a test that asks for it runs with each."""
    if request.param == "torch":
        monkeypatch.setattr(native, "_library", None)
    elif not native.available():
        pytest.skip("there was no C compiler when the package was installed")
    return str(request.param)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's chromium through playwright, which allows one per process; tests are skipped where one is missing."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"no browser at {CHROMIUM} (apt-get install chromium, or set CHROMIUM)")
    with api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield launched
        launched.close()
