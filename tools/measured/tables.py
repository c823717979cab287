"""Rows in groups of repeats, their means, and Markdown tables of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from concrete_dropout.report.record import finite
from concrete_dropout.report.statistics import Summary, summarise
from concrete_dropout.report.text import MISSING, plus_minus, probability, whole

from .collect import FINISHED, Row
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


@dataclass(frozen=True)
class Group:
    """Finished repeats of one setting.

    Args:
        values: column -> value that they share: the experiment's settings, "dropout", "p", "settings".
        rows: one for each repeat.
    """

    values: dict[str, str]
    rows: tuple[Row, ...]

    @property
    def kind(self) -> str:
        """Kind of dropout."""
        return self.values["dropout"]

    def score(self, column: str) -> Summary | None:
        """Mean over the repeats; of a share in per cent."""
        scale = 100.0 if column in PERCENT else 1.0
        found = (finite(row.get(column)) for row in self.rows)
        return summarise(scale * value for value in found if value is not None)

    @property
    def learned(self) -> dict[str, Summary]:
        """Layer -> mean p over the repeats."""
        found: dict[str, list[float]] = {}
        for row in self.rows:
            for layer, p in layers_of(row).items():
                found.setdefault(layer, []).append(p)
        means = {layer: summarise(values) for layer, values in found.items()}
        return {layer: summary for layer, summary in means.items() if summary is not None}


def groups(experiment: Experiment, rows: Iterable[Row]) -> list[Group]:
    """Rows of finished runs, grouped by everything but what repeats."""
    columns = [*(column for column in experiment.keys if column not in REPEATS), "settings"]
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row["state"] == FINISHED:
            found.setdefault(tuple(row[column] for column in columns), []).append(row)
    made = [Group(dict(zip(columns, key, strict=True)), tuple(members)) for key, members in found.items()]
    return sorted(made, key=lambda group: [in_order(group.values[c], c) for c in ("settings", *columns)])


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


def learned_words(group: Group) -> str:
    """Mean p of every layer in the order of depth; of a deep network, the range."""
    means = [summary.mean for summary in group.learned.values()]
    if not means:
        return MISSING
    if len(means) > MAX_LAYERS:
        return f"{probability(min(means))} to {probability(max(means))} ({len(means)} layers)"
    return ", ".join(map(probability, means))


def converged_words(rows: Iterable[Row]) -> str:
    """In how many of the rows that tell every learned p has converged."""
    told = [row["converged"] for row in rows if row["converged"]]
    return f"{told.count('true')} of {len(told)}" if told else MISSING


def score_words(summary: Summary | None, decimals: int = 2) -> str:
    """Mean ± standard error."""
    if summary is None:
        return MISSING
    # Equal values differ by their rounding, which is no error.
    rounding = summary.se is not None and summary.se < 1e-9 * abs(summary.mean)
    return plus_minus(summary.mean, 0.0 if rounding else summary.se, decimals)


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
            str(len(group.rows)),
            learned_words(group),
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
        source = (of_any_seed(row.get("study") or row["command"]), row["commit"], row["hardware"], row["started"][:10])
        # Episodes have their own seconds, replicas share those of their run.
        run = (row["started"], row["command"], row.get("episode", ""))
        found.setdefault(source, {})[run] = finite(row.get("seconds")) or 0.0
    lines = []
    for (command, commit, hardware, date), runs in found.items():
        count = len({(started, own) for started, own, _ in runs})
        took = sum(runs.values())
        lines.append([code(command), str(count), code(commit), hardware, date, time_words(took) if took else MISSING])
    return table(["command", "runs", "commit", "hardware", "date", "time of all runs"], lines)


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
