"""What comes before a run: numbers too small for a normal float are 0, in every thread."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from omegaconf import OmegaConf

from concrete_dropout.cli.build import set_out
from concrete_dropout.errors import UserError

DENORMAL = 1e-39


def test_weights_that_decay_to_nothing_become_zero() -> None:
    weights = torch.full((1000,), DENORMAL)
    assert (weights * 0.5 > 0).all()
    set_out(OmegaConf.create({"threads": None, "seed": 0}))
    assert (weights * 0.5 == 0).all()


def test_threads_of_torch_do_so_too() -> None:
    script = (
        "import torch; from omegaconf import OmegaConf; from concrete_dropout.cli.build import set_out;"
        "set_out(OmegaConf.create({'threads': 2, 'seed': 0}));"
        f"weights = torch.full((4_000_000,), {DENORMAL});"
        "print(torch.get_num_threads(), int((weights * 0.5 != 0).sum()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "0"]


def test_no_thread_is_too_few() -> None:
    with pytest.raises(UserError, match="threads=0"):
        set_out(OmegaConf.create({"threads": 0, "seed": 0}))
