"""SIGTERM, by which machines are taken away: a checkpoint of the step that was reached, in all processes alike."""

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


class StopOnSignal(pl.Callback):
    """Ends a run between two training steps when any of its processes was sent SIGTERM, and saves a checkpoint.

    Lightning's own handler talks to the other processes from within the handler, while they may be in the middle of
    a step, and lets each process stop at a step of its own. Here the processes agree at the start of every step. A
    validation that is under way comes to its end first; a test ends at its next batch, it has nothing to save.

    Args:
        path: of the checkpoint.
        numbers: the signals; more than SIGTERM where a cluster announces its end by another one.
    """

    def __init__(self, path: Path, numbers: tuple[signal.Signals, ...] = (signal.SIGTERM,)) -> None:
        self.path, self.numbers = path, numbers
        self.asked = False
        self._before: dict[signal.Signals, Any] = {}

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Take the place of Lightning's handler, which the trainer sets after this, and calls.

        What was asked during the last step of a fit still holds for the test that follows.
        """
        connector: Any = trainer._signal_connector
        connector._sigterm_notifier_fn = self._ask
        if threading.current_thread() is threading.main_thread():
            for number in self.numbers:
                if number != signal.SIGTERM:
                    self._before[number] = signal.signal(number, self._ask)

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Handlers as before."""
        while self._before:
            signal.signal(*self._before.popitem())

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Stop here, where the last step is complete and the next has not begun."""
        if self._agreed(trainer):
            raise SIGTERMException

    def on_test_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        """Stop; what was trained is saved already."""
        if self.asked:
            raise SIGTERMException

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Save what was trained."""
        if isinstance(exception, SIGTERMException) and trainer.state.fn == TrainerFn.FITTING:
            trainer.save_checkpoint(self.path)

    def _ask(self, signum: int, frame: FrameType | None) -> None:
        self.asked = True

    def _agreed(self, trainer: pl.Trainer) -> bool:
        if trainer.world_size == 1:
            return self.asked
        asked = torch.tensor(int(self.asked), device=trainer.strategy.root_device)
        torch.distributed.all_reduce(asked, op=torch.distributed.ReduceOp.MAX)
        return bool(asked.item())
