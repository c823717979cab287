"""What a study says on the terminal when it has come to its end: the scores of its groups, and where its report is."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from concrete_dropout.cli.paths import shortest
from concrete_dropout.report.comparison import Comparison, compare
from concrete_dropout.report.comparison_sections import score_rows, table_metrics
from concrete_dropout.report.study_record import UCI_TABLE, read_study
from concrete_dropout.runfolder import REPORT

MAX_METRICS = 3  # of which a terminal has room for the columns


def print_study_summary(folder: Path, console: Console | None = None) -> None:
    """Print the scores of a study's groups and the paths of its files."""
    console = console or Console(highlight=False)
    study = read_study(folder)
    if study.kind != UCI_TABLE:  # whose table has its own columns, in table.md
        found = compare(study)
        if found.metrics:
            console.print(_table(found))
    paths = {"study": folder, "report": folder / REPORT, "table": folder / "table.md"}
    console.print()
    for name, path in paths.items():
        if path.exists():
            console.print(f"{name:<12} {escape(shortest(path))}", soft_wrap=True)


def _table(found: Comparison) -> Table:
    metrics = table_metrics(found)[:MAX_METRICS]
    table = Table(
        title="\nMean ± standard error", title_justify="left", title_style="bold", header_style="dim", box=None
    )
    table.add_column(" · ".join(factor.short for factor in found.factors), no_wrap=True)
    if found.has_no_mc:
        table.add_column("", no_wrap=True)
    for metric in metrics:
        unit = metric.unit if metric.unit in ("%", "nats") else ""
        header = f"{metric.title} {unit}".strip().replace(" ", "\n", 1)
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("runs", justify="right", no_wrap=True)
    for group, words, summaries in score_rows(found, metrics):
        cells = [metric.text(summary) for metric, summary in zip(metrics, summaries, strict=True)]
        runs = f"{len(group.done)}/{len(group.members)}"
        table.add_row(escape(group.label), *([words] if found.has_no_mc else []), *cells, runs)
    return table
