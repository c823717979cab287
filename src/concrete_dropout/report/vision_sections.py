"""Sections of a report on predicted classes: uncertainty, calibration, single classes, a gallery of samples."""

from __future__ import annotations

import math
from typing import Any

from concrete_dropout import plots
from concrete_dropout.plots.reliability import mean_gap
from concrete_dropout.report.components import Section, figure, grid, paragraph, table
from concrete_dropout.report.html import Html, join, tag
from concrete_dropout.report.pictures import tile
from concrete_dropout.report.record import NO_MC, STAGE_WORDS, STAGES, Record, dicts, finite, mapping
from concrete_dropout.report.text import change, number, percent, probability, whole

NOUNS = {"classification": "sample", "segmentation": "pixel"}
ENTROPIES = ("predictive_entropy", "expected_entropy", "mutual_information")
SPACE = "\N{NO-BREAK SPACE}"
LEFT_OUT = 0.2  # share that the sentence about selective prediction is about
GALLERY_KINDS = {
    "uncertain": ("Most uncertain", "The largest predictive entropies: the model itself says that it does not know."),
    "wrong": ("Most confidently wrong", "Errors that the model's confidence gives no warning of, the worst first."),
}


def uncertainty(record: Record) -> Section:
    """Entropies, and whether they find the errors."""
    stages = [stage for stage in STAGES if any(record.metric(stage, name) is not None for name in ENTROPIES)]
    rows = [
        [STAGE_WORDS[stage].capitalize(), *(number(record.metric(stage, name)) for name in ENTROPIES)]
        for stage in stages
    ]
    header = ["Data", "Predictive entropy", "Expected entropy (aleatoric)", "Mutual information (epistemic)"]
    caption = "Means in nats; the predictive entropy is the sum of the other two"
    stage = next((stage for stage in STAGES if mapping(record.selective.get(stage))), record.stage)
    entry = mapping(record.selective.get(stage))
    noun = NOUNS.get(record.kind, "prediction")
    figures = [
        figure(plots.selective.left_out(entry, score), _selective_caption(score, noun))
        for score in plots.selective.SCORES
        if entry.get(f"{score}_kept")
    ]
    parts: list[object] = [
        paragraph(text) if (text := selective_in_words(entry, stage, noun)) else None,
        table(header, rows, caption, numeric=(1, 2, 3)) if rows else None,
        grid([*figures, *_outcomes(record)]),
    ]
    if not rows and not figures:
        parts.append(paragraph("No uncertainty was recorded: it is measured at the first validation."))
    return Section("uncertainty", "Uncertainty", join(parts))


def selective_in_words(entry: dict[str, Any], stage: str, noun: str) -> str:
    """What leaving out the most uncertain predictions does to accuracy."""
    shares, kept = entry.get("left_out"), entry.get("accuracy_kept")
    if not isinstance(shares, list) or not isinstance(kept, list):
        return ""
    pairs = zip(map(finite, shares), map(finite, kept), strict=False)
    found = [(share, accuracy) for share, accuracy in pairs if share is not None and accuracy is not None]
    if not found or found[0][0] != 0:
        return ""
    share, after = min(found, key=lambda pair: abs(pair[0] - LEFT_OUT))
    first, last = percent(found[0][1], 1), percent(after, 1)
    moved = f"{'raises' if after > found[0][1] else 'lowers'} accuracy from {first} to {last}"
    return (
        f"Does uncertainty find the errors? Leaving out the {percent(share)} of {STAGE_WORDS[stage]} {noun}s that the "
        f"model is least sure of {moved if first != last else f'leaves accuracy at {first}'}."
    )


def calibration(record: Record) -> Section:
    """Reliability of confidence, with and without Monte Carlo samples."""
    keys = [key for stage in STAGES for key in (stage, f"{stage}{NO_MC}")]
    found = {key: entry for key in keys if (entry := mapping(record.calibration.get(key))).get("confidence")}
    if not found:
        text = "No calibration was recorded: it is measured at the first validation."
        return Section("calibration", "Calibration", paragraph(text))
    stage = next(iter(found)).removesuffix(NO_MC)
    words = {stage: "with MC" if record.sampled(stage) else "without MC", f"{stage}{NO_MC}": "without MC"}
    curves = {words[key]: entry for key, entry in found.items() if key in words}
    noun = NOUNS.get(record.kind, "prediction")
    texts = [
        f"Of all {noun}s that a calibrated model is {percent(0.8)} sure of, {percent(0.8)} are right.",
        gap_in_words(found.get(stage, {})),
    ]
    rows = [
        [
            STAGE_WORDS[key.removesuffix(NO_MC)].capitalize(),
            "without" if key.endswith(NO_MC) or not record.sampled(key) else "with",
            *(number(entry.get(name)) for name in ("ece", "mce", "rmse", "nll", "brier")),
            whole(entry.get("num_points")),
        ]
        for key, entry in found.items()
    ]
    header = ["Data", "MC", "ECE", "MCE", "Calibration RMSE", "NLL (nats)", "Brier", f"{noun.capitalize()}s"]
    listing = table(header, rows, "Lower is better in all columns", numeric=range(2, 8))
    caption = (
        f"Share of right {noun}s against confidence ({STAGE_WORDS[stage]} data), and how many have that confidence. "
        "Below the diagonal the model is overconfident."
    )
    shown = figure(plots.reliability.reliability_curve(curves), caption)
    return Section("calibration", "Calibration", join([paragraph(" ".join(filter(None, texts))), listing, shown]))


