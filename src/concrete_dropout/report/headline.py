"""The headline numbers of a run, each with words that say what it means."""

from __future__ import annotations

from concrete_dropout.plots.metrics import IOU, title_of, unit_of
from concrete_dropout.report.components import Card, Section, cards, paragraph, table
from concrete_dropout.report.html import join
from concrete_dropout.report.layers import Layer
from concrete_dropout.report.record import NO_MC, STAGE_WORDS, STAGES, Record, finite, mapping
from concrete_dropout.report.text import count, number, percent, probability
from concrete_dropout.report.vision_headline import SCORES, measured, score_cards

# What is observed, by the kind of task.
NOUNS = {"regression": "point", "classification": "sample", "segmentation": "pixel"}


def lead(record: Record, layers: list[Layer]) -> str:
    """One sentence about the whole run."""
    data = finite(record.run.get("num_train"))
    source = f" on {count(data, f'training {NOUNS[record.kind]}')}" if data is not None else ""
    learned = [layer.final for layer in layers if layer.learned and layer.final is not None]
    if learned:
        low, high = probability(min(learned)), probability(max(learned))
        amount = count(len(learned), "dropout probability", "dropout probabilities")
        reach = f" of {low}" if low == high else f" between {low} and {high}"
        so_far = "" if record.state == "finished" else " so far"
        return f"Concrete dropout learned {amount}{reach}{source}{so_far}."
    if layers:
        return f"Trained with fixed dropout probabilities in {count(len(layers), 'layer')}{source}."
    return f"Trained without dropout{source}." if record.run.get("dropout") == "none" else ""


def results(record: Record, layers: list[Layer]) -> Section:
    """Cards for the numbers that people compare, and all final metrics in a table."""
    stage = record.stage
    words = STAGE_WORDS[stage]
    points = record.num_points(stage)
    where = f"on {count(points, f'{words} {NOUNS[record.kind]}')}" if points is not None else f"on {words} data"
    regression = record.kind == "regression"
    scores = [*_scores(record, stage), *_uncertainties(record, stage)] if regression else score_cards(record, stage)
    made = [*scores, *_probabilities(record, layers)]
    if not made:
        return Section("results", "Results", paragraph("No metrics have been recorded yet."))
    if record.metric(stage, "nll") is None:
        intro = "Neither validation nor test data have been scored yet."
    else:
        intro = f"Measured {where}, in the target's original units." if regression else measured(record, where)
    return Section("results", "Results", join([paragraph(intro), cards(made), _metrics_table(record)]))


def errors_in_words(record: Record, stage: str) -> str:
    """How the errors compare with what the model expects."""
    rmse, std = record.metric(stage, "rmse"), record.metric(stage, "predictive_std")
    if rmse is None or std is None or std <= 0:
        return ""
    ratio = rmse / std
    verdict = (
        "errors are about as large as the model expects"
        if 0.8 <= ratio <= 1.25
        else "errors are larger than the model expects: it is overconfident"
        if ratio > 1.25
        else "errors are smaller than the model expects: it is too cautious"
    )
    return f"RMSE {number(rmse)} against a predictive standard deviation of {number(std)}: {verdict}."


def coverage_in_words(record: Record, stage: str, level: float = 0.9) -> str:
    """Coverage of one interval as a sentence."""
    curve = mapping(record.calibration.get(stage))
    expected, observed = curve.get("expected"), curve.get("observed")
    if not isinstance(expected, list) or not isinstance(observed, list):
        return ""
    pairs = zip(expected, observed, strict=False)
    found = [(e, o) for pair in pairs if (e := finite(pair[0])) is not None and (o := finite(pair[1])) is not None]
    near = min(found, key=lambda pair: abs(pair[0] - level), default=None)
    if near is None or abs(near[0] - level) > 0.02:
        return ""
    return f"{percent(near[0])} intervals hold {percent(near[1])} of the {STAGE_WORDS[stage]} targets."


