"""The sections on shifted data: telling what comes from elsewhere, and calibration under corruption."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from concrete_dropout.report.record import finite
from concrete_dropout.report.statistics import Summary, summarise
from concrete_dropout.report.text import MISSING

from .collect import Row
from .figures import Line, chart
from .parts import NOT_RUN, Part, to_be_made
from .plan import commands_of
from .sheets import SHIFT
from .store import KINDS, in_order
from .tables import PERCENT, code, dropout_words, provenance, score_words, table, title

Shift = tuple[str, str]  # its name and severity; ("", "0") is clean data
ELSEWHERE = "Beyond the paper: data from elsewhere"
CORRUPTED = "Beyond the paper: calibration under corruption"
SCORES = ("accuracy", "nll", "ece", "calibration_rmse", "rmse")
DRAWN = ("accuracy", "nll", "ece", "rmse")
TOLD_BY = {"predictive": "whole uncertainty", "epistemic": "epistemic uncertainty"}
DETECTION = ("auroc", "aupr", "fpr95")
AUROC = "auroc_predictive"
WHAT_ELSEWHERE = "AUROC of the whole uncertainty, mean over data from elsewhere"
WHAT_CORRUPTED = "NLL under corruption, mean over corruptions and severities"


@dataclass(frozen=True)
class Subject:
    """A kind of run, or an ensemble, with its rows over seeds."""

    values: dict[str, str]
    rows: tuple[Row, ...]

    @property
    def name(self) -> str:
        """In words."""
        if self.values["members"] == "1":
            return dropout_words(self.values)
        kind = "" if self.values["dropout"] == "none" else f" with dropout ({dropout_words(self.values)})"
        return f"ensemble of {self.values['members']}{kind}"

    @property
    def repeats(self) -> dict[tuple[str, str], list[Row]]:
        """Rows by seed and split."""
        found: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows:
            found.setdefault((row["seed"], row["split"]), []).append(row)
        return found

    @property
    def seeds(self) -> str:
        """Number of repeats."""
        return str(len(self.repeats))

    def mean(self, column: str, wanted: Callable[[Row], bool]) -> Summary | None:
        """Over repeats; of each the mean over its rows of some kind. Of a share in per cent."""
        scale = 100.0 if column in PERCENT else 1.0
        means = [summarise(finite(row[column]) for row in rows if wanted(row)) for rows in self.repeats.values()]
        return summarise(scale * mean.mean for mean in means if mean is not None)


def elsewhere_part(rows: list[Row]) -> Part:
    """The section on data from elsewhere."""
    lines = [
        f"Inputs that are none of the data are to be told by the uncertainty of the prediction. {_commands(rows)}",
        "",
    ]
    told = [row for row in rows if _is_elsewhere(row)]
    if not told:
        return Part([*lines, f"**{NOT_RUN.capitalize()}.**", ""], (WHAT_ELSEWHERE, MISSING, NOT_RUN, "", "", "", ""))
    lines[0] += (
        " FPR95 is the share of the run's own data taken for foreign where 95 % of the foreign ones are told; AUPR "
        "also depends on how many there are of each."
    )
    names = [(f"{metric}_{by}", f"{metric.upper()}, {words}") for by, words in TOLD_BY.items() for metric in DETECTION]
    for label, subjects in _by_data(told):
        body = [
            [
                shift,
                subject.name,
                code(subject.values["settings"]),
                *(score_words(subject.mean(column, _of_shift(shift)), 3) for column, _ in names),
                subject.seeds,
            ]
            for shift in sorted({row["shift"] for subject in subjects for row in subject.rows})
            for subject in subjects
        ]
        lines += [f"### {ELSEWHERE}, {label}", ""]
        lines += table(["data", "dropout", "settings", *(words for _, words in names), "seeds"], body)
    cells = _cells(told, AUROC)
    return Part([*lines, *provenance(told)], (WHAT_ELSEWHERE, MISSING, *cells, ""))


def corrupted_part(rows: list[Row]) -> Part:
    """The section on corruptions in several severities, with figures."""
    lines = [
        "The further data are from those of training, the less is right, and the less certain a prediction should be. "
        f"{_commands(rows)}",
        "",
    ]
    hurt = [row for row in rows if row["severity"] not in ("", "0")]
    if not hurt:
        return Part([*lines, f"**{NOT_RUN.capitalize()}.**", ""], (WHAT_CORRUPTED, MISSING, NOT_RUN, "", "", "", ""))
    lines[0] += " Means are over corruptions, then over seeds; severity 0 is clean data."
    figures: dict[str, str] = {}
    for label, subjects in _by_data([row for row in rows if not _is_elsewhere(row)]):
        shared = _shared(subjects)
        names = sorted({shift for shift, _ in shared if shift})
        lines += [f"### {CORRUPTED}, {label}", "", f"Corruptions: {', '.join(names) or 'none in common'}.", ""]
        lines += _by_severity(subjects, shared) + _by_corruption(subjects, shared)
        for metric in DRAWN:
            drawn = _figure(metric, label, subjects, shared)
            if drawn:
                name = f"{SHIFT.name}_{label}_{metric}.svg"
                figures[name] = drawn
                lines += [f"![{_title(metric)} by severity, {label}](results/{name})", ""]
    cells = _cells(hurt, "nll")
    return Part([*lines, *provenance(hurt)], (WHAT_CORRUPTED, MISSING, *cells, ""), figures)


def _by_severity(subjects: Sequence[Subject], shared: set[Shift]) -> list[str]:
    body = [
        [
            severity,
            subject.name,
            code(subject.values["settings"]),
            *(_words(name, subject.mean(name, _among(shared, severity=severity))) for name in SCORES),
            subject.seeds,
        ]
        for severity in _severities(shared)
        for subject in subjects
    ]
    return table(["severity", "dropout", "settings", *map(_title, SCORES), "seeds"], body)


def _by_corruption(subjects: Sequence[Subject], shared: set[Shift]) -> list[str]:
    body = [
        [
            shift,
            subject.name,
            code(subject.values["settings"]),
            *(_words(name, subject.mean(name, _among(shared, shift))) for name in SCORES),
        ]
        for shift in sorted({shift for shift, _ in shared if shift})
        for subject in subjects
    ]
    return ["Means over severities:", "", *table(["corruption", "dropout", "settings", *map(_title, SCORES)], body)]


def _figure(metric: str, label: str, subjects: Sequence[Subject], shared: set[Shift]) -> str:
    lines = []
    for colour, subject in enumerate(subjects):
        means = [(float(s), subject.mean(metric, _among(shared, severity=s))) for s in _severities(shared)]
        points = tuple((severity, mean.mean) for severity, mean in means if mean is not None)
        lines += [Line(subject.name, points, colour)] if len(points) > 1 else []
    return chart(f"{_title(metric)}, {label}", "severity of corruptions", _title(metric), lines) if lines else ""


def _by_data(rows: Iterable[Row]) -> list[tuple[str, list[Subject]]]:
    """Subjects by what they were trained on, without dropout first, ensembles last."""
    columns = ("dropout", "members", "p", "settings")
    found: dict[str, dict[tuple[str, ...], list[Row]]] = {}
    for row in rows:
        of_data = found.setdefault(row["set"] or row["experiment"], {})
        of_data.setdefault(tuple(row[column] for column in columns), []).append(row)
    return [
        (
            label,
            sorted(
                (Subject(dict(zip(columns, key, strict=True)), tuple(own)) for key, own in found[label].items()),
                key=lambda subject: (
                    in_order(subject.values["members"]),
                    in_order(subject.values["dropout"], "dropout"),
                    in_order(subject.values["p"]),
                    subject.values["settings"],
                ),
            ),
        )
        for label in sorted(found)
    ]


def _cells(rows: list[Row], column: str) -> tuple[str, str, str, str]:
    """Concrete, p = 0 and fixed p of the short version with the number of seeds; ensembles beside what they are of.

    Means are over the shifts that all of them have.
    """
    cells = []
    data = _by_data(rows)
    for kind in reversed(KINDS):
        texts = []
        for label, subjects in data:
            for subject in (s for s in subjects if s.values["dropout"] == kind):
                plain = subject.values["members"] == "1" and kind != "fixed"
                prefix = f"{label}, " * (len(data) > 1) + ("" if plain else subject.name)
                words = score_words(subject.mean(column, _among(_shared(subjects))), 3)
                texts.append(f"{prefix.rstrip(', ')}: {words}" if prefix else words)
        cells.append("; ".join(texts) or NOT_RUN)
    seeds = sorted({int(s.seeds) for _, subjects in data for s in subjects if s.values["members"] == "1"})
    shown = " to ".join(map(str, dict.fromkeys([seeds[0], seeds[-1]]))) if seeds else ""
    concrete, fixed, none = cells
    return concrete, none, fixed, shown


def _commands(rows: list[Row]) -> str:
    """The first command stands for those of the controls and the ensemble, which are long."""
    return to_be_made(commands_of(SHIFT.name)[:1], SHIFT.name, bool(rows))


def _shared(subjects: Sequence[Subject]) -> set[Shift]:
    """Shifts and severities that every run of every subject has: only means over the same can be compared."""
    runs = [rows for subject in subjects for rows in subject.repeats.values()]
    return set.intersection(*({(row["shift"], row["severity"]) for row in rows} for rows in runs))


def _severities(shared: set[Shift]) -> list[str]:
    return sorted({severity for _, severity in shared}, key=in_order)


def _words(name: str, mean: Summary | None) -> str:
    return score_words(mean, 2 if name in PERCENT else 3)


def _is_elsewhere(row: Row) -> bool:
    return bool(row["shift"]) and row["severity"] in ("", "0")


def _of_shift(shift: str) -> Callable[[Row], bool]:
    return lambda row: row["shift"] == shift


def _among(shared: set[Shift], shift: str = "", severity: str = "") -> Callable[[Row], bool]:
    """Rows of shared shifts, of one shift or severity where that is given."""
    return lambda row: (
        (row["shift"], row["severity"]) in shared
        and row["shift"] == (shift or row["shift"])
        and row["severity"] == (severity or row["severity"])
    )


def _title(name: str) -> str:
    return {"nll": "NLL"}.get(name, title(name))
