"""What a reader must know before the numbers: a run that did not end well, probabilities that are no result."""

from __future__ import annotations

from concrete_dropout.report.components import Tone, bullets, details, notice
from concrete_dropout.report.html import Html, join, tag
from concrete_dropout.report.layers import Layer
from concrete_dropout.report.record import Record, finite
from concrete_dropout.report.text import change, count, number, probability, whole

MAX_NAMED = 5


def notices(record: Record, layers: list[Layer]) -> list[Html]:
    """Boxes for the top of the page, the most serious first."""
    return notices_of_the_run(record, _moving(record, layers), _saturated(layers))


def notices_of_the_run(record: Record, *more: Html | None) -> list[Html]:
    """As ``notices``, with other boxes in place of those about single layers."""
    found = [_state(record), *more, _kl_weight(record), _problems(record)]
    return [box for box in found if box is not None]


def _state(record: Record) -> Html | None:
    state = record.state
    if state == "finished":
        return None
    progress = _progress(record)
    if state == "failed":
        error = str(record.run.get("error") or "no message was recorded")
        first = next((line for line in error.strip().splitlines() if line.strip()), error)
        folded = details("The whole error", tag("pre", error)) if error.strip() != first else None
        return notice("bad", "This run failed.", join([tag("p", first[:400]), folded, tag("p", progress)]))
    if state == "interrupted":
        return notice("warning", "This run was interrupted.", tag("p", f"The numbers are from before. {progress}"))
    if state == "running":
        text = f"It is still running or was killed; the numbers are what it had so far. {progress}"
        return notice("warning", "This run has not finished.", tag("p", text))
    return notice(
        "warning", "It is not recorded whether this run finished.", tag("p", f"run.json has no state. {progress}")
    )


def _progress(record: Record) -> str:
    total = finite(record.run.get("max_steps"))
    if record.step is None:
        return "No training step was recorded."
    of = f" of {whole(total)}" if total is not None and total > 0 else ""
    return f"Last recorded step: {whole(record.step)}{of}."


def _moving(record: Record, layers: list[Layer]) -> Html | None:
    moving = [layer for layer in layers if layer.learned and layer.converged is False]
    if not moving:
        return None
    learned = sum(layer.learned for layer in layers)
    title = f"{len(moving)} of {count(learned, 'dropout probability', 'dropout probabilities')} had not converged."
    lines = [
        f"{layer.name}: p = {probability(layer.final)}, {change(layer.change)} over the last fifth of training"
        for layer in sorted(moving, key=lambda layer: -abs(layer.change or 0.0))
    ]
    criterion = str(record.convergence.get("criterion") or "")
    advice = "A p that is still moving is not a result: train longer or raise optim.p_lr."
    why = f"{advice} Criterion: {criterion.rstrip('.')}." if criterion else advice
    return notice("warning", title, join([tag("p", why), _named(lines)]))


def _saturated(layers: list[Layer]) -> Html | None:
    found = [layer for layer in layers if layer.learned and layer.saturated]
    if not found:
        return None
    meaning = {"low": "practically no dropout", "high": "most of its inputs are dropped"}
    lines = [
        f"{layer.name}: p = {probability(layer.final)}, {meaning.get(layer.saturated or '', str(layer.saturated))}"
        for layer in found
    ]
    # Low is what few mask entries or much data lead to, and no fault; high often is one.
    tone: Tone = "warning" if any(layer.saturated != "low" for layer in found) else "info"
    why = "A low p is expected where K is small or data are plentiful; a high one says that the layer carries little."
    title = f"{count(len(found), 'dropout probability', 'dropout probabilities')} saturated."
    return notice(tone, title, join([tag("p", why), _named(lines)]))


def _kl_weight(record: Record) -> Html | None:
    weight = finite(record.run.get("kl_weight"))
    if weight is None or weight == 1:
        return None
    text = "The objective is no longer the evidence lower bound; learned p are not comparable with runs at weight 1."
    return notice("warning", f"The KL term was weighted by {number(weight)}.", tag("p", text))


def _problems(record: Record) -> Html | None:
    return (
        notice("warning", "Some files of this run are damaged.", bullets(record.problems)) if record.problems else None
    )


def _named(lines: list[str]) -> Html:
    rest = len(lines) - MAX_NAMED
    return bullets([*lines[:MAX_NAMED], *([f"and {count(rest, 'more layer')}"] if rest > 0 else [])])