def _scores(record: Record, stage: str) -> list[Card]:
    found = []
    nll = record.metric(stage, "nll")
    log_likelihood = record.metric(stage, "log_likelihood")
    log_likelihood = -nll if log_likelihood is None and nll is not None else log_likelihood
    if log_likelihood is not None:
        loss = number(nll if nll is not None else -log_likelihood, 4)
        nats = f"Mean log density per point. Higher is better (NLL {loss})."
        found.append(Card("Log-likelihood", number(log_likelihood, 4), "nats", nats))
    if (rmse := record.metric(stage, "rmse")) is not None:
        found.append(
            Card("RMSE", number(rmse, 4), "target units", "Typical error of the predictive mean. Lower is better.")
        )
    if (calibration := record.metric(stage, "calibration_rmse")) is not None:
        meaning = f"Distance of the coverage curve from the diagonal; 0 is perfect. {coverage_in_words(record, stage)}"
        found.append(Card("Calibration RMSE", number(calibration), "", meaning.strip()))
    return found


def _uncertainties(record: Record, stage: str) -> list[Card]:
    meanings = {
        "epistemic": "What the model does not know; more data would reduce it.",
        "aleatoric": "Noise in the targets; more data would not reduce it.",
    }
    return [
        Card(f"{kind.capitalize()} std", number(value), "target units", meaning)
        for kind, meaning in meanings.items()
        if (value := record.metric(stage, f"{kind}_std")) is not None
    ]


def _probabilities(record: Record, layers: list[Layer]) -> list[Card]:
    learned = [layer for layer in layers if layer.learned and layer.final is not None]
    shown = learned or [layer for layer in layers if layer.final is not None]
    if not shown:
        return []
    values = [layer.final for layer in shown if layer.final is not None]
    low, high = probability(min(values)), probability(max(values))
    reach = low if low == high else f"{low}–{high}"
    if not learned:
        return [Card("Fixed p", reach, "", f"Set by hand for {count(len(shown), 'layer')}.")]
    moving = sum(layer.converged is False for layer in learned)
    judged = all(layer.converged is not None for layer in learned)
    verdict = f"{moving} still moving." if moving else "All converged." if judged else "Convergence was not judged."
    return [Card("Learned p", reach, "", f"Over {count(len(learned), 'layer')}. {verdict}")]


def _metrics_table(record: Record) -> object:
    stages = [stage for stage in reversed(STAGES) if any(name.startswith(f"{stage}/") for name in _names(record))]
    suffixes = dict.fromkeys(
        name.split("/", 1)[1] for name in _names(record) if name.startswith(tuple(f"{stage}/" for stage in stages))
    )
    # Metrics without MC have a column beside those with it, and single classes have a section.
    plain = [name for name in suffixes if name.removesuffix(NO_MC) not in suffixes or not name.endswith(NO_MC)]
    plain = [name for name in plain if not (record.classes and name.startswith(IOU))]
    if not stages or not plain:
        return None
    order = list(SCORES)
    plain.sort(key=lambda name: order.index(name) if name in SCORES and record.kind != "regression" else len(order))
    columns = {
        f"{STAGE_WORDS[stage].capitalize()}{words}": (stage, suffix)
        for stage in stages
        for suffix, words in (("", ""), (NO_MC, ", no MC"))
        if not suffix or any(record.metric(stage, f"{name}{NO_MC}") is not None for name in plain)
    }
    rows = [
        [
            title_of(name),
            *(number(record.metric(stage, f"{name}{suffix}"), 4) for stage, suffix in columns.values()),
            unit_of(name),
        ]
        for name in plain
    ]
    header = ["Metric", *columns, "Unit"]
    return table(header, rows, "Final metrics", numeric=range(1, 1 + len(columns)))


def _names(record: Record) -> list[str]:
    return list(dict.fromkeys([*mapping(record.summary.get("metrics")), *record.metrics]))
