"""Regression: a table of inputs to the same table with predictions, in original units."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from concrete_dropout.data.encoding import CategoryColumn, describe_counts, is_missing, missing_mask, parse_numbers
from concrete_dropout.data.recipes import TableRecipe
from concrete_dropout.data.text_table import TextTable, read_text_table
from concrete_dropout.errors import UserError
from concrete_dropout.memory import GB, free_main_memory
from concrete_dropout.prediction.intervals import mixture_interval
from concrete_dropout.prediction.outcome import OneByOne, Outcome
from concrete_dropout.prediction.settings import Settings
from concrete_dropout.prediction.sources import Source
from concrete_dropout.runfolder import RunFolder
from concrete_dropout.tasks import RegressionTask

NEW_COLUMNS = ("mean", "epistemic_std", "aleatoric_std", "predictive_std", "lower", "upper")
CHUNK_ELEMENTS = 1 << 22  # samples * rows * outputs that are looked at together
BYTES_PER_ELEMENT = 64  # means and variances in float64, and what quantiles make of them
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TablePredictor(OneByOne):
    """Writes ``<name>_predictions.csv``: the columns of the input, then six for each target.

    ``<target>_mean``, ``_epistemic_std``, ``_aleatoric_std``, ``_predictive_std`` (the root of the sum of both
    variances), and ``_lower`` and ``_upper``: the central interval of the mixture of all samples' Gaussians.

    Args:
        task: with its weights.
        recipe: from columns to inputs.
        settings: of the prediction.
        output: folder of results.
        names: name of a file -> of its results.
    """

    task: RegressionTask
    recipe: TableRecipe
    settings: Settings
    output: RunFolder
    names: dict[str, str]

    def __post_init__(self) -> None:
        """Refuse more samples than can be held: an interval takes all those of a row side by side."""
        need, there = self.settings.samples * len(self.recipe.targets) * BYTES_PER_ELEMENT, free_main_memory()
        if need > there:
            raise UserError(
                f"mc_samples={self.settings.samples}: the interval of a single row would take about {need / GB:.1f} GB "
                f"of memory; {there / GB:.1f} may be used. Take fewer, 1000 are plenty."
            )

    def one(self, source: Source) -> Outcome:
        """The rows of a file, with the masks of their places."""
        table = read_text_table("input", source.path, one_column=len(self.recipe.encoder.columns) == 1)
        x, wanted = rows_of(table, self.recipe, self.settings)
        self._check(table, x[wanted])
        new = [f"{target}_{column}" for target in self.recipe.targets for column in NEW_COLUMNS]
        if taken := [name for name in new if name in table.columns]:
            raise UserError(
                f"{table.path} has a column {taken[0]!r} already, which the predictions would have too. Rename it."
            )
        values = np.full((len(table), len(new)), np.nan)
        if wanted.any():
            values[wanted] = self._values(torch.from_numpy(x[wanted]))
        name = f"{self.names[source.name]}_predictions.csv"
        self.output.write_text(name, _text(table, new, values))
        skipped = int((~wanted).sum())
        return Outcome({"rows": len(table), "skipped": skipped, "predictions": name}, (name,))

    def _values(self, x: Tensor) -> Floats:
        """(rows, targets * 6) at inputs in original units."""
        targets = len(self.recipe.targets)
        step = max(1, CHUNK_ELEMENTS // (max(1, self.settings.samples) * targets))
        parts = []
        for number, rows in enumerate(x.split(step)):
            means, variances = self.task.components(rows, self.settings.samples, self.settings.seed + number)
            parts.append(summary(means.cpu(), variances.cpu(), self.settings.interval))
        return torch.cat(parts).numpy()

    def _check(self, table: TextTable, x: Floats) -> None:
        """Refuse numbers that leave float32 once they are scaled."""
        scaled = self.task.inputs.normalise(torch.from_numpy(x).to(self.task.device))
        if not bool(scaled.isfinite().all()):
            column = self.recipe.encoder.outputs[int((~scaled.isfinite()).any(0).nonzero()[0])]
            raise UserError(
                f"Column {column!r} of {table.path} has numbers that are too far from those of training. Are its "
                "units the same?"
            )


def summary(means: Tensor, variances: Tensor, interval: float) -> Tensor:
    """What is written of a mixture (S, rows, O): (rows, O * 6), in the order of NEW_COLUMNS for each output."""
    epistemic, aleatoric = means.var(0, correction=0), variances.mean(0)
    low, high = mixture_interval(means, variances, interval)
    columns = (means.mean(0), epistemic.sqrt(), aleatoric.sqrt(), (epistemic + aleatoric).sqrt(), low, high)
    return torch.stack(columns, dim=-1).flatten(1)


def rows_of(table: TextTable, recipe: TableRecipe, settings: Settings) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Inputs (rows, D) in original units, and which of the rows are to be predicted.

    Raises:
        UserError: names the column, and where it can, the line.
    """
    columns = recipe.encoder.columns
    if absent := [column.name for column in columns if column.name not in table.columns]:
        there = ", ".join(list(table.columns)[:12])
        raise UserError(
            f"{table.path} has no column {', '.join(map(repr, absent[:12]))}, which the network was trained with. Add "
            f"it, or rename one of {there}."
        )
    missing = {column.name: missing_mask(table, column.name) for column in columns}
    wanted = ~np.logical_or.reduce(list(missing.values()))
    if not wanted.all() and settings.missing == "error":
        counts = describe_counts({name: int(mask.sum()) for name, mask in missing.items() if mask.any()})
        raise UserError(
            f"{table.path} misses values: {counts} (of {len(table)} rows, the first in line "
            f"{table.lines[int(np.argmin(wanted))]}). Fill them in, or set missing=skip for empty predictions, or "
            "missing=mean for the training data's means."
        )
    for column in columns:
        if not isinstance(column, CategoryColumn):
            parse_numbers(table, column.name, "The network was trained with numbers there: correct it.")
        elif settings.unknown == "error":
            _refuse_unknown(table, column)
    x = recipe.encoder.encode(table)
    return x, np.ones(len(table), dtype=bool) if settings.missing == "mean" else wanted


def _refuse_unknown(table: TextTable, column: CategoryColumn) -> None:
    known = set(column.categories)
    for line, text in zip(table.lines, table.columns[column.name], strict=True):
        if text not in known and not is_missing(text):
            raise UserError(
                f"Column {column.name!r} of {table.path}, line {line}: the training data had no category {text!r}, but "
                f"{', '.join(column.categories[:12])}. Correct it, or set unknown=zeros to count it as none of these."
            )


def _text(table: TextTable, new: Sequence[str], values: Floats) -> str:
    """The table with its new columns as CSV; empty fields where nothing was predicted."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*table.columns, *new])
    for fields, numbers in zip(zip(*table.columns.values(), strict=True), values.tolist(), strict=True):
        writer.writerow([*fields, *("" if number != number else f"{number:.9g}" for number in numbers)])
    return file.getvalue()
