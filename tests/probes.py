"""Callbacks that tests put into real runs by their config, to look into every process or to break it."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch

from concrete_dropout.dropout.objective import dropout_probabilities


class RankProbe(pl.Callback):
    """Leaves what a process was at the end of a fit: its weights, generator, masks, batches and number."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.rows: list[list[float]] = []

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, *_: int) -> None:
        self.rows.append(batch[0].flatten().tolist())

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        content = {
            "weights": {name: value.detach().clone() for name, value in pl_module.state_dict().items()},
            "p": dropout_probabilities(pl_module),
            "generator": torch.get_rng_state(),
            "rows": self.rows,
            "world_size": trainer.world_size,
            "kl": trainer.callback_metrics["train/kl"].item(),
        }
        torch.save(content, self.folder / f"{trainer.global_rank}.pt")


class Broken(pl.Callback):
    """Fails in one process of one job, at a step, until a file is there."""

    def __init__(self, rank: int, seed: int, mended: str, step: int = 2, own_seed: int = 0) -> None:
        self.rank, self.step, self.hit = rank, step, seed == own_seed and not Path(mended).exists()

    def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        if self.hit and trainer.global_rank == self.rank and trainer.global_step >= self.step:
            Path("broken_at").touch()
            raise RuntimeError(f"broken on purpose in {os.getpid()}")


class KeepConfig(pl.Callback):
    """Leaves which job a process thinks that it belongs to."""

    def __init__(self, folder: str, label: int) -> None:
        self.folder, self.label = Path(folder), label

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        name = f"rank_{trainer.global_rank}.json"
        (self.folder / name).write_text(json.dumps({"label": self.label, "world_size": trainer.world_size}))


class KillWandb(pl.Callback):
    """Ends the process that W&B logs through, in the course of training."""

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step == 2:
            found = [path for path in Path("/proc").glob("[0-9]*/comm") if _is_wandb_of(path, os.getpid())]
            assert found, "no process of W&B"
            for path in found:
                os.kill(int(path.parent.name), signal.SIGKILL)


class LoseTemporaryFolder(pl.Callback):
    """Takes the folder away in which W&B stages figures and tables, as a cleaner of old temporary files does."""

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        from wandb.sdk.data_types._private import MEDIA_TMP

        shutil.rmtree(MEDIA_TMP.name)


def _is_wandb_of(path: Path, parent: int) -> bool:
    try:
        fields = (path.parent / "stat").read_text().rpartition(")")[2].split()
        return path.read_text().startswith("wandb-core") and int(fields[1]) == parent
    except OSError:
        return False
