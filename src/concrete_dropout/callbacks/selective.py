"""Watches selective prediction: does uncertainty find the errors?"""

from __future__ import annotations

import pytorch_lightning as pl

from concrete_dropout.callbacks.loggers import log_figure, log_table
from concrete_dropout.callbacks.results import Entries, ResultMonitor
from concrete_dropout.metrics.stage import StageResult
from concrete_dropout.runfolder import SELECTIVE

LEFT_OUT = "left_out"
SCORES = ("accuracy", "miou", "calibration_rmse")
ORDERS = ("_kept", "_kept_epistemic")  # by predictive entropy, by mutual information


class SelectiveMonitor(ResultMonitor):
    """Leaves ``selective.json``: accuracy, mIoU and calibration of what is kept when the most uncertain are left out.

    One entry per stage: ``left_out``, and ``<score>_kept`` in the order of the predictive entropy,
    ``<score>_kept_epistemic`` in that of the mutual information. Figures are logged after the fit and after the test.

    Args:
        folder: the run folder.
    """

    FILE = SELECTIVE

    def entries(self, trainer: pl.Trainer, result: StageResult, stage: str) -> Entries:
        """The curves as they are."""
        wanted = [LEFT_OUT, *(f"{score}{order}" for score in SCORES for order in ORDERS)]
        found = {name: [float(value) for value in result.curves[name]] for name in wanted if name in result.curves}
        return {stage: found} if LEFT_OUT in found and len(found) > 1 else {}

    def show(self, trainer: pl.Trainer, entries: Entries, stage: str) -> None:
        """Log one figure per score, and the curves as a table."""
        from concrete_dropout.plots import selective as plots  # plotly takes half a second to import

        step, entry = trainer.global_step, entries[stage]
        for score in SCORES:
            if f"{score}_kept" in entry:
                log_figure(trainer, self.folder, f"selective_{score}_{stage}", plots.left_out(entry, score), step)
        log_table(trainer, f"selective_{stage}", list(entry), list(zip(*entry.values(), strict=True)), step)
