"""Watches calibration: how often intervals hold the truth, or how often predictions of a confidence are right."""

from __future__ import annotations

from collections.abc import Sequence

import pytorch_lightning as pl

from concrete_dropout.callbacks.loggers import log_figure, log_table
from concrete_dropout.callbacks.results import Entries, ResultMonitor, numbers_of
from concrete_dropout.metrics.stage import StageResult
from concrete_dropout.runfolder import CALIBRATION

COVERAGE: tuple[str, ...] = ("expected", "observed")
COVERAGE_SCALARS = {"rmse": "calibration_rmse", "sharpness": "sharpness", "nll": "nll", "crps": "crps"}
RELIABILITY: tuple[str, ...] = ("confidence", "frequency", "share")
RELIABILITY_SCALARS = {"rmse": "calibration_rmse", "ece": "ece", "mce": "mce", "nll": "nll", "brier": "brier"}
NO_MC = "_no_mc"  # one pass without dropout


class CalibrationMonitor(ResultMonitor):
    """Leaves ``calibration.json``, one entry per stage, after every validation and test.

    Regression has the coverage of central predictive intervals; classes have the reliability of confidence, and a
    second entry, ``<stage>_no_mc``, where predictions without Monte Carlo samples were scored too. The curve is logged
    as a figure and as a table after the fit (of its last validation) and after the test.

    Args:
        folder: the run folder.
    """

    FILE = CALIBRATION

    def entries(self, trainer: pl.Trainer, result: StageResult, stage: str) -> Entries:
        """The curve with its scores."""
        if _has(result, COVERAGE):
            curve = {name: [float(value) for value in result.curves[name]] for name in COVERAGE}
            scalars = numbers_of(result.scalars, COVERAGE_SCALARS)
            return {stage: {**curve, **scalars, "num_points": result.num_points}}
        found: Entries = {}
        for suffix in ("", NO_MC):
            if _has(result, RELIABILITY, suffix):
                curve = {name: [float(value) for value in result.curves[f"{name}{suffix}"]] for name in RELIABILITY}
                scalars = numbers_of(result.scalars, RELIABILITY_SCALARS, suffix)
                found[f"{stage}{suffix}"] = {**curve, **scalars, "num_points": result.num_points}
        return found

    def show(self, trainer: pl.Trainer, entries: Entries, stage: str) -> None:
        """Log the curve."""
        from concrete_dropout.plots import calibration, reliability  # plotly takes half a second to import

        step = trainer.global_step
        if "expected" in entries[stage]:
            name, columns = f"coverage_{stage}", COVERAGE
            figure = calibration.coverage_curve({stage: (entries[stage]["expected"], entries[stage]["observed"])})
        else:
            name, columns = f"reliability_{stage}", RELIABILITY
            labels = {stage: "with MC", f"{stage}{NO_MC}": "without MC"} if len(entries) > 1 else {stage: stage}
            figure = reliability.reliability_curve({labels[key]: curve for key, curve in entries.items()})
        log_figure(trainer, self.folder, name, figure, step)
        rows = list(zip(*(entries[stage][column] for column in columns), strict=True))
        log_table(trainer, name, columns, rows, step)


def _has(result: StageResult, names: Sequence[str], suffix: str = "") -> bool:
    return all(f"{name}{suffix}" in result.curves for name in names)
