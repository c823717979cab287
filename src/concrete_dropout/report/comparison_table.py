"""The scores of a study's groups as files, for other programs and for a README."""

from __future__ import annotations

import csv
import io
import re

from concrete_dropout.report.comparison import Comparison, moving
from concrete_dropout.report.comparison_sections import score_rows, table_metrics, variants
from concrete_dropout.report.record import NO_MC
from concrete_dropout.report.text import plain


def table_csv(found: Comparison) -> str:
    """A row per group and way to predict; empty cells where there is no number."""
    keys = [factor.key for factor in found.factors]
    header = [*keys, "mc", *(f"{metric.column}{end}" for metric in found.metrics for end in ("", "_se"))]
    header += ["runs", "expected_runs", "runs_with_converged_p"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for group in found.groups:
        for _, suffix in variants(found, group):
            cells: list[object] = [plain(group.values[key]) if key in group.values else "" for key in keys]
            cells.append(int(suffix != NO_MC and group.samples))
            for metric in found.metrics:
                summary = group.score(found.stage, metric, suffix)
                cells += [summary.mean, summary.se] if summary is not None else [None, None]
            cells += [len(group.done), len(group.members), len(group.done) - len(moving(group.done))]
            writer.writerow(["" if cell is None else cell for cell in cells])
    return text.getvalue()


def table_md(found: Comparison) -> str:
    """The table of the report in Markdown."""
    metrics = table_metrics(found)
    first = " · ".join(factor.title for factor in found.factors) or "runs"
    header = [first, *(["prediction"] if found.has_no_mc else []), *(metric.header for metric in metrics), "runs"]
    lines = ["| " + " | ".join(map(_cell, header)) + " |", "|" + "---|" * len(header)]
    for group, words, summaries in score_rows(found, metrics):
        shown = [metric.text(summary) for metric, summary in zip(metrics, summaries, strict=True)]
        runs = f"{len(group.done)} of {len(group.members)}"
        cells = [group.label, *([words] if found.has_no_mc else []), *shown, runs]
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join([*lines, "", "Mean ± standard error over finished runs."]) + "\n"


def _cell(text: str) -> str:
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\|`*_\[\]])", r"\\\1", line)
