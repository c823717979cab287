"""Small data and trainers for real runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from concrete_dropout.models import MLP, GaussianHead
from concrete_dropout.scaling import Affine
from concrete_dropout.settings import DropoutSettings, OptimSettings
from concrete_dropout.tasks import RegressionTask

NUM_INPUTS = 2


class Data(pl.LightningDataModule):
    """y = a x + b + noise with the scales of original units kept apart; standardised batches, as real data have."""

    def __init__(self, rows: int = 64, noise: float = 0.5, outputs: int = 1, batch_size: int = 16) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.batch_size = batch_size
        self.inputs = Affine(torch.tensor([10.0, -3.0]), torch.tensor([4.0, 0.1]))
        self.targets = Affine(torch.full((outputs,), 100.0), torch.linspace(20.0, 30.0, outputs))
        slopes = torch.randn(NUM_INPUTS, outputs, generator=generator) * 0.5

        def part(size: int) -> TensorDataset:
            x = torch.randn(size, NUM_INPUTS, generator=generator)
            return TensorDataset(x, x @ slopes + noise * torch.randn(size, outputs, generator=generator))

        self.train, self.val, self.test = part(rows), part(24), part(30)

    def train_dataloader(self) -> Any:
        return DataLoader(self.train, self.batch_size, shuffle=True)

    def val_dataloader(self) -> Any:
        return DataLoader(self.val, 10)

    def test_dataloader(self) -> Any:
        return DataLoader(self.test, 16)


def swapped_network(
    kind: Any = "concrete", noise: str = "heteroscedastic", outputs: int = 1, **dropout: Any
) -> nn.Module:
    parts = 2 if noise == "heteroscedastic" else 1
    mlp: nn.Module = MLP(NUM_INPUTS, parts * outputs, hidden=(16,))
    network = GaussianHead(mlp) if noise == "heteroscedastic" else mlp
    return DropoutSettings(kind, **{"p": 0.2, "init_p": 0.2, **dropout}).apply(network, torch.zeros(1, NUM_INPUTS))


def make_task(data: Data, kind: Any = "concrete", noise: Any = "heteroscedastic", **options: Any) -> RegressionTask:
    network = options.pop("network", None) or swapped_network(kind, noise, data.targets.mean.numel())
    defaults: dict[str, Any] = {
        "num_train": len(data.train),
        "inputs": data.inputs,
        "targets": data.targets,
        "noise": noise,
        "optim": OptimSettings(lr=1e-2),
        "val_samples": 5,
        "test_samples": 8,
    }
    return RegressionTask(network, **{**defaults, **options})


@pytest.fixture
def data() -> Data:
    return Data()


@pytest.fixture
def trainer(tmp_path: Path) -> Callable[..., pl.Trainer]:
    def make(**options: Any) -> pl.Trainer:
        defaults: dict[str, Any] = {
            "max_epochs": 2,
            "accelerator": "cpu",
            "logger": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "enable_checkpointing": False,
            "default_root_dir": tmp_path,
        }
        return pl.Trainer(**{**defaults, **options})

    return make


def rows_of(dataset: TensorDataset) -> tuple[Tensor, Tensor]:
    x, y = dataset.tensors
    return x, y
