"""Watches single classes of a segmentation: which of them are found, and which are not."""

from __future__ import annotations

import pytorch_lightning as pl

from concrete_dropout.callbacks.loggers import log_figure, log_table
from concrete_dropout.callbacks.results import Entries, ResultMonitor
from concrete_dropout.callbacks.stages import class_colours, class_names
from concrete_dropout.metrics.stage import StageResult
from concrete_dropout.runfolder import CLASSES

IOU = "iou/"
NO_MC = "_no_mc"


class ClassMonitor(ResultMonitor):
    """Leaves ``classes.json`` for segmentation: names, colours and IoU of every class, with and without MC.

    Bars are logged as a figure, and the numbers as a table, after the fit and after the test.

    Args:
        folder: the run folder.
    """

    FILE = CLASSES

    def entries(self, trainer: pl.Trainer, result: StageResult, stage: str) -> Entries:
        """The scalars ``iou/<class>`` in the order of the classes."""
        found = [name.removeprefix(IOU) for name in result.scalars if name.startswith(IOU)]
        without = {name for name in found if name.endswith(NO_MC) and name.removesuffix(NO_MC) in found}
        names = [name for name in found if name not in without]
        if not names:
            return {}
        known = class_names(trainer, len(names))
        colours = class_colours(trainer, len(names))
        order = {name: index for index, name in enumerate(known)}
        names.sort(key=lambda name: order.get(name, len(order)))
        entry = {"names": names, "iou": [result.scalars[f"{IOU}{name}"] for name in names], "colours": colours}
        if without:
            entry["iou_no_mc"] = [result.scalars.get(f"{IOU}{name}{NO_MC}") for name in names]
        return {stage: entry}

    def show(self, trainer: pl.Trainer, entries: Entries, stage: str) -> None:
        """Log bars and numbers."""
        from concrete_dropout.plots import classes as plots  # plotly takes half a second to import

        step, entry = trainer.global_step, entries[stage]
        without = entry.get("iou_no_mc", [])
        figure = plots.class_iou(entry["names"], entry["iou"], without)
        log_figure(trainer, self.folder, f"classes_{stage}", figure, step)
        columns = ["class", "iou", *(["iou_no_mc"] if without else [])]
        rows = list(zip(entry["names"], entry["iou"], *([without] if without else []), strict=True))
        log_table(trainer, f"classes_{stage}", columns, rows, step)
