"""Sections of shifted data: metrics against severity, and how well scores tell shifted data from clean ones."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from concrete_dropout.plots.evaluation import Line, against_severity, auroc_bars
from concrete_dropout.plots.metrics import title_of
from concrete_dropout.report.components import Section, details, figure, grid, paragraph, table
from concrete_dropout.report.evaluation_rows import NO_DROPOUT, SCORES, SHIFTED, Row
from concrete_dropout.report.html import Html, join, tag
from concrete_dropout.report.text import number

Value = Callable[[Row], float | None]
MEASURES = {"auroc": "AUROC", "aupr": "AUPR", "fpr95": "FPR95"}
PIXEL_SCORE = "/pixels"
PIXELS = (
    "Scores of pixels are counted in 512 bins, so that memory does not grow with the images; the others are exact, "
    "those of images being means over their pixels. Void pixels do not count."
)


def severity_section(rows: list[Row], kind: str) -> Section:
    """Metrics under corruptions of rising severity, as means over corruptions and for each of them."""
    corrupted = [row for row in rows if row.severity]
    if not corrupted:
        return Section("severity", "Corrupted data", "")
    clean = _clean_of(rows, corrupted)
    metrics = [name for name in SHIFTED[kind] if any(name in row.metrics for row in corrupted)]
    parts: list[Html] = [paragraph("Means over the corruptions; severity 0 is clean data.")]
    figures = [
        figure(against_severity(_means([*clean, *corrupted], _metric(name)), name), alt=f"{title_of(name)} by severity")
        for name in metrics
    ]
    parts += [grid(figures)]
    for group in _groups(corrupted):
        best = _sampled([row for row in corrupted if row.group == group])
        start = [row for row in clean if row.group == group and row.mask == best[0].mask]
        parts.append(tag("h3", f"Each corruption, {group}, {_words(best[0])}"))
        parts.append(
            grid(
                figure(
                    against_severity(_each(best, start, _metric(name)), name),
                    alt=f"{title_of(name)} by severity, for each corruption",
                )
                for name in metrics
            )
        )
    return Section("severity", "Corrupted data", join(parts))


def detection_section(rows: list[Row], kind: str) -> Section:
    """AUROC and the like of scores that should be higher for shifted data."""
    shifted = [row for row in rows if row.detection]
    if not shifted:
        return Section("detection", "Telling shifted data", "")
    scores = [score for score in SCORES if any(score in row.detection for row in shifted)]
    text = (
        "Can a score tell shifted observations from clean ones? AUROC is the probability that a shifted one has the "
        "higher score, 0.5 by chance. AUPR is the average precision with shifted ones as positives, FPR95 the share "
        "of clean ones that raise an alarm where 95 % of the shifted ones do."
    )
    parts: list[Html] = [paragraph(text)]
    if any(score.endswith(PIXEL_SCORE) for score in scores):
        parts.append(paragraph(PIXELS))
    corrupted, other = [row for row in shifted if row.severity], [row for row in shifted if not row.severity]
    for group in _groups(shifted):
        own = [row for row in corrupted if row.group == group]
        if own:
            parts.append(grid(_severity_figures(own, scores, group)))
        elsewhere = _sampled([row for row in other if row.group == group])
        if elsewhere:
            values = {
                SCORES[s]: {r.shift: r.detection[s]["auroc"].mean for r in elsewhere if s in r.detection}
                for s in scores
            }
            bars = auroc_bars({score: found for score, found in values.items() if found})
            parts.append(figure(bars, alt="AUROC for other data"))
    parts.append(details("AUROC, AUPR and FPR95 of everything", _table(shifted, scores)))
    return Section("detection", "Telling shifted data", join(parts))


def _severity_figures(rows: list[Row], scores: list[str], group: str) -> list[Html]:
    """AUROC by severity: of all scores as means over corruptions, and of the first score for each of them."""
    dense = [score for score in scores if score.endswith(PIXEL_SCORE)]
    whole = [score for score in scores if score not in dense]
    figures = []
    for chosen, words in ((whole, "images" if dense else ""), (dense, "pixels")):
        if chosen:
            title = f"AUROC, mean over corruptions{f', {words}' if words else ''}, {group}"
            made = against_severity(_score_lines(rows, chosen), "auroc", title)
            figures.append(figure(made, alt=f"AUROC by severity, {words}"))
    first = (dense or whole)[0]
    each = against_severity(_each(_sampled(rows), [], _auroc(first)), "auroc", f"AUROC of {SCORES[first]}, {group}")
    return [*figures, figure(each, alt="AUROC by severity, for each corruption")]


def _table(rows: list[Row], scores: list[str]) -> Html:
    header = ["Shift", "Run", "Mask", "Samples", "Score", *MEASURES.values()]
    body = [
        [
            f"{row.shift} {row.severity}" if row.severity else row.shift,
            row.group,
            row.mask,
            str(row.samples),
            SCORES[score],
            *(number(row.detection[score][name].mean) for name in MEASURES),
        ]
        for row in rows
        for score in scores
        if score in row.detection
    ]
    return table(header, body, "Shifted against clean data", numeric=(3, 5, 6, 7))


def _metric(name: str) -> Value:
    return lambda row: row.metrics[name].mean if name in row.metrics else None


def _auroc(score: str) -> Value:
    return lambda row: row.detection[score]["auroc"].mean if score in row.detection else None


def _groups(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row.group for row in rows))


def _words(row: Row) -> str:
    return "no dropout" if row.mask == NO_DROPOUT else f"{row.mask} masks, {row.samples} samples"


def _sampled(rows: list[Row]) -> list[Row]:
    """Those with dropout, where there are any."""
    return [row for row in rows if row.mask != NO_DROPOUT] or rows


def _clean_of(rows: list[Row], shifted: list[Row]) -> list[Row]:
    keys = {(row.group, row.part, row.mask, row.samples) for row in shifted}
    return [row for row in rows if not row.shift and (row.group, row.part, row.mask, row.samples) in keys]


def _means(rows: list[Row], value: Value, name: str = "", dash: int = 0, first: int = 0) -> list[Line]:
    """One line for each run with and without dropout: means over corruptions."""
    kinds = list(dict.fromkeys((row.group, _words(row)) for row in rows))
    lines = []
    for index, (group, words) in enumerate(kinds):
        own = [row for row in rows if (row.group, _words(row)) == (group, words)]
        severities = sorted({row.severity for row in own})
        y = [fmean(v for row in own if row.severity == s and (v := value(row)) is not None) for s in severities]
        label = name or (words if len(_groups(rows)) == 1 else f"{group}, {words}")
        lines.append(Line(label, severities, y, None, first + index, dash))
    return lines


def _each(rows: list[Row], clean: list[Row], value: Value) -> list[Line]:
    """One line for each corruption."""
    lines = []
    for index, shift in enumerate(dict.fromkeys(row.shift for row in rows)):
        own = sorted([*clean, *(row for row in rows if row.shift == shift)], key=lambda row: row.severity)
        found = [(row.severity, v) for row in own if (v := value(row)) is not None]
        lines.append(Line(shift.replace("_", " "), [s for s, _ in found], [v for _, v in found], None, index, index))
    return lines


def _score_lines(rows: list[Row], scores: list[str]) -> list[Line]:
    """One line for each score, with and without dropout: means over corruptions."""
    lines = []
    for index, score in enumerate(scores):
        for dash, words in enumerate(dict.fromkeys(_words(row) for row in rows)):
            own = [row for row in rows if _words(row) == words and score in row.detection]
            if own:
                how = "no dropout" if own[0].mask == NO_DROPOUT else "MC"
                lines += _means(own, _auroc(score), f"{SCORES[score].removesuffix(', pixels')}, {how}", dash, index)
    return lines
