"""What monitors of an evaluation's result share: when files are written, and when figures are logged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import pytorch_lightning as pl

from concrete_dropout.callbacks.stage_callback import StageCallback
from concrete_dropout.callbacks.stages import result_of
from concrete_dropout.metrics.stage import StageResult
from concrete_dropout.runfolder import RunFolder

Entries = dict[str, dict[str, Any]]


class ResultMonitor(StageCallback, ABC):
    """Writes entries of a JSON file after every validation and test, from the task's result.

    Figures and tables are logged after the fit (of its last validation) and after the test. Rank zero alone does
    anything: the result is of all processes.

    Args:
        folder: the run folder.
    """

    FILE: ClassVar[str]

    def __init__(self, folder: str | Path) -> None:
        self.folder = RunFolder(folder)
        self._waiting: dict[str, Entries] = {}

    @abstractmethod
    def entries(self, trainer: pl.Trainer, result: StageResult, stage: str) -> Entries:
        """What to change in the file, by key; nothing for a task that this monitor is not for."""

    @abstractmethod
    def show(self, trainer: pl.Trainer, entries: Entries, stage: str) -> None:
        """Log figures and tables of what was written last."""

    def on_stage_end(self, trainer: pl.Trainer, task: pl.LightningModule, stage: str) -> None:
        """Write the file."""
        result = result_of(task, stage)
        if not trainer.is_global_zero or result is None:
            return
        entries = self.entries(trainer, result, stage)
        if entries:
            self.folder.update_json(self.FILE, **entries)
            self._waiting[stage] = entries

    def on_stage_result(self, trainer: pl.Trainer, task: pl.LightningModule, stage: str) -> None:
        """Log the figures of what was written last."""
        entries = self._waiting.pop(stage, None)
        if entries is not None:
            self.show(trainer, entries, stage)


def numbers_of(scalars: dict[str, float], names: dict[str, str], suffix: str = "") -> dict[str, float | None]:
    """{key: the scalar of its name}; None where there is none.

    >>> numbers_of({"nll": 1.5, "nll_no_mc": 2.0}, {"nll": "nll", "rmse": "calibration_rmse"}, "_no_mc")
    {'nll': 2.0, 'rmse': None}
    """
    return {
        key: float(scalars[f"{name}{suffix}"]) if f"{name}{suffix}" in scalars else None for key, name in names.items()
    }
