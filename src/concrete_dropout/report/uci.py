"""The two UCI tables of the paper's appendix D, with our results beside them."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from concrete_dropout.report import paper
from concrete_dropout.report.paper import CDROPOUT, CDROPOUT_M, DGP, DROPOUT, PaperRow, Value, paper_row
from concrete_dropout.report.statistics import Summary, average_ranks, difference_in_se, summarise
from concrete_dropout.report.study_record import Member, Study
from concrete_dropout.report.text import plus_minus

OURS = "Ours"
TABLE_CSV, TABLE_MD = "table.csv", "table.md"


@dataclass(frozen=True)
class Metric:
    """One of the two tables.

    Args:
        key: name of the metric in replicas.csv.
        title: in words.
        unit: of its numbers.
        higher_is_better: else lower.
        columns: methods of the paper that are shown and ranked.
        baselines: those among them that ours is to beat.
    """

    key: str
    title: str
    unit: str
    higher_is_better: bool
    columns: tuple[str, ...]
    baselines: tuple[str, ...]


LOG_LIKELIHOOD = Metric(
    "log_likelihood", "Test log-likelihood", "nats", True, (DROPOUT, CDROPOUT_M, DGP), (DROPOUT, CDROPOUT_M)
)
RMSE = Metric("rmse", "Test RMSE", "target units", False, (DROPOUT, CDROPOUT, DGP), (DROPOUT, CDROPOUT))
METRICS = (LOG_LIKELIHOOD, RMSE)


@dataclass(frozen=True)
class Comparison:
    """Ours against the better one of the paper's dropout columns.

    Args:
        method: which one that is.
        verdict: "better", "equal" or "worse", at the two decimals that the paper prints.
        se: difference in standard errors, positive where ours is better.
    """

    method: str
    verdict: str
    se: float


@dataclass(frozen=True)
class Entry:
    """One UCI set: the paper's row and our run, either of which may be missing."""

    name: str
    paper: PaperRow | None
    member: Member | None

    def published(self, metric: Metric) -> dict[str, Value]:
        """Method -> (mean, standard error) of the paper."""
        return dict(getattr(self.paper, metric.key)) if self.paper is not None else {}

    def ours(self, key: str) -> Summary | None:
        """Our mean over splits, on test data."""
        replicas = self.member.replicas if self.member is not None else None
        return summarise(row.scalars.get(f"test/{key}") for row in replicas.rows) if replicas is not None else None

    @property
    def splits(self) -> int:
        """Number of splits that there should be."""
        run = self.member.replicas.expected if self.member is not None and self.member.replicas is not None else 0
        return max(run, self.paper.splits if self.paper is not None else 0)

    @property
    def state(self) -> str:
        """In words."""
        if self.member is None:
            return "not in this study"
        return {"pending": "not started", "": "state unknown"}.get(self.member.state, self.member.state)

    def compare(self, metric: Metric) -> Comparison | None:
        """Ours against the best of the paper's dropout columns; None where one of them is missing."""
        ours, published = self.ours(metric.key), self.published(metric)
        if ours is None or not published:
            return None
        sign = 1.0 if metric.higher_is_better else -1.0
        method = max(metric.baselines, key=lambda name: sign * published[name][0])
        mean, se = published[method]
        gap = sign * (round(ours.mean, paper.DECIMALS) - mean)
        verdict = "equal" if abs(gap) < paper.RESOLUTION / 2 else "better" if gap > 0 else "worse"
        difference = sign * difference_in_se(ours.mean, ours.se, mean, se, paper.RESOLUTION)
        return Comparison(method, verdict, difference)

    def best(self, metric: Metric) -> set[str]:
        """The best methods of the row, ours included, at the paper's two decimals."""
        values = self.ranked(metric) if self.paper is not None else {}
        ends = max if metric.higher_is_better else min
        return {name for name, value in values.items() if value == ends(values.values())}

    def ranked(self, metric: Metric) -> dict[str, float]:
        """Method -> mean at the paper's two decimals: what ranks are made of."""
        ours = self.ours(metric.key)
        values = {name: mean for name, (mean, _) in self.published(metric).items() if name in metric.columns}
        return {**values, **({OURS: round(ours.mean, paper.DECIMALS)} if ours is not None else {})}


