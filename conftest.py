"""What every test and every example in a docstring starts from."""

from __future__ import annotations

import math
import signal
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from concrete_dropout import dropout


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_works() -> None:
    """Shells start background jobs with SIGINT ignored, which every child would inherit: some tests send it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
    torch.set_flush_denormal(False)  # which a run in an earlier test may have switched on


@pytest.fixture(autouse=True)
def _names_for_examples(doctest_namespace: dict[str, Any]) -> None:
    public = {name: getattr(dropout, name) for name in dropout.__all__}
    doctest_namespace.update(public, torch=torch, nn=nn, math=math, pytest=pytest, checkpoint=checkpoint)
