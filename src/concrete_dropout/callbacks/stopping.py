"""Signals by which machines are taken away: a checkpoint of the step that was reached, in all processes alike."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.trainer.states import TrainerFn
from pytorch_lightning.utilities.exceptions import SIGTERMException

ANNOUNCED = (signal.SIGUSR1, signal.SIGUSR2)  # by which Slurm and submitit announce the end of a job


class StopSignal(SIGTERMException):
    """Ends a run, in all of its processes at the same step.

    Args:
        number: the signal that one of them was sent.
    """

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(f"stopped by {number.name}")
        self.number = number


class StopOnSignal(pl.Callback):
    """Ends a run between two training steps when any of its processes was sent a signal, and saves a checkpoint.

    Lightning's own handler talks to the other processes from within the handler, while they may be in the middle of
    a step, and lets each process stop at a step of its own. Here the processes agree at the start of every step. A
    validation that is under way comes to its end first; a test ends at its next batch, it has nothing to save.

    Args:
        path: of the checkpoint.
        numbers: the signals; more than SIGTERM where a cluster announces its end by another one.
    """

    def __init__(self, path: Path, numbers: tuple[signal.Signals, ...] = (signal.SIGTERM,)) -> None:
        self.path, self.numbers = path, numbers
        self.asked = 0  # the number of the signal that came

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Take the place of Lightning's handler, which the trainer sets after this, and calls.

        What was asked during the last step of a fit still holds for the test that follows.
        """
        connector: Any = trainer._signal_connector
        connector._sigterm_notifier_fn = self._ask

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Listen to the other signals too."""
        self._listen()

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Listen to the other signals too."""
        self._listen()

    def _listen(self) -> None:
        """The trainer has noted all handlers by now, and puts them back however it ends."""
        if threading.current_thread() is threading.main_thread():
            for number in self.numbers:
                if number != signal.SIGTERM:
                    signal.signal(number, self._ask)

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Stop here, where the last step is complete and the next has not begun."""
        number = self._agreed(trainer)
        if number:
            raise StopSignal(signal.Signals(number))

    def on_test_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        """Stop; what was trained is saved already."""
        if self.asked:
            raise StopSignal(signal.Signals(self.asked))

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Save what was trained."""
        if isinstance(exception, SIGTERMException) and trainer.state.fn == TrainerFn.FITTING:
            trainer.save_checkpoint(self.path)

    def _ask(self, signum: int, frame: FrameType | None) -> None:
        self.asked = signum

    def _agreed(self, trainer: pl.Trainer) -> int:
        """The signal that any process has got; 0 for none."""
        if trainer.world_size == 1:
            return self.asked
        asked = torch.tensor(self.asked, device=trainer.strategy.root_device)
        torch.distributed.all_reduce(asked, op=torch.distributed.ReduceOp.MAX)
        return int(asked.item())
