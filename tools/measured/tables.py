"""Rows in groups of repeats, their means, and Markdown tables of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from concrete_dropout.report.record import finite
from concrete_dropout.report.statistics import Summary, summarise
from concrete_dropout.report.text import MISSING, plus_minus, probability, whole

from .cells import Row
from .collect import FINISHED
from .commands import of_any_seed
from .experiments import REPEATS, Experiment
from .store import in_order

PERCENT = ("accuracy", "accuracy_no_mc", "miou", "miou_no_mc", "ece", "calibration_rmse", "calibration_rmse_no_mc")
TITLES = {
    "num_data": "N",
    "train_size": "training images",
    "hidden": "hidden units",
    "length_scale": "l",
    "epistemic_std": "epistemic std",
    "aleatoric_std": "aleatoric std",
    "predictive_std": "predictive std",
    "log_likelihood": "log-likelihood",
    "log_likelihood_no_mc": "log-likelihood without MC",
    "rmse": "RMSE",
    "accuracy_no_mc": "accuracy without MC",
    "miou": "mIoU",
    "miou_no_mc": "mIoU without MC",
    "calibration_rmse": "calibration RMSE",
    "ece": "ECE",
    "elbo": "ELBO",
    "brier": "Brier score",
}
MAX_LAYERS = 6  # with a p of their own in a table
LARGE = 1e4  # from here on numbers are shown with a power of ten
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Group:
    """Finished repeats of one setting.

    Args:
        values: column -> value that they share: the experiment's settings, "dropout", "p", "settings".
        rows: one for each repeat; several seeds of a split are one repeat.
    """

    values: dict[str, str]
    rows: tuple[Row, ...]

    @property
    def kind(self) -> str:
        """Kind of dropout."""
        return self.values["dropout"]

    @property
    def repeats(self) -> list[list[Row]]:
        """Rows by split, or by seed where there are no splits."""
        found: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows:
            found.setdefault(repeat_of(row), []).append(row)
        return list(found.values())

    @property
    def size(self) -> str:
        """Number of repeats; with that of their seeds where a split has several."""
        return f"{len(self.repeats)}{self.seeds}"

    @property
    def seeds(self) -> str:
        """How many a split has, where these are several."""
        counts = [len(rows) for rows in self.repeats]
        return f", {span(counts)} seeds each" if max(counts, default=1) > 1 else ""

    def mean(self, read: Callable[[Row], float | None]) -> Summary | None:
        """Over the repeats: first over the seeds of a split, whose data they share."""
        means = (summarise(map(read, rows)) for rows in self.repeats)
        return summarise(mean.mean for mean in means if mean is not None)

    def score(self, column: str) -> Summary | None:
        """Mean over the repeats; of a share in per cent."""
        scale = 100.0 if column in PERCENT else 1.0

        def read(row: Row) -> float | None:
            value = finite(row.get(column))
            return scale * value if value is not None else None

        return self.mean(read)

    @property
    def learned(self) -> dict[str, Summary]:
        """Layer -> mean p over the repeats."""
        layers = dict.fromkeys(layer for row in self.rows for layer in layers_of(row))
        means = {layer: self.mean(partial(_p_of, layer)) for layer in layers}
        return {layer: summary for layer, summary in means.items() if summary is not None}


def repeat_of(row: Row) -> tuple[str, str]:
    """What a row is a repeat by: its split, or its seed where there are no splits."""
    split = row.get("split", "")
    return split, "" if split else row.get("seed", "")


def differences(ours: Group, other: Group, column: str) -> list[float]:
    """Ours less the other, one for each repeat: of rows with the same seed and split, whose chance they share."""

    def pair(row: Row) -> tuple[str, str]:
        return row.get("seed", ""), row.get("split", "")

    theirs = {pair(row): finite(row.get(column)) for row in other.rows}
    found: dict[tuple[str, str], list[float]] = {}
    for row in ours.rows:
        value, rival = finite(row.get(column)), theirs.get(pair(row))
        if value is not None and rival is not None:
            found.setdefault(repeat_of(row), []).append(value - rival)
    return [math.fsum(gaps) / len(gaps) for gaps in found.values()]


def groups(experiment: Experiment, rows: Iterable[Row]) -> list[Group]:
    """Rows of finished runs, grouped by everything but what repeats; those with fewer changes come first."""
    columns = [*(column for column in experiment.keys if column not in REPEATS), "settings"]
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row["state"] == FINISHED:
            found.setdefault(tuple(row[column] for column in columns), []).append(row)
    made = [Group(dict(zip(columns, key, strict=True)), tuple(members)) for key, members in found.items()]

    def order(group: Group) -> tuple[object, ...]:
        return len(group.values["settings"].split()), [in_order(group.values[c], c) for c in ("settings", *columns)]

    return sorted(made, key=order)


def layers_of(row: Row) -> dict[str, float]:
    """Layer -> learned p of a row."""
    pairs = [entry.rpartition("=") for entry in row["learned_p"].split()]
    return {layer: p for layer, _, text in pairs if (p := finite(text)) is not None}


def dropout_words(values: dict[str, str]) -> str:
    """A kind of dropout in words.

    >>> [dropout_words({"dropout": kind, "p": p}) for kind, p in (("none", "0"), ("fixed", "0.1"), ("concrete", ""))]
    ['none (p = 0)', 'fixed, p = 0.1', 'Concrete']
    """
    words = {"none": "none (p = 0)", "fixed": f"fixed, p = {values['p']}", "concrete": "Concrete"}
    return words.get(values["dropout"], values["dropout"])


def learned_words(means: Iterable[float]) -> str:
    """Values of p in the order of depth; of a deep network, the range.

    >>> learned_words([0.1, 0.0002]), learned_words([0.1] * 6 + [0.3])
    ('0.100, < 0.001', '0.100 to 0.300 (7 layers)')
    """
    found = list(means)
    if len(found) > MAX_LAYERS:
        return f"{probability(min(found))} to {probability(max(found))} ({len(found)} layers)"
    return ", ".join(map(probability, found)) or MISSING


def depth_words(group: Group) -> str:
    """Mean p of every layer of a group."""
    return learned_words(summary.mean for summary in group.learned.values())


def converged_words(rows: Iterable[Row]) -> str:
    """In how many of the rows that tell every learned p has converged."""
    told = [row["converged"] for row in rows if row["converged"]]
    return f"{told.count('true')} of {len(told)}" if told else MISSING


def score_words(summary: Summary | None, decimals: int = 2) -> str:
    """Mean ± standard error; of large numbers with a power of ten.

    >>> score_words(summarise([-3e9, -1e9])), score_words(summarise([123456.0])), score_words(summarise([1.0, 2.0]))
    ('(−2.0 ± 1.0) × 10⁹', '1.2 × 10⁵', '1.50 ± 0.50')
    """
    if summary is None:
        return MISSING
    # Equal values differ by their rounding, which is no error.
    rounding = summary.se is not None and summary.se < 1e-9 * abs(summary.mean)
    mean, error = summary.mean, 0.0 if rounding else summary.se
    largest = max(abs(mean), error or 0.0)
    if largest < LARGE:
        return plus_minus(mean, error, decimals)
    power = math.floor(math.log10(largest))
    shown = plus_minus(mean / 10**power, error / 10**power if error is not None else None, 1)
    return f"{f'({shown})' if '±' in shown else shown} × 10{str(power).translate(RAISED)}"


def title(column: str) -> str:
    """A column in words."""
    return TITLES.get(column, column) + (" (%)" if column in PERCENT else "")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table; columns in which no row says anything are left out."""
    body = [list(row) for row in rows]
    used = [i for i, name in enumerate(header) if not body or any(row[i] not in ("", MISSING) for row in body)]
    lines = [[header[i] for i in used], ["---"] * len(used), *([row[i] for i in used] for row in body)]
    return ["| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines] + [""]


def comparison(experiment: Experiment, rows: list[Row], scores: Sequence[str]) -> list[str]:
    """A table of all groups: settings, kind of dropout, scores, learned p, whether it converged."""
    settings = list(experiment.settings)
    header = [*map(title, settings), "dropout", "settings", *map(title, scores), f"{experiment.repeat}s"]
    header += ["learned p by depth", "p converged", "steps"]
    lines = [
        [
            *(group.values[column] for column in settings),
            dropout_words(group.values),
            code(group.values["settings"]),
            *(score_words(group.score(column)) for column in scores),
            group.size,
            depth_words(group),
            converged_words(group.rows),
            score_whole(group.score("steps")),
        ]
        for group in groups(experiment, rows)
    ]
    return table(header, lines)


def provenance(rows: list[Row]) -> list[str]:
    """Which commands made the rows, at which commits, on what, when, and how long they took."""
    found: dict[tuple[str, ...], dict[tuple[str, ...], float]] = {}
    for row in rows:
        source = (source_of(row), row["commit"], row["hardware"], row["started"][:10])
        # Episodes have their own seconds, replicas share those of their run.
        run = (row["started"], row["command"], row.get("episode", ""))
        found.setdefault(source, {})[run] = finite(row.get("seconds")) or 0.0
    lines = []
    for (command, commit, hardware, date), runs in found.items():
        count = len({(started, own) for started, own, _ in runs})
        took = sum(runs.values())
        lines.append([code(command), str(count), code(commit), hardware, date, time_words(took) if took else MISSING])
    header = ["command", "runs", "commit", "hardware", "date", "time of all runs"]
    return folded("Commands, commits, hardware and times", table(header, lines))


def folded(summary: str, lines: list[str]) -> list[str]:
    """Lines that a reader opens by a click; Markdown needs an empty line around what is inside."""
    return ['<details markdown="1">', f"<summary>{summary}</summary>", "", *lines, "</details>", ""]


def source_of(row: Row) -> str:
    """The command that made a row, of the whole study where it is a part of one."""
    return of_any_seed(row.get("study") or row["command"])


def span(counts: Iterable[int]) -> str:
    """The smallest to the largest number, or the one that there is.

    >>> span([5, 20, 7]), span([3, 3]), span([])
    ('5 to 20', '3', '–')
    """
    found = sorted(set(counts))
    return " to ".join(map(str, dict.fromkeys([found[0], found[-1]]))) if found else MISSING


def code(text: str) -> str:
    """Text as code; nothing for none."""
    return f"`{text}`" if text else ""


def score_whole(summary: Summary | None) -> str:
    """A mean of counts."""
    return whole(summary.mean) if summary is not None else MISSING


def time_words(seconds: float) -> str:
    """Time in the unit that fits.

    >>> time_words(42), time_words(600), time_words(7200)
    ('42 s', '10 min', '2.0 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _p_of(layer: str, row: Row) -> float | None:
    return layers_of(row).get(layer)
