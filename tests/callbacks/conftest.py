"""A small real regression run: task, data and trainer as the entry point builds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from concrete_dropout.callbacks.rng import get_state, set_state
from concrete_dropout.data import SyntheticData
from concrete_dropout.models import MLP, GaussianHead
from concrete_dropout.settings import DropoutSettings, OptimSettings
from concrete_dropout.tasks import RegressionTask

MakeTask = Callable[..., RegressionTask]
MakeTrainer = Callable[..., pl.Trainer]


@pytest.fixture(autouse=True)
def _own_generators(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Seeds of these tests do not reach others, nor do the variables that ``seed_everything`` sets."""
    monkeypatch.setenv("PL_GLOBAL_SEED", "0")
    monkeypatch.setenv("PL_SEED_WORKERS", "0")
    state = get_state()
    yield
    set_state(state)


@pytest.fixture(scope="session")
def data() -> SyntheticData:
    return SyntheticData(num_data=64, num_val=30, num_test=45, batch_size=16, eval_batch_size=20)


@pytest.fixture(scope="session")
def make_task(data: SyntheticData) -> MakeTask:
    def make(kind: str = "concrete", p_lr: float = 0.05, **dropout: Any) -> RegressionTask:
        torch.manual_seed(0)
        network = GaussianHead(MLP(data.spec.num_inputs, 2 * data.spec.num_outputs, hidden=(8, 8)))
        settings = DropoutSettings(kind=kind, **{"init_p": 0.2, "p": 0.3, **dropout})  # type: ignore[arg-type]
        return RegressionTask(
            settings.apply(network, data.example_input),
            num_train=data.spec.num_train,
            inputs=data.spec.inputs,
            targets=data.spec.targets,
            optim=OptimSettings(lr=1e-3, p_lr=p_lr, schedule="constant"),
            val_samples=3,
            test_samples=4,
        )

    return make


@pytest.fixture(scope="session")
def make_trainer() -> MakeTrainer:
    def make(folder: Path, **settings: Any) -> pl.Trainer:
        defaults: dict[str, Any] = {
            "default_root_dir": folder,
            "accelerator": "cpu",
            "max_epochs": 5,
            "log_every_n_steps": 2,
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
        }
        return pl.Trainer(**{**defaults, **settings})

    return make