def entries(study: Study) -> list[Entry]:
    """The nine sets of the paper in its order, then what else the study has."""
    rows = {name: Entry(name, row, None) for name, row in paper.UCI.items()}
    for member in study.members:
        row = paper_row(member.label)
        name = row.name if row is not None and rows[row.name].member is None else member.label
        rows[name] = Entry(name, row, member)
    return list(rows.values())


def ranks(found: list[Entry], metric: Metric) -> dict[str, Summary]:
    """Average rank of every method over the sets that both the paper and the study have."""
    rows = [row for entry in found if len(row := entry.ranked(metric)) == len(metric.columns) + 1]
    return average_ranks(rows, metric.higher_is_better)


def table_csv(found: list[Entry]) -> str:
    """Both tables in one, for other programs: a row per set and metric, empty cells where there is no number."""
    methods = {"dropout": DROPOUT, "cdropout": CDROPOUT, "cdropout_m": CDROPOUT_M, "dgp": DGP}
    header = ["set", "metric", *(f"{key}{end}" for key in methods for end in ("", "_se"))]
    header += ["ours", "ours_se", "ours_before_m_step", "splits", "expected_splits", "splits_with_converged_p"]
    header += ["best_of_dropout", "verdict", "difference_in_se", "state"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for metric in METRICS:
        for entry in found:
            published, ours, compared = entry.published(metric), entry.ours(metric.key), entry.compare(metric)
            before = entry.ours(f"{metric.key}_before_m_step")
            converged = entry.member.replicas.num_converged if entry.member and entry.member.replicas else None
            row: list[object] = [entry.name, metric.key]
            row += [value for name in methods.values() for value in published.get(name, (None, None))]
            row += [ours.mean, ours.se, before.mean if before else None, ours.count] if ours else [None, None, None, 0]
            row += [entry.splits, converged]
            row += [compared.method, compared.verdict, f"{compared.se:.2f}"] if compared else [None, None, None]
            writer.writerow(["" if value is None else value for value in [*row, entry.state]])
    return text.getvalue()


def table_md(found: list[Entry]) -> str:
    """Both tables in Markdown, for a README."""
    parts = []
    for metric in METRICS:
        lines = [
            f"### {metric.title} ({metric.unit}, {'higher' if metric.higher_is_better else 'lower'} is better)",
            "",
            "| " + " | ".join(["set", *metric.columns, "ours", "splits", "against the best dropout"]) + " |",
            "|" + "---|" * (len(metric.columns) + 4),
        ]
        for entry in found:
            best = entry.best(metric)
            cells = [_bold(text, method in best) for method, text in cells_of(entry, metric).items()]
            ours, compared = entry.ours(metric.key), entry.compare(metric)
            verdict = f"{compared.verdict} ({compared.se:+.1f} SE)" if compared is not None else entry.state
            splits = f"{ours.count if ours is not None else 0} of {entry.splits}"
            lines.append("| " + " | ".join([_cell(entry.name), *cells, splits, _cell(verdict)]) + " |")
        averages = ranks(found, metric)
        if averages:
            shown = [plus_minus(averages[m].mean, averages[m].se) for m in (*metric.columns, OURS)]
            lines.append("| " + " | ".join(["average rank", *shown, f"{averages[OURS].count} sets", ""]) + " |")
        parts.append("\n".join(lines))
    note = f"Paper: {paper.SOURCE}. Mean ± standard error over splits; bold is the best of a row at two decimals."
    return "\n\n".join([*parts, note]) + "\n"


def cells_of(entry: Entry, metric: Metric) -> dict[str, str]:
    """Method -> "mean ± standard error"; the paper's as printed."""
    published, ours = entry.published(metric), entry.ours(metric.key)
    shown = {name: plus_minus(*published[name]) if name in published else "–" for name in metric.columns}
    return {**shown, OURS: plus_minus(ours.mean, ours.se) if ours is not None else "–"}


def _bold(text: str, bold: bool) -> str:
    return f"**{text}**" if bold and text != "–" else text


def _cell(text: str) -> str:
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{c}" if c in "\\|`*_[]" else c for c in line)
