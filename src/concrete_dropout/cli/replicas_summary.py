"""The closing summary of a run of replicas: mean ± standard error over them."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from concrete_dropout.cli.summary import MEANINGS, print_paths
from concrete_dropout.report.statistics import summarise
from concrete_dropout.runfolder import REPLICAS, RunFolder


def print_replicas_summary(folder: Path, console: Console | None = None) -> None:
    """Print what the run folder says about finished replicas."""
    console = console or Console(highlight=False)
    rows = RunFolder(folder).read_table(REPLICAS)
    console.print()
    if rows:
        columns = {name: [float(row[name]) for row in rows if row[name]] for name in rows[0] if _is_number(name)}
        console.print(_metrics(columns, len(rows)))
        console.print(_probabilities(columns))
        moving = sum(row.get("converged", "").lower() == "false" for row in rows)
        if moving:
            console.print(f"p was still moving at the end in {moving} of {len(rows)} replicas: not a result yet.")
    print_paths(folder, console)


def _is_number(column: str) -> bool:
    return column.startswith(("test/", "val/", "p/", "initial_p/"))


def _metrics(columns: dict[str, list[float]], replicas: int) -> Table:
    stage = "test" if any(name.startswith("test/") for name in columns) else "val"
    title = f"{'Test' if stage == 'test' else 'Validation'} data, mean ± standard error over {replicas} replicas"
    table = Table(title=title, title_justify="left", box=None)
    for column in ("metric", "mean", "", ""):
        table.add_column(column, justify="left" if column == "metric" else "right")
    for key, (name, meaning) in MEANINGS.items():
        summary = summarise(columns.get(f"{stage}/{key}", []))
        if summary is not None:
            error = "" if summary.se is None else f"± {summary.se:.2g}"
            table.add_row(name, f"{summary.mean:.4g}", error, meaning)
    return table


def _probabilities(columns: dict[str, list[float]]) -> Table:
    table = Table(title="Dropout probability per layer", title_justify="left", box=None)
    for column in ("layer", "initial p", "p, mean", "smallest", "largest"):
        table.add_column(column, justify="left" if column == "layer" else "right")
    for name, values in columns.items():
        if name.startswith("p/") and values:
            layer = name.removeprefix("p/")
            initial = columns.get(f"initial_p/{layer}", [])
            start = _range(initial)
            spread = [f"{value:.4f}" for value in (sum(values) / len(values), min(values), max(values))]
            table.add_row(escape(layer), start, *spread)
    return table


def _range(values: list[float]) -> str:
    if not values:
        return "-"
    low, high = min(values), max(values)
    return f"{low:.3g}" if high - low < 1e-6 else f"{low:.3g} to {high:.3g}"
