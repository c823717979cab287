"""The sections on shifted data: telling what comes from elsewhere, and calibration under corruption."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from concrete_dropout.report.record import finite
from concrete_dropout.report.statistics import Summary, summarise
from concrete_dropout.report.text import MISSING

from .cells import Row
from .figures import Line, chart
from .parts import KIND_WORDS, NOT_RUN, Part, to_be_made
from .plan import commands_of
from .series import colour_of
from .sheets import SHIFT
from .store import in_order
from .tables import PERCENT, code, dropout_words, provenance, score_words, span, table, title

Shift = tuple[str, str]  # its name and severity; ("", "0") is clean data
SINGLE = "0"  # samples of a model without dropout
FACTS = ("dropout", "settings", "samples")
ELSEWHERE = "Beyond the paper: data from elsewhere"
CORRUPTED = "Beyond the paper: calibration under corruption"
SCORES = ("accuracy", "nll", "ece", "calibration_rmse", "rmse")
DRAWN = ("accuracy", "nll", "ece", "rmse")
TOLD_BY = {"predictive": "whole uncertainty", "epistemic": "epistemic uncertainty"}
DETECTION = ("auroc", "aupr", "fpr95")
AUROC = "auroc_predictive"
SAMPLES = "Models are compared with equal numbers of samples; without dropout there is one pass, with none."
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
    def facts(self) -> list[str]:
        """Cells that say what it is."""
        return [self.name, code(self.values["settings"]), self.values["samples"]]

    @property
    def seeds(self) -> str:
        """Number of repeats."""
        return str(len(self.repeats))

    def mean(self, column: str, wanted: Callable[[Row], bool]) -> Summary | None:
        """Over repeats; of each the mean over its rows of some kind. Of a share in per cent."""
        scale = 100.0 if column in PERCENT else 1.0
        means = [summarise(finite(row[column]) for row in rows if wanted(row)) for rows in self.repeats.values()]
        return summarise(scale * mean.mean for mean in means if mean is not None)


@dataclass(frozen=True)
class Block:
    """What can be compared: models of the same data, each with as many samples or with the one pass that it has.

    Args:
        data: what they were trained on.
        samples: their number, SINGLE where none has any.
        subjects: without dropout first, ensembles last.
        is_only: whether the data have no block with another number.
    """

    data: str
    samples: str
    subjects: tuple[Subject, ...]
    is_only: bool

    @property
    def name(self) -> str:
        """In words."""
        return self.data if self.is_only else f"{self.data}, {self.samples} samples"

    @property
    def file(self) -> str:
        """What names of its files have in common."""
        return f"{SHIFT.name}_{self.data}" + ("" if self.is_only else f"_{self.samples}")


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
        f"also depends on how many there are of each. {SAMPLES}"
    )
    names = [(f"{metric}_{by}", f"{metric.upper()}, {words}") for by, words in TOLD_BY.items() for metric in DETECTION]
    for block in blocks(told):
        body = [
            [
                shift,
                *subject.facts,
                *(score_words(subject.mean(column, _of_shift(shift)), 3) for column, _ in names),
                subject.seeds,
            ]
            for shift in sorted({row["shift"] for subject in block.subjects for row in subject.rows})
            for subject in block.subjects
        ]
        lines += [f"### {ELSEWHERE}, {block.name}", ""]
        lines += table(["data", *FACTS, *(words for _, words in names), "seeds"], body)
    return Part([*lines, *provenance(told)], _short(WHAT_ELSEWHERE, told, AUROC))


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
    lines[0] += f" Means are over corruptions, then over seeds; severity 0 is clean data. {SAMPLES}"
    figures: dict[str, str] = {}
    for block in blocks(row for row in rows if not _is_elsewhere(row)):
        shared = _shared(block.subjects)
        names = sorted({shift for shift, _ in shared if shift})
        lines += [f"### {CORRUPTED}, {block.name}", "", f"Corruptions: {', '.join(names) or 'none in common'}.", ""]
        lines += _by_severity(block.subjects, shared) + _by_corruption(block.subjects, shared)
        for metric in DRAWN:
            drawn = _figure(metric, block, shared)
            if drawn:
                name = f"{block.file}_{metric}.svg"
                figures[name] = drawn
                lines += [f"![{_title(metric)} by severity, {block.name}](results/{name})", ""]
    return Part([*lines, *provenance(hurt)], _short(WHAT_CORRUPTED, hurt, "nll"), figures)


def _by_severity(subjects: Sequence[Subject], shared: set[Shift]) -> list[str]:
    body = [
        [
            severity,
            *subject.facts,
            *(_words(name, subject.mean(name, _among(shared, severity=severity))) for name in SCORES),
            subject.seeds,
        ]
        for severity in _severities(shared)
        for subject in subjects
    ]
    return table(["severity", *FACTS, *map(_title, SCORES), "seeds"], body)


def _by_corruption(subjects: Sequence[Subject], shared: set[Shift]) -> list[str]:
    body = [
        [
            shift,
            *subject.facts,
            *(_words(name, subject.mean(name, _among(shared, shift))) for name in SCORES),
        ]
        for shift in sorted({shift for shift, _ in shared if shift})
        for subject in subjects
    ]
    return ["Means over severities:", "", *table(["corruption", *FACTS, *map(_title, SCORES)], body)]


def _figure(metric: str, block: Block, shared: set[Shift]) -> str:
    lines: list[Line] = []
    colours: list[int] = []
    for subject in block.subjects:
        found = [(float(s), subject.mean(metric, _among(shared, severity=s))) for s in _severities(shared)]
        means = [(severity, mean) for severity, mean in found if mean is not None]
        # Also where one has nothing to draw, so that figures of all scores have the same colours.
        colours.append(colour_of(subject.values["dropout"], colours))
        points, errors = tuple((s, mean.mean) for s, mean in means), tuple(mean.se or 0.0 for _, mean in means)
        lines += [Line(subject.name, points, colours[-1], errors=errors)] if len(points) > 1 else []
    return chart(f"{_title(metric)}, {block.name}", "severity of corruptions", _title(metric), lines) if lines else ""


def blocks(rows: Iterable[Row]) -> list[Block]:
    """Subjects by what they were trained on and by the number of samples; those with one pass are in all of them."""
    columns = ("dropout", "members", "p", "settings", "samples")
    found: dict[str, dict[tuple[str, ...], list[Row]]] = {}
    for row in rows:
        of_data = found.setdefault(row["set"] or row["experiment"], {})
        of_data.setdefault(tuple(row[column] for column in columns), []).append(row)
    made = []
    for data in sorted(found):
        subjects = [Subject(dict(zip(columns, key, strict=True)), tuple(own)) for key, own in found[data].items()]
        subjects.sort(key=_order)
        numbers = sorted({s.values["samples"] for s in subjects} - {SINGLE}, key=in_order) or [SINGLE]
        for samples in numbers:
            own = tuple(s for s in subjects if s.values["samples"] in (samples, SINGLE))
            made.append(Block(data, samples, own, len(numbers) == 1))
    return made


def _order(subject: Subject) -> tuple[object, ...]:
    values = subject.values
    kind = in_order(values["dropout"], "dropout")
    return in_order(values["members"]), kind, in_order(values["p"]), values["settings"]


def _short(what: str, rows: list[Row], column: str) -> tuple[str, ...]:
    """Concrete, p = 0 and fixed p of the short version with the number of seeds; ensembles beside what they are of.

    Means are over the shifts that all of them have. Of several numbers of samples that which most subjects have, and
    the largest of such.
    """
    chosen: dict[str, Block] = {}
    for block in blocks(rows):
        if block.data not in chosen or len(block.subjects) >= len(chosen[block.data].subjects):
            chosen[block.data] = block
    cells = []
    for kind in KIND_WORDS:
        texts = []
        for block in chosen.values():
            for subject in (s for s in block.subjects if s.values["dropout"] == kind):
                plain = subject.values["members"] == "1" and kind != "fixed"
                prefix = f"{block.data}, " * (len(chosen) > 1) + ("" if plain else subject.name)
                words = score_words(subject.mean(column, _among(_shared(block.subjects))), 3)
                texts.append(f"{prefix.rstrip(', ')}: {words}" if prefix else words)
        cells.append("; ".join(texts) or NOT_RUN)
    samples = " or ".join(dict.fromkeys(b.samples for b in chosen.values() if b.samples != SINGLE))
    single = [s for block in chosen.values() for s in block.subjects if s.values["members"] == "1"]
    seeds = span(int(subject.seeds) for subject in single)
    return (f"{what}, {samples} samples" if samples else what, MISSING, *cells, seeds, "")


def _commands(rows: list[Row]) -> str:
    """The first command stands for those of the controls and the ensemble, which are long."""
    return to_be_made(commands_of(SHIFT.name)[:1], SHIFT.name, rows)


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
