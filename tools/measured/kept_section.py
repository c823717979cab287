"""Figures of the sections on CamVid: calibration, convergence of p from several starts, maps of uncertainty."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from concrete_dropout.report.record import finite
from concrete_dropout.report.text import probability

from .axes import Axis
from .cells import Row
from .experiments import Experiment
from .figures import SMALL, Line, Panel, figure, shade
from .kept import KEEPING, calibration_table, history_table, maps_table, sources_table
from .map_section import maps_lines
from .parts import Part
from .series import colour_of
from .store import in_order, read_rows
from .tables import code, converged_words, dropout_words, provenance, table

NOT_MADE = "**Not made yet.**"
INIT = "dropout.init_p"
RARE = 1e-4  # bins with a smaller share of the pixels are not drawn
SQUARE = (280, 280)


@dataclass(frozen=True)
class Curve:
    """Reliability of one kind of dropout, pooled over runs: bin -> mean confidence, frequency, pixels."""

    name: str
    kind: str
    mc: bool
    bins: tuple[tuple[float, float, float], ...]

    @property
    def rmse(self) -> float:
        """Root of the mean squared gap between frequency and confidence over pixels."""
        total = math.fsum(count for _, _, count in self.bins)
        return math.sqrt(math.fsum(n * (frequency - c) ** 2 for c, frequency, n in self.bins) / total)


def with_figures(part: Part, experiment: Experiment, folder: Path) -> Part:
    """A section with its figures of what was kept beside the rows; others as they are."""
    if experiment.name not in KEEPING:
        return part
    made = dict(part.figures)
    lines = list(part.lines)
    calibration = read_rows(folder, calibration_table(experiment))
    courses = read_rows(folder, history_table(experiment))
    sources = read_rows(folder, sources_table(experiment))
    for own, figures in (
        _calibration(experiment, calibration),
        _convergence(experiment, courses, sources),
        maps_lines(experiment, read_rows(folder, maps_table(experiment))),
    ):
        lines += own
        made |= figures
    return replace(part, lines=lines, figures=made)


def curves(rows: Iterable[Row]) -> list[Curve]:
    """Reliability by kind of dropout and way of predicting, counts pooled over seeds."""
    found: dict[tuple[str, ...], dict[str, list[tuple[float, float, float]]]] = {}
    for row in rows:
        numbers = [finite(row[key]) for key in ("confidence", "frequency", "count")]
        if None not in numbers and numbers[2]:
            bins = found.setdefault(tuple(row[key] for key in ("dropout", "p", "mc")), {})
            bins.setdefault(row["bin"], []).append((numbers[0] or 0.0, numbers[1] or 0.0, numbers[2]))
    made = []
    for (kind, p, mc), bins in sorted(found.items(), key=lambda item: [in_order(item[0][0], "dropout"), item[0]]):
        way = "" if kind == "none" else ", MC" if mc == "true" else ", no MC"
        pooled = [_pooled(bins[place]) for place in sorted(bins, key=in_order)]
        made.append(Curve(dropout_words({"dropout": kind, "p": p}) + way, kind, mc == "true", tuple(pooled)))
    return made


def _pooled(entries: list[tuple[float, float, float]]) -> tuple[float, float, float]:
    total = math.fsum(count for _, _, count in entries)
    means = [math.fsum(entry[i] * entry[2] for entry in entries) / total for i in (0, 1)]
    return means[0], means[1], total


def _calibration(experiment: Experiment, rows: list[Row]) -> tuple[list[str], dict[str, str]]:
    head = ["### Calibration", ""]
    if not rows:
        return [*head, f"{NOT_MADE} It comes with the runs of the table above.", ""], {}
    settings = _most(row["settings"] for row in rows if row["bin"])
    drawn = [row for row in rows if row["settings"] == settings]
    lines = []
    for curve in curves(drawn):
        total = math.fsum(count for _, _, count in curve.bins)
        points = tuple((c, frequency) for c, frequency, count in curve.bins if count >= RARE * total)
        name = f"{curve.name} (RMSE {curve.rmse:.3f})"
        lines.append(Line(name, points, colour_of(curve.kind), dashed=not curve.mc and curve.kind != "none", dots=True))
    unit = (0.0, 1.0)
    panel = Panel("", Axis("confidence", limits=unit), Axis("frequency", limits=unit), lines, diagonal=True)
    file = f"{experiment.name}_calibration.svg"
    text = (
        "How often the predicted class of a test pixel is the true one, against the confidence in it; perfect "
        f"calibration is the diagonal. Counts are pooled over seeds: {_seeds(drawn)}. Bins with less than "
        f"{RARE:.2%} of the pixels are not drawn, but count for the RMSE."
    )
    made = f"Runs with {code(settings)}. " if settings else ""
    link = f"{made}{_link(calibration_table(experiment).name, 'bin')}"
    title = "Calibration on test images"
    lines_of_page = [*head, f"{text} {link}", "", f"![frequency against confidence](results/{file})", ""]
    return lines_of_page, {file: figure(title, [panel], size=SQUARE)}


def _seeds(rows: list[Row]) -> str:
    """Those of every kind of dropout, which need not have the same."""
    found: dict[str, set[str]] = {}
    for row in sorted(rows, key=lambda row: (in_order(row["dropout"], "dropout"), in_order(row["p"]))):
        found.setdefault(dropout_words(row), set()).add(row["seed"])
    return "; ".join(f"{name} has {', '.join(sorted(seeds, key=in_order))}" for name, seeds in found.items())


def _convergence(experiment: Experiment, rows: list[Row], sources: list[Row]) -> tuple[list[str], dict[str, str]]:
    head = ["### Convergence of p", ""]
    by_settings: dict[str, list[Row]] = {}
    for row in rows:
        by_settings.setdefault(without_start(row["settings"]), []).append(row)

    def starts(settings: str) -> list[str]:
        return sorted({row["init_p"] for row in by_settings[settings]}, key=in_order)

    settings = max(sorted(by_settings), key=lambda key: len(starts(key)), default="")
    if not rows or len(starts(settings)) < 2:
        study = f"'study={{grid:{{{INIT}:[0.05,0.1,0.2,0.35,0.5]}}}}'"
        command = f"python train.py experiment={experiment.runs[0]} {study} test=false"
        words = f"{NOT_MADE} It needs runs with several initial values of p, for example {code(command)}."
        return [*head, words, ""], {}
    drawn, values = by_settings[settings], starts(settings)
    places = {row["place"]: row["layer"] for row in sorted(drawn, key=lambda row: in_order(row["depth"]))}
    panels = []
    for place in places:
        lines = []
        for i, init in enumerate(values):
            own = [row for row in drawn if (row["place"], row["init_p"]) == (place, init)]
            paint = shade(i / (len(values) - 1))
            for number, (_, points) in enumerate(sorted(_courses(own).items())):
                lines.append(Line("" if number else f"from p = {init}", points, paint))
        panels.append(Panel(place, Axis("step"), Axis("p", limits=(0.0, _high(drawn))), lines))
    file = f"{experiment.name}_convergence.svg"
    text = (
        "Learned p of the first, the second, the middle and the last two dropout layers, from initial values of "
        f"{values[0]} to {values[-1]}. {_link(history_table(experiment).name, 'point')}"
    )
    header = ["layer", "name", *(f"last p, from {init}" for init in values), "largest − smallest", "p converged"]
    runs = {(row["seed"], row["started"], row["settings"]) for row in drawn}
    used = [row for row in sources if (row["seed"], row["started"], row["settings"]) in runs]
    body = [_ends(drawn, place, layer, values) for place, layer in places.items()]
    svg = figure("Learned p from several initial values", panels, columns=3, size=SMALL)
    return [*head, text, "", f"![p by step](results/{file})", "", *table(header, body), *provenance(used)], {file: svg}


def without_start(settings: str) -> str:
    """Settings without the initial value of p, in which runs of one figure differ.

    >>> without_start("dropout.init_p=0.5 test=false")
    'test=false'
    """
    return " ".join(word for word in settings.split() if not word.startswith(f"{INIT}="))


def _courses(rows: Iterable[Row]) -> dict[tuple[str, ...], tuple[tuple[float, float], ...]]:
    """Run -> step and p."""
    found: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for row in rows:
        step, p = finite(row["step"]), finite(row["value"])
        if step is not None and p is not None:
            found.setdefault((row["seed"], row["started"], row["settings"]), []).append((step, p))
    return {run: tuple(sorted(points)) for run, points in found.items()}


def _ends(rows: list[Row], place: str, layer: str, values: list[str]) -> list[str]:
    """The last p of a layer by initial value, as means over seeds, and how far apart these are."""
    means = []
    for init in values:
        own = [row for row in rows if (row["place"], row["init_p"]) == (place, init)]
        lasts = [points[-1][1] for points in _courses(own).values()]
        means.append(math.fsum(lasts) / len(lasts))
    # The verdict on a run stands in all of its rows.
    verdicts = {(row["seed"], row["started"], row["settings"]): row for row in rows if row["place"] == place}
    told = converged_words(verdicts.values())
    return [place, code(layer), *map(probability, means), probability(max(means) - min(means)), told]


def _link(name: str, what: str) -> str:
    return f"Every {what}: [{name}.csv](results/{name}.csv)."


def _high(rows: list[Row]) -> float:
    """The same end of the axis for all panels."""
    return max(value for row in rows if (value := finite(row["value"])) is not None)


def _most(values: Iterable[str]) -> str:
    """The most frequent; of equally frequent ones the first in the alphabet."""
    found = sorted(values)
    return max(dict.fromkeys(found), key=found.count)
