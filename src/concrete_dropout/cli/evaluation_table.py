"""An evaluation on the terminal: what is evaluated, and tables of what came out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from concrete_dropout.report.evaluation_rows import MAIN, NO_DROPOUT, SCORES, SHORT, Estimate, Row, error_words, rows_of
from concrete_dropout.report.text import plus_minus

PARTS = {"val": "Validation data", "test": "Test data"}


def print_tables(results: Mapping[str, Any], console: Console) -> None:
    """Metrics of clean data, what temperature scaling did, and how well shifted data are told."""
    rows = rows_of(results)
    parts = results["plan"]["parts"]
    for part in parts:
        clean = [row for row in rows if row.part == part and not row.shift]
        if clean:
            console.print(_clean(clean, MAIN[results["kind"]], PARTS[part]))
    if error_words(results):
        console.print(error_words(results), style="dim")
    fitted = [row for row in rows if row.fitted and row.part in parts]
    if fitted:
        console.print(_fitted(fitted, results["kind"]))
    shifted = [row for row in rows if row.shift]
    if shifted:
        console.print(_shifted(shifted))


def number(estimate: Estimate | None) -> str:
    """Four digits, or as many as the error has."""
    if estimate is None or not math.isfinite(estimate.mean):
        return "-"
    if math.isfinite(estimate.error):
        return plus_minus(estimate.mean, estimate.error, decimals=3)
    return f"{estimate.mean:.4g}"


def _clean(rows: list[Row], metrics: tuple[str, ...], title: str) -> Table:
    names = [name for name in metrics if any(name in row.metrics for row in rows)]
    table = _table(title, *(["run"] if len({row.group for row in rows}) > 1 else []), "mask")
    for heading in ("samples", *(SHORT[name] for name in names)):
        table.add_column(heading, justify="right")
    for row in rows:
        first = [escape(row.group)] if len({row.group for row in rows}) > 1 else []
        table.add_row(*first, row.mask, str(row.samples), *(number(row.metrics.get(name)) for name in names))
    return table


def _fitted(rows: list[Row], kind: str) -> Table:
    word = "scale of stds" if kind == "regression" else "temperature"
    table = _table(f"Fitted on validation data: {word}", "run", "data", "mask")
    names = [
        n for n in ("nll", "ece", "brier", "accuracy", "crps", "calibration_rmse") if n in rows[0].fitted[0]["before"]
    ]
    names = names[:4]
    for heading in ("samples", word, *(SHORT[name] for name in names)):
        table.add_column(heading, justify="right")
    for row in rows:
        first = row.fitted[0]
        changes = [f"{first['before'][n]:.4g} > {first['after'][n]:.4g}" for n in names]
        table.add_row(escape(row.group), row.part, row.mask, str(row.samples), f"{first['factor']:.3f}", *changes)
    return table


def _shifted(rows: list[Row]) -> Table:
    """One line for each shift and score; of runs with dropout those with it. The page has all of them."""
    sampled = {row.group for row in rows if row.mask != NO_DROPOUT}
    rows = [row for row in rows if row.mask != NO_DROPOUT or row.group not in sampled]
    severities = sorted({row.severity for row in rows})
    several = len({row.group for row in rows}) > 1
    table = _table("AUROC of telling shifted from clean data", *(["run"] if several else []), "shift", "score")
    for severity in severities:
        table.add_column(f"severity {severity}" if severity else "other data", justify="right")
    found: dict[tuple[str, str, str], dict[int, Estimate]] = {}
    for row in rows:
        for score, values in row.detection.items():
            found.setdefault((row.group, row.shift, score), {})[row.severity] = values["auroc"]
    for (group, shift, score), aurocs in found.items():
        cells = [number(aurocs[severity]) if severity in aurocs else "" for severity in severities]
        table.add_row(*([escape(group)] if several else []), escape(shift), SCORES[score], *cells)
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=f"\n{title}", title_justify="left", title_style="bold", header_style="dim", box=None)
    for name in columns:
        table.add_column(name, no_wrap=name == "mask", min_width=9 if name == "mask" else None)
    return table