def gap_in_words(entry: dict[str, Any]) -> str:
    """Whether the model is over- or underconfident on the whole."""
    gap = mean_gap(entry) if entry else math.nan
    if not math.isfinite(gap):
        return ""
    if abs(gap) < 0.01:
        return "This one is, on average, as confident as it is right."
    points = f"{100 * abs(gap):.1f} percentage points"
    return f"This one is {points} {'more confident than right: overconfident' if gap > 0 else 'too cautious'}."


def classes(record: Record) -> Section:
    """Intersection over union of every class."""
    stage = next(stage for stage in STAGES if mapping(record.classes.get(stage)).get("names"))
    entry = mapping(record.classes.get(stage))
    names, iou, without = (entry.get(key) or [] for key in ("names", "iou", "iou_no_mc"))
    rows = []
    for index, name in enumerate(names):
        values = [finite(column[index]) if index < len(column) else None for column in (iou, without)]
        row: list[object] = [join([swatch(_at(entry.get("colours"), index)), str(name)], SPACE), probability(values[0])]
        if without:
            gain = values[0] - values[1] if values[0] is not None and values[1] is not None else None
            row += [probability(values[1]), change(gain)]
        rows.append(row)
    header = ["Class", "IoU", *(["IoU without MC", "Gain by MC"] if without else [])]
    words = STAGE_WORDS[stage]
    listing = table(
        header, rows, f"Intersection over union, {words} data, void left out", numeric=range(1, len(header))
    )
    caption = f"Every class of the {words} data, the best on top. mIoU is the mean of these."
    bars = figure(plots.classes.class_iou(names, iou, without), caption)
    return Section("classes", "Classes", grid([listing, bars]))


def gallery(record: Record) -> Section:
    """Samples with their pictures, true and predicted classes."""
    stage = next(stage for stage in STAGES if dicts(record.gallery.get(stage)))
    samples = dicts(record.gallery.get(stage))
    parts: list[object] = []
    for kind, (heading, meaning) in GALLERY_KINDS.items():
        shown = [sample for sample in samples if sample.get("kind") == kind]
        parts.append(tag("h3", heading))
        if not shown:
            parts.append(paragraph("There are none."))
            continue
        parts.append(paragraph(f"{meaning} From the {STAGE_WORDS[stage]} data."))
        parts.append(tag("ul", *(tag("li", _sample(record, sample)) for sample in shown), class_="gallery"))
    return Section("gallery", "Gallery", join(parts))


def swatch(colour: object) -> Html:
    """A small square in a class's colour; nothing where it has none."""
    rgb = rgb_of(colour)
    return tag("span", class_="swatch", style=f"background:{rgb}", aria_hidden="true") if rgb else Html()


def rgb_of(colour: object) -> str:
    """A colour of a file as CSS; "" for what is none.

    >>> rgb_of([128, 64, 0]), rgb_of("red;}"), rgb_of([1, 2])
    ('rgb(128,64,0)', '', '')
    """
    if not isinstance(colour, (list, tuple)) or len(colour) != 3:
        return ""
    channels = [finite(channel) for channel in colour]
    if any(channel is None or not 0 <= channel <= 255 for channel in channels):
        return ""
    return f"rgb({','.join(f'{channel:.0f}' for channel in channels)})"


def _sample(record: Record, sample: dict[str, Any]) -> Html:
    target, predicted = str(sample.get("target")), str(sample.get("predicted"))
    right = target == predicted
    confidence = finite(sample.get("confidence"))
    facts = [
        tag("strong", target) if right else join([tag("strong", target), " taken for ", tag("strong", predicted)], ""),
        tag("span", "right" if right else "wrong", class_="verdict" if right else "verdict flag"),
        tag("span", f"{percent(confidence, 1)} sure" if confidence is not None else "", class_="sure"),
        tag(
            "span",
            f"entropy {number(finite(sample.get('predictive_entropy')), 2)}, "
            f"mutual information {number(finite(sample.get('mutual_information')), 2)}",
            class_="detail",
        ),
        tag("span", str(sample.get("name")), class_="detail"),
    ]
    alt = f"{sample.get('name')}: {target}, predicted {predicted}"
    return tile(record.pictures.get(str(sample.get("file"))), alt, join(facts, " "))


def _outcomes(record: Record) -> list[Html]:
    stage = next((stage for stage in STAGES if record.predictions.get(stage)), None)
    if stage is None or "correct" not in record.predictions[stage][0]:
        return []
    caption = f"Where the two curves part, entropy tells errors from hits ({STAGE_WORDS[stage]} data)."
    return [figure(plots.selective.entropy_by_outcome(record.predictions[stage]), caption)]


def _selective_caption(score: str, noun: str) -> str:
    meanings = {
        "accuracy": f"Rising: errors are among the most uncertain {noun}s. The perfect order has all errors first.",
        "miou": "The same for mIoU. Far to the right few classes are left, and their mean jumps.",
        "calibration_rmse": "Calibration of what is kept; lower is better.",
    }
    return meanings[score]


def _at(values: object, index: int) -> object:
    return values[index] if isinstance(values, list) and index < len(values) else None
