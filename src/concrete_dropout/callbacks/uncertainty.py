"""Watches predictive uncertainty on validation and test data: where it comes from, and whether errors follow it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
import torch

from concrete_dropout.callbacks.band import predictive_band
from concrete_dropout.callbacks.columns import class_columns, regression_columns
from concrete_dropout.callbacks.evaluation import gathered
from concrete_dropout.callbacks.loggers import log_figure, log_table
from concrete_dropout.callbacks.rows import EvenRows, in_turn
from concrete_dropout.callbacks.stage_callback import StageCallback
from concrete_dropout.callbacks.stages import categorical_output, regression_output, result_of
from concrete_dropout.callbacks.tables import replace_table
from concrete_dropout.runfolder import BAND, UNCERTAINTY, RunFolder, predictions_name

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

STDS = ("epistemic_std", "aleatoric_std", "predictive_std")
ENTROPIES = ("predictive_entropy", "expected_entropy", "mutual_information")
TABLE_ROWS = 200
MAX_OUTPUTS = 4  # with a figure of their own


class UncertaintyMonitor(StageCallback):
    """Leaves ``predictions_<stage>.csv``, ``uncertainty.json`` and, for one-dimensional inputs, ``band.json``.

    Files are written after every validation and test. Figures are logged after the fit (of its last validation)
    and after the test. Uncertainties are standard deviations in regression, and entropies where classes are predicted;
    pixels have no table.

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

    def on_stage_start(self, trainer: pl.Trainer, task: pl.LightningModule, stage: str) -> None:
        """Forget the last evaluation."""
        self._rows = EvenRows(self.max_rows)

    def on_stage_batch(
        self, trainer: pl.Trainer, task: pl.LightningModule, stage: str, outputs: Any, dataloader_idx: int
    ) -> None:
        """Collect rows."""
        if (points := regression_output(outputs)) is not None:
            self._header, block = regression_columns(trainer, points)
        elif (classes := categorical_output(outputs)) is not None and classes.targets.dim() == 1:
            self._header, block = class_columns(classes)
        else:
            return
        self._rows.add(block)

    def on_stage_end(self, trainer: pl.Trainer, task: pl.LightningModule, stage: str) -> None:
        """Write the files."""
        shares = gathered(trainer, self._rows.compute())
        if not trainer.is_global_zero:
            return
        if self._rows.num_seen:
            rows = in_turn(shares, self.max_rows).tolist()
            replace_table(self.folder, predictions_name(stage), self._header, rows)
            self._tables[stage] = [dict(zip(self._header, row, strict=True)) for row in rows]
        self._rows = EvenRows(self.max_rows)
        result = result_of(task, stage)
        for names in (STDS, ENTROPIES):
            if result is not None and all(name in result.scalars for name in names):
                found = {name: float(result.scalars[name]) for name in names}
                self.folder.update_json(UNCERTAINTY, **{stage: {**found, "num_points": result.num_points}})

    def on_stage_result(self, trainer: pl.Trainer, task: pl.LightningModule, stage: str) -> None:
        """Log the figures, and the band."""
        from concrete_dropout.plots import uncertainty as plots  # plotly takes half a second to import

        band = predictive_band(
            trainer, task, num_points=self.band_points, margin=self.band_margin, samples=self.band_samples
        )
        if band is not None:
            self.folder.write_json(BAND, band)
            log_figure(trainer, self.folder, "band", plots.band(band), trainer.global_step)
        table = self._tables.pop(stage, [])
        if table:
            for name, figure in _figures(table, stage).items():
                log_figure(trainer, self.folder, name, figure, trainer.global_step)
            shown = EvenRows(TABLE_ROWS)
            shown.add(torch.tensor([list(row.values()) for row in table], dtype=torch.float64))
            rows = shown.compute().tolist()
            log_table(trainer, f"predictions_{stage}", list(table[0]), rows, trainer.global_step)


def _figures(table: list[dict[str, float]], stage: str) -> dict[str, Figure]:
    """Whether errors follow uncertainty: one figure per output, or one for classes."""
    from concrete_dropout.plots import selective, uncertainty
    from concrete_dropout.plots.arrays import outputs

    if "correct" in table[0]:
        return {f"entropy_by_outcome_{stage}": selective.entropy_by_outcome(table)}
    names = outputs(table)
    suffixes = [f"_{i}" for i in range(len(names))] if len(names) > 1 else [""]
    return {
        f"error_against_std_{stage}{suffix}": uncertainty.error_against_std(table, output)
        for output, suffix in list(zip(names, suffixes, strict=True))[:MAX_OUTPUTS]
    }
