"""The headline numbers of classifications and segmentations, each with words that say what it means."""

from __future__ import annotations

from typing import NamedTuple

from concrete_dropout.report.components import Card
from concrete_dropout.report.record import NO_MC, Record
from concrete_dropout.report.text import number, percent


class Score(NamedTuple):
    """A metric on a card: its name there, its unit, and a sentence about it."""

    label: str
    unit: str
    meaning: str


SAMPLES = {"classification": "samples", "segmentation": "labelled pixels"}
SCORES = {
    "miou": Score("mIoU", "%", "Intersection over union of prediction and truth, mean over classes. Higher is better."),
    "accuracy": Score("Accuracy", "%", "Share of {samples} whose most probable class is the true one."),
    "nll": Score("Negative log-likelihood", "nats", "Mean of −log p(true class). Lower is better."),
    "brier": Score("Brier score", "", "Squared distance of the probabilities from the truth, from 0 to 2."),
    "ece": Score("ECE", "", "Mean distance between confidence and share that is right; 0 is perfect."),
    "calibration_rmse": Score("Calibration RMSE", "", "The same as a root mean square, as the paper gives it."),
    "mutual_information": Score("Epistemic", "nats", "Mutual information: what more data would teach the model."),
    "expected_entropy": Score("Aleatoric", "nats", "Expected entropy: ambiguity that more data would not remove."),
}


def score_cards(record: Record, stage: str) -> list[Card]:
    """Cards of all scores that a stage has, with MC against without."""
    samples = SAMPLES.get(record.kind, "points")
    found = []
    for name, score in SCORES.items():
        value, without = (record.metric(stage, f"{name}{suffix}") for suffix in ("", NO_MC))
        if value is None:
            continue
        against = "" if without is None else f" Without MC: {_shown(without, score.unit)}."
        # The unit stands beside the number, in letters of its own.
        shown = _shown(value, score.unit).removesuffix("\N{NO-BREAK SPACE}%")
        found.append(Card(score.label, shown, score.unit, f"{score.meaning.format(samples=samples)}{against}"))
    return found


def measured(record: Record, where: str) -> str:
    """A sentence about what the cards are of."""
    if not record.sampled(record.stage):
        return f"Measured {where}, by one pass without dropout masks."
    compared = any(record.metric(record.stage, f"{name}{NO_MC}") is not None for name in SCORES)
    against = " Without MC is one pass with dropout switched off." if compared else ""
    return f"Measured {where}, with Monte Carlo samples of the dropout masks.{against}"


def _shown(value: float, unit: str) -> str:
    return percent(value, 2) if unit == "%" else number(value)
