from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from concrete_dropout import swap_dropout
from concrete_dropout.callbacks.checkpoints import AtomicCheckpointIO
from concrete_dropout.callbacks.rng import KEY, RandomState, get_state, rank_seed, set_state

ROWS, BATCH = 24, 8
STEPS_PER_EPOCH = ROWS // BATCH


class Noisy(pl.LightningModule):
    """Draws from all three generators in every step, in dropout, NumPy and Python."""

    def __init__(self, *, estimates_steps: bool) -> None:
        super().__init__()
        model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 1))
        self.network = swap_dropout(model, "concrete", init_p=0.3, example_input=torch.zeros(1, 3))
        self.estimates_steps = estimates_steps
        self.seen: list[Tensor] = []

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        self.seen.append(x.clone())
        return (self.network(x) * random.uniform(0.5, 1.5) - y * np.random.uniform(0.5, 1.5)).square().mean()

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", (self.network(batch[0]) - batch[1]).square().mean())

    def configure_optimizers(self) -> Any:
        if self.estimates_steps:  # makes the training iterator, long before the fit starts
            assert self.trainer.estimated_stepping_batches > 0
        return torch.optim.Adam(self.parameters(), lr=0.01)


def loader(*, shuffle: bool, workers: int = 0) -> DataLoader[Any]:
    generator = torch.Generator().manual_seed(0)
    rows = TensorDataset(torch.randn(ROWS, 3, generator=generator), torch.randn(ROWS, 1, generator=generator))
    return DataLoader(rows, batch_size=BATCH, shuffle=shuffle, num_workers=workers)


def fit(
    folder: Path,
    epochs: int,
    *,
    when: str = "no_validation",
    resume: Path | None = None,
    estimates_steps: bool = False,
    random_state: bool = True,
    workers: int = 0,
) -> Noisy:
    pl.seed_everything(3, workers=True, verbose=False)
    torch.rand(17 if resume else 0)  # a new process has drawn more or less before the fit, e.g. for another model
    task = Noisy(estimates_steps=estimates_steps)
    checkpoint = ModelCheckpoint(
        folder,
        filename="{epoch}",
        save_top_k=-1,
        save_on_train_epoch_end=when in ("train_epoch_end", "no_validation"),
        every_n_train_steps=STEPS_PER_EPOCH if when == "train_batch_end" else None,
    )
    trainer = pl.Trainer(
        max_epochs=epochs,
        limit_val_batches=0 if when == "no_validation" else 1.0,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[checkpoint, *([RandomState()] if random_state else [])],
        plugins=[AtomicCheckpointIO()],
    )
    trainer.fit(task, loader(shuffle=True, workers=workers), loader(shuffle=False), ckpt_path=resume)
    return task


def weights(task: Noisy) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in task.parameters()])


@pytest.mark.parametrize("estimates_steps", [False, True])
@pytest.mark.parametrize("when", ["no_validation", "train_epoch_end", "validation_end", "train_batch_end"])
def test_a_resumed_run_is_bit_identical(tmp_path: Path, when: str, estimates_steps: bool) -> None:
    whole = fit(tmp_path / "whole", 4, when=when, estimates_steps=estimates_steps)
    fit(tmp_path / "half", 2, when=when, estimates_steps=estimates_steps)
    resumed = fit(
        tmp_path / "half", 4, when=when, resume=tmp_path / "half" / "epoch=1.ckpt", estimates_steps=estimates_steps
    )
    assert len(resumed.seen) == 2 * STEPS_PER_EPOCH
    assert torch.equal(torch.cat(resumed.seen), torch.cat(whole.seen[2 * STEPS_PER_EPOCH :]))
    assert torch.equal(weights(resumed), weights(whole))


def test_without_the_callback_it_is_not(tmp_path: Path) -> None:
    whole = fit(tmp_path / "whole", 4, random_state=False)
    fit(tmp_path / "half", 2, random_state=False)
    resumed = fit(tmp_path / "half", 4, resume=tmp_path / "half" / "epoch=1.ckpt", random_state=False)
    assert not torch.equal(weights(resumed), weights(whole))


def test_loader_workers_are_resumed_too(tmp_path: Path) -> None:
    whole = fit(tmp_path / "whole", 2, workers=1)
    fit(tmp_path / "half", 1, workers=1)
    resumed = fit(tmp_path / "half", 2, workers=1, resume=tmp_path / "half" / "epoch=0.ckpt")
    assert torch.equal(weights(resumed), weights(whole))


def test_state_is_plain_and_survives_a_file(tmp_path: Path) -> None:
    pl.seed_everything(1, verbose=False)
    random.gauss(0, 1)  # leaves half of a pair behind, and so does NumPy's
    np.random.standard_normal()
    torch.save(get_state(), tmp_path / "state.pt")
    expected = (random.gauss(0, 1), random.random(), np.random.standard_normal(3).tolist(), torch.rand(3).tolist())
    set_state(torch.load(tmp_path / "state.pt", weights_only=True))
    again = (random.gauss(0, 1), random.random(), np.random.standard_normal(3).tolist(), torch.rand(3).tolist())
    assert again == expected


def test_seeds_of_ranks_differ_and_are_no_sums() -> None:
    def state(seed: int) -> Tensor:
        return torch.Generator().manual_seed(seed).get_state()

    seeds = {rank_seed(state(seed), rank) for seed in range(20) for rank in range(20)}
    assert len(seeds) == 400
    assert rank_seed(state(0), 1) == rank_seed(state(0), 1)


def test_another_number_of_processes_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fit(tmp_path, 1)
    path = tmp_path / "epoch=0.ckpt"
    checkpoint = torch.load(path, weights_only=True)
    checkpoint[KEY]["ranks"] *= 2
    torch.save(checkpoint, path)
    fit(tmp_path, 2, resume=path)
    assert "random state of 2 process(es), and 1 are running" in caplog.text


class KeepStates(pl.Callback):
    """Writes where each rank's generator is after every step."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.states = folder, list[Tensor]()

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        self.states.append(torch.get_rng_state())

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.folder.mkdir(exist_ok=True, parents=True)
        torch.save(torch.stack(self.states), self.folder / f"{trainer.global_rank}.pt")


def fit_on_two_ranks(folder: Path, epochs: int, resume: Path | None = None) -> tuple[Tensor, Tensor]:
    pl.seed_everything(3, verbose=False)
    trainer = pl.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        devices=2,
        strategy="ddp_fork",
        logger=False,
        limit_val_batches=0,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[ModelCheckpoint(folder, filename="{epoch}", save_top_k=-1), RandomState(), KeepStates(folder)],
        plugins=[AtomicCheckpointIO()],
    )
    trainer.fit(Noisy(estimates_steps=False), loader(shuffle=True), loader(shuffle=False), ckpt_path=resume)
    first, second = (torch.load(folder / f"{rank}.pt", weights_only=True) for rank in (0, 1))
    return first, second


def test_ranks_draw_different_masks_also_after_a_resume(tmp_path: Path) -> None:
    whole = fit_on_two_ranks(tmp_path / "whole", 2)
    assert not torch.equal(whole[0][0], whole[1][0])
    fit_on_two_ranks(tmp_path / "half", 1)
    resumed = fit_on_two_ranks(tmp_path / "half", 2, resume=tmp_path / "half" / "epoch=0.ckpt")
    for rank in (0, 1):
        assert torch.equal(resumed[rank], whole[rank][len(whole[rank]) // 2 :])
