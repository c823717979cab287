"""Curves of several runs on top of each other: calibration, selective prediction, scores of classes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from concrete_dropout.plots import overlays
from concrete_dropout.plots.overlays import Curve
from concrete_dropout.plots.theme import PALETTE
from concrete_dropout.report.comparison import Comparison, Group
from concrete_dropout.report.components import Section, details, figure, grid, paragraph, table
from concrete_dropout.report.html import Html, join
from concrete_dropout.report.record import NO_MC, STAGE_WORDS, finite, mapping
from concrete_dropout.report.statistics import summarise
from concrete_dropout.report.text import count, plus_minus

BINS = 20
MIN_COUNT = 25  # predictions in a bin whose frequency is worth a mark
MAX_GROUPS = len(PALETTE)  # that colours tell apart
MAX_PAIRS = 4  # of which a solid and a dashed curve are still told apart
MAX_CLASSES = 30
# What is kept when the most uncertain are left out: key, title, axis
KEPT = (
    ("miou_kept", "mIoU of what is kept", "mIoU"),
    ("accuracy_kept", "Accuracy of what is kept", "Accuracy"),
    ("calibration_rmse_kept", "Calibration of what is kept", "Calibration RMSE"),
)
Points = list[tuple[float, float, float]]


def has_calibration(found: Comparison) -> bool:
    """Whether some run has a calibration curve."""
    return any(_calibration(group, found.stage) for group in found.groups)


def has_classes(found: Comparison) -> bool:
    """Whether some run has scores of single classes."""
    return any(_ious(group, found.stage) for group in found.groups)


def calibration(found: Comparison) -> Section:
    """Reliability (or coverage, for regression) of all groups, with and without Monte Carlo dropout."""
    curves: dict[str, list[Curve]] = {}
    crowded = len(found.groups) > MAX_PAIRS
    for colour, group in _drawn(found):
        plain = [] if crowded else _calibration(group, f"{found.stage}{NO_MC}")
        for entries, words, dashed in (
            (_calibration(group, found.stage), ", MC" if plain else "", False),
            (plain, ", one pass", True),
        ):
            for kind, points in (("reliability", pooled(entries)), ("coverage", averaged(entries))):
                if points:
                    x, y, share = zip(*points, strict=True)
                    sizes = share if kind == "reliability" else ()
                    curve = Curve(f"{group.label}{words}", x, y, sizes=sizes, colour=colour, dashed=dashed)
                    curves.setdefault(kind, []).append(curve)
    made = []
    if "reliability" in curves:
        caption = (
            f"Of the {STAGE_WORDS[found.stage]} predictions made with some confidence, how many were right. Below the "
            "diagonal a model is overconfident."
        )
        made.append(figure(overlays.reliability(curves["reliability"]), caption))
        drawn = overlays.gaps(curves["reliability"], "Distance from the diagonal", "Confidence (largest probability)")
        hint = "" if crowded else " Dashed: one pass without dropout."
        made.append(
            figure(drawn, f"Larger marks hold more predictions, at least {MIN_COUNT}; repeated runs are pooled.{hint}")
        )
    if "coverage" in curves:
        caption = (
            f"Share of {STAGE_WORDS[found.stage]} targets inside of central predictive intervals, mean over repeated "
            "runs. Below the diagonal a model is overconfident."
        )
        made.append(figure(overlays.coverage(curves["coverage"]), caption))
        drawn = overlays.gaps(curves["coverage"], "Distance from the diagonal", "Expected coverage (probability)")
        made.append(figure(drawn, "Above 0 intervals hold more than they promise."))
    return Section("calibration", "Calibration", join([grid(made), _left_out(found)]))


def selective(found: Comparison) -> Section:
    """Scores of what is kept when the most uncertain predictions are left out."""
    made = []
    for key, title, axis in KEPT:
        curves = []
        for colour, group in _drawn(found):
            for suffix, dashed in (("", False), ("_epistemic", True)):
                if dashed and not group.samples:
                    continue  # one network does not disagree with itself: the order would be chance
                pairs = _kept(group, found.stage, f"{key}{suffix}")
                if pairs:
                    x, y = zip(*pairs, strict=True)
                    curves.append(Curve(group.label, x, y, colour=colour, dashed=dashed, in_legend=not dashed))
        if curves:
            made.append(figure(overlays.selective(title, axis, curves), alt=title))
    intro = paragraph(
        "The most uncertain predictions are left out, by predictive entropy (solid) or by mutual information alone "
        "(dashed). If uncertainty finds errors, what is kept gets better from left to right."
    )
    shown = grid(made) if len(made) > 1 else join(made)
    return Section("selective", "Does uncertainty find errors?", join([intro, shown, _left_out(found)]))


def classes(found: Comparison) -> Section:
    """Intersection over union of every class."""
    shown = [(colour, group.label, runs) for colour, group in _drawn(found) if (runs := _ious(group, found.stage))]
    groups = {name: runs for _, name, runs in shown}
    names = list(dict.fromkeys(name for runs in groups.values() for run in runs for name in run))[:MAX_CLASSES]
    table_of = {name: [[run.get(entry) for entry in names] for run in runs] for name, runs in groups.items()}
    drawn = overlays.by_class(names, table_of, [colour for colour, _, _ in shown])
    caption = (
        f"On {STAGE_WORDS[found.stage]} data, with MC samples where there are any. Large marks are means over runs."
    )
    rows = []
    for name in names:
        summaries = [
            summarise(100 * v if (v := run.get(name)) is not None else None for run in runs) for runs in groups.values()
        ]
        rows.append([name, *(plus_minus(s.mean, s.se, 1) if s is not None else "–" for s in summaries)])
    header = ["Class", *groups]
    listing = table(header, rows, "IoU in per cent, mean ± standard error over runs", numeric=range(1, len(header)))
    body = [figure(drawn, caption), details("Table of all classes", listing), _left_out(found)]
    return Section("classes", "IoU by class", join(body))


def pooled(entries: Iterable[dict[str, Any]]) -> Points:
    """(confidence, frequency, share) of reliability curves of several runs, bin by bin as if they were one.

    Where the number of predictions is known, bins with a handful of them are joined with their neighbours: how many of
    three predictions were right says nothing.

    >>> one = {"confidence": [0.52, 0.97], "frequency": [0.5, 1.0], "share": [0.25, 0.75]}
    >>> two = {"confidence": [0.98], "frequency": [0.8], "share": [1.0]}
    >>> [tuple(round(value, 3) for value in point) for point in pooled([one, two])]
    [(0.52, 0.5, 0.125), (0.976, 0.886, 0.875)]
    """
    bins: dict[int, Points] = {}
    curves = [(entry, list(_numbers(entry, "confidence", "frequency", "share"))) for entry in entries]
    for _, curve in curves:
        for confidence, frequency, share in curve:
            if share > 0:
                bins.setdefault(min(int(confidence * BINS), BINS - 1), []).append((confidence, frequency, share))
    counts = [finite(entry.get("num_points")) for entry, curve in curves if curve]
    runs = max(len(counts), 1)
    predictions = math.fsum(found for found in counts if found is not None) if None not in counts else math.inf
    found = [_joined(points, runs) for _, points in sorted(bins.items())]
    least = MIN_COUNT / predictions if predictions else 0.0
    return _thick(found, least)


def _joined(points: Points, runs: int = 1) -> tuple[float, float, float]:
    """Several points as one, weighted by their shares; its share is the mean over runs."""
    weight = math.fsum(share for _, _, share in points)
    confidence, frequency = (math.fsum(point[i] * point[2] for point in points) / weight for i in (0, 1))
    return confidence, frequency, weight / runs


def _thick(points: Points, least: float) -> Points:
    """Neighbours joined until each has at least this share; what is left at the end joins the last."""
    done: Points = []
    waiting: Points = []
    for point in points:
        waiting.append(point)
        if math.fsum(share for _, _, share in waiting) >= least:
            done.append(_joined(waiting))
            waiting = []
    if waiting:
        done = [*done[:-1], _joined([*done[-1:], *waiting])]
    return done


def averaged(entries: Iterable[dict[str, Any]]) -> Points:
    """(expected, observed, number of runs) of coverage curves of several runs, at the levels that they share."""
    levels: dict[float, list[float]] = {}
    for entry in entries:
        for expected, observed in _numbers(entry, "expected", "observed"):
            levels.setdefault(round(expected, 6), []).append(observed)
    most = max(map(len, levels.values()), default=0)
    return [(level, sum(v) / len(v), float(len(v))) for level, v in sorted(levels.items()) if len(v) == most]


def _numbers(entry: dict[str, Any], *keys: str) -> Iterable[tuple[float, ...]]:
    """Rows of several lists; those with something else than numbers are left out."""
    lists = [entry.get(key) for key in keys]
    if not all(isinstance(values, list) for values in lists):
        return
    for row in zip(*lists, strict=False):
        values = [number for value in row if (number := finite(value)) is not None]
        if len(values) == len(keys):
            yield tuple(values)


def _calibration(group: Group, stage: str) -> list[dict[str, Any]]:
    entries = [mapping(record.calibration.get(stage)) for record in group.records]
    return [entry for entry in entries if entry.get("confidence") or entry.get("expected")]


def _kept(group: Group, stage: str, key: str) -> list[tuple[float, float]]:
    """Mean over runs of a curve of selective prediction."""
    rows: dict[float, list[float]] = {}
    for record in group.records:
        for share, value in _numbers(mapping(record.selective.get(stage)), "left_out", key):
            rows.setdefault(round(share, 6), []).append(value)
    return [(share, sum(values) / len(values)) for share, values in sorted(rows.items())]


def _ious(group: Group, stage: str) -> list[dict[str, float]]:
    """{class: IoU} of every run."""
    found = []
    for record in group.records:
        entry = mapping(record.classes.get(stage))
        names, values = entry.get("names"), entry.get("iou")
        if isinstance(names, list) and isinstance(values, list):
            pairs = [(str(name), finite(value)) for name, value in zip(names, values, strict=False)]
            found.append({name: value for name, value in pairs if value is not None})
    return [run for run in found if run]


def _drawn(found: Comparison) -> list[tuple[str, Group]]:
    """The groups that figures have room for, with their colours."""
    return list(zip(found.colours, found.groups, strict=True))[:MAX_GROUPS]


def _left_out(found: Comparison) -> Html | None:
    rest = len(found.groups) - MAX_GROUPS
    return (
        paragraph(f"{count(rest, 'more group')} of runs {'is' if rest == 1 else 'are'} not drawn.")
        if rest > 0
        else None
    )
