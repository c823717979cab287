"""Watches calibration: how often central predictive intervals hold the truth, and at which width."""

from __future__ import annotations

from pathlib import Path

import pytorch_lightning as pl
from pytorch_lightning.trainer.states import TrainerFn

from concrete_dropout.callbacks.loggers import log_figure, log_table
from concrete_dropout.callbacks.stages import result_of
from concrete_dropout.runfolder import CALIBRATION, RunFolder

SCALARS = {"rmse": "calibration_rmse", "sharpness": "sharpness", "nll": "nll", "crps": "crps"}


class CalibrationMonitor(pl.Callback):
    """Leaves ``calibration.json``, one entry per stage, after every validation and test.

    The coverage curve is logged as a figure and as a table after the fit (of its last validation) and after the test.

    Args:
        folder: the run folder.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = RunFolder(folder)
        self._shown: dict[str, tuple[list[float], list[float]]] = {}

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the file; the curve waits for the end of the fit, unless this is ``trainer.validate``."""
        if trainer.sanity_checking:
            return
        self._write(trainer, pl_module, "val")
        if trainer.state.fn == TrainerFn.VALIDATING:
            self._show(trainer, "val")

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the curve of the last validation."""
        self._show(trainer, "val")

    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the file and log the curve."""
        self._write(trainer, pl_module, "test")
        self._show(trainer, "test")

    def _write(self, trainer: pl.Trainer, task: pl.LightningModule, stage: str) -> None:
        result = result_of(task, stage)
        if not trainer.is_global_zero or result is None or not {"expected", "observed"} <= set(result.curves):
            return
        curve = {name: [float(value) for value in result.curves[name]] for name in ("expected", "observed")}
        scalars = {name: _number(result.scalars, key) for name, key in SCALARS.items()}
        self.folder.update_json(CALIBRATION, **{stage: {**curve, **scalars, "num_points": result.num_points}})
        self._shown[stage] = (curve["expected"], curve["observed"])

    def _show(self, trainer: pl.Trainer, stage: str) -> None:
        curve = self._shown.pop(stage, None)
        if curve is None or not trainer.is_global_zero:
            return
        from concrete_dropout.plots import calibration as plots  # plotly takes half a second to import

        step = trainer.global_step
        log_figure(trainer, self.folder, f"coverage_{stage}", plots.coverage_curve({stage: curve}), step)
        rows = list(zip(*curve, strict=True))
        log_table(trainer, f"coverage_{stage}", ["expected", "observed"], rows, step)


def _number(scalars: dict[str, float], key: str) -> float | None:
    return float(scalars[key]) if key in scalars else None
