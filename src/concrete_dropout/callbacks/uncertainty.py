"""Watches predictive uncertainty on validation and test data: where it comes from, and whether errors follow it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.trainer.states import TrainerFn
from torch import Tensor

from concrete_dropout.callbacks.band import predictive_band
from concrete_dropout.callbacks.loggers import log_figure, log_table
from concrete_dropout.callbacks.rows import EvenRows
from concrete_dropout.callbacks.stages import StepOutput, column_names, regression_output, result_of
from concrete_dropout.callbacks.tables import replace_table
from concrete_dropout.runfolder import BAND, UNCERTAINTY, RunFolder, predictions_name

STDS = ("epistemic_std", "aleatoric_std", "predictive_std")
TABLE_ROWS = 200
MAX_OUTPUTS = 4  # with a figure of their own


class UncertaintyMonitor(pl.Callback):
    """Leaves ``predictions_<stage>.csv``, ``uncertainty.json`` and, for one-dimensional inputs, ``band.json``.

    Files are written after every validation and test. Figures are logged after the fit (of its last validation)
    and after the test. With several processes the table holds rows of the first one's share.

    Args:
        folder: the run folder.
        max_rows: of a table of predictions, evenly spaced over the data.
        band_points: of the grid of the band.
        band_margin: how far the grid reaches beyond the training data, as a part of their range.
        band_samples: stochastic passes for the band.
    """

    def __init__(
        self,
        folder: str | Path,
        max_rows: int = 2000,
        band_points: int = 200,
        band_margin: float = 0.25,
        band_samples: int = 100,
    ) -> None:
        self.folder = RunFolder(folder)
        self.max_rows = max_rows
        self.band_points, self.band_margin, self.band_samples = band_points, band_margin, band_samples
        self._rows = EvenRows(max_rows)
        self._header: list[str] = []
        self._tables: dict[str, list[dict[str, float]]] = {}

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Forget the last validation."""
        self._rows = EvenRows(self.max_rows)

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Forget what was seen before."""
        self._rows = EvenRows(self.max_rows)

    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Collect rows."""
        self._collect(trainer, regression_output(outputs))

    def on_test_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Collect rows."""
        self._collect(trainer, regression_output(outputs))

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the files; figures wait for the end of the fit, unless this is ``trainer.validate``."""
        if trainer.sanity_checking:
            return
        self._write(trainer, pl_module, "val")
        if trainer.state.fn == TrainerFn.VALIDATING:
            self._show(trainer, pl_module, "val")

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the figures of the last validation, and the band."""
        self._show(trainer, pl_module, "val")

    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the files and log the figures."""
        self._write(trainer, pl_module, "test")
        self._show(trainer, pl_module, "test")

    def _collect(self, trainer: pl.Trainer, output: StepOutput | None) -> None:
        if output is None or trainer.sanity_checking:
            return
        self._header, block = _columns(trainer, output)
        self._rows.add(block)

    def _write(self, trainer: pl.Trainer, task: pl.LightningModule, stage: str) -> None:
        if not trainer.is_global_zero:
            return
        if self._rows.num_seen:
            rows = self._rows.compute().tolist()
            replace_table(self.folder, predictions_name(stage), self._header, rows)
            self._tables[stage] = [dict(zip(self._header, row, strict=True)) for row in rows]
        self._rows = EvenRows(self.max_rows)
        result = result_of(task, stage)
        if result is not None and all(name in result.scalars for name in STDS):
            stds = {name: float(result.scalars[name]) for name in STDS}
            self.folder.update_json(UNCERTAINTY, **{stage: {**stds, "num_points": result.num_points}})

    def _show(self, trainer: pl.Trainer, task: pl.LightningModule, stage: str) -> None:
        if not trainer.is_global_zero:
            return
        from concrete_dropout.plots import uncertainty as plots  # plotly takes half a second to import
        from concrete_dropout.plots.arrays import outputs

        step = trainer.global_step
        band = predictive_band(
            trainer, task, num_points=self.band_points, margin=self.band_margin, samples=self.band_samples
        )
        if band is not None:
            self.folder.write_json(BAND, band)
            log_figure(trainer, self.folder, "band", plots.band(band), step)
        table = self._tables.pop(stage, [])
        if table:
            names = outputs(table)
            for i, output in enumerate(names[:MAX_OUTPUTS]):
                name = f"error_against_std_{stage}" + (f"_{i}" if len(names) > 1 else "")
                log_figure(trainer, self.folder, name, plots.error_against_std(table, output), step)
            shown = EvenRows(TABLE_ROWS)
            shown.add(torch.tensor([list(row.values()) for row in table], dtype=torch.float64))
            log_table(trainer, f"predictions_{stage}", list(table[0]), shown.compute().tolist(), step)


def _columns(trainer: pl.Trainer, output: StepOutput) -> tuple[list[str], Tensor]:
    """The table's header, and the rows (B, columns) of a batch."""
    prediction, inputs, targets = output
    features, names = column_names(trainer, inputs.shape[1] if inputs.dim() == 2 else 0, targets.shape[1])
    suffixes = [""] if len(names) == 1 else [f":{name}" for name in names]
    parts: dict[str, Tensor] = {f"x:{name}": inputs[:, i] for i, name in enumerate(features)}
    per_output = {
        "target": targets,
        "mean": prediction.mean,
        "epistemic_std": prediction.epistemic.sqrt(),
        "aleatoric_std": prediction.aleatoric.sqrt(),
        "predictive_std": prediction.predictive.sqrt(),
    }
    for i, suffix in enumerate(suffixes):
        parts |= {f"{name}{suffix}": values[:, i] for name, values in per_output.items()}
    if prediction.log_likelihood is not None:
        parts["log_likelihood"] = prediction.log_likelihood
    pit = getattr(prediction, "pit", None)
    if pit is not None:
        parts |= {f"pit{suffix}": pit[:, i] for i, suffix in enumerate(suffixes)}
    return list(parts), torch.stack([column.detach().double().cpu() for column in parts.values()], dim=1)
