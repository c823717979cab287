"""SIGTERM in the middle of an epoch: a checkpoint of that step, from which the run goes on with the same bits."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.utilities.exceptions import SIGTERMException

from concrete_dropout.callbacks import AtomicCheckpointIO, RandomState
from concrete_dropout.callbacks.stopping import ANNOUNCED, StopOnSignal, StopSignal
from concrete_dropout.cli.resume import FinishedEpochs
from concrete_dropout.data import SyntheticData

from .conftest import MakeTask, MakeTrainer

STEPS_PER_EPOCH, EPOCHS = 5, 3


class Terminate(pl.Callback):
    """Sends this process a signal in the course of a step, and keeps the rows of all batches."""

    def __init__(self, step: int | None, number: signal.Signals) -> None:
        self.step, self.number, self.rows = step, number, list[list[float]]()

    def on_before_backward(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step == self.step:
            os.kill(os.getpid(), self.number)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.rows.append(batch[0].flatten().tolist())


def fit(
    folder: Path,
    make_task: MakeTask,
    make_trainer: MakeTrainer,
    step: int | None,
    resume: bool = False,
    number: signal.Signals = signal.SIGTERM,
) -> tuple[pl.LightningModule, Terminate]:
    pl.seed_everything(7, verbose=False)
    data = SyntheticData(num_data=20, num_val=10, num_test=10, batch_size=6, min_steps_per_epoch=STEPS_PER_EPOCH)
    last, watch = folder / "last.ckpt", Terminate(step, number)
    trainer = make_trainer(
        folder,
        max_epochs=EPOCHS,
        enable_checkpointing=True,
        plugins=[AtomicCheckpointIO()],
        callbacks=[
            watch,
            FinishedEpochs(),
            RandomState(),
            ModelCheckpoint(folder, "last", enable_version_counter=False, save_on_train_epoch_end=True),
            StopOnSignal(last, (signal.SIGTERM, *ANNOUNCED)),
        ],
    )
    task = make_task()
    trainer.fit(task, data, ckpt_path=last if resume else None)
    return task, watch


@pytest.mark.filterwarnings("ignore:You.re resuming from a checkpoint that ended before the epoch")
@pytest.mark.parametrize("step", [0, 7, STEPS_PER_EPOCH - 1, 2 * STEPS_PER_EPOCH + 3])
def test_a_stopped_run_goes_on_with_the_same_bits(
    tmp_path: Path, make_task: MakeTask, make_trainer: MakeTrainer, step: int
) -> None:
    whole, seen = fit(tmp_path / "whole", make_task, make_trainer, None)
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SIGTERMException):
        fit(tmp_path / "stopped", make_task, make_trainer, step)
    assert signal.getsignal(signal.SIGTERM) == handler
    saved = torch.load(tmp_path / "stopped" / "last.ckpt", weights_only=True)
    assert saved["global_step"] == step + 1
    resumed, rest = fit(tmp_path / "stopped", make_task, make_trainer, None, resume=True)
    assert rest.rows == seen.rows[step + 1 :]
    torch.testing.assert_close(resumed.state_dict(), whole.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("number", ANNOUNCED)
def test_signals_that_announce_the_end_of_a_job(
    tmp_path: Path, make_task: MakeTask, make_trainer: MakeTrainer, number: signal.Signals
) -> None:
    """Who had a handler for them gets it back, however the run ends."""
    seen: list[int] = []
    before = signal.signal(number, lambda signum, frame: seen.append(signum))
    try:
        with pytest.raises(StopSignal) as stopped:
            fit(tmp_path, make_task, make_trainer, 3, number=number)
        assert stopped.value.number == number
        assert torch.load(tmp_path / "last.ckpt", weights_only=True)["global_step"] == 4
        assert seen == []
        os.kill(os.getpid(), number)
        assert seen == [number]
    finally:
        signal.signal(number, before)
