"""The models of a run one by one, whether they were trained alone or as one batch, with their validation scores."""

from __future__ import annotations

from dataclasses import dataclass, field

from concrete_dropout.report.layers import layers_of
from concrete_dropout.report.record import Record
from concrete_dropout.report.replica_record import SEED, SPLIT

from .cells import text
from .collect import converged
from .folders import Run

VALIDATION = ("log_likelihood", "nll", "rmse", "accuracy")


@dataclass(frozen=True)
class Model:
    """One model.

    Args:
        labels: config key -> value in which it differs from the others of its batch; its seed, and its split.
        scores: metric -> value on validation data.
        p: layer -> learned probability; nothing where none is learned.
        converged: whether every learned p has; None where nobody judged it.
    """

    labels: dict[str, str]
    scores: dict[str, float]
    p: dict[str, float] = field(default_factory=dict)
    converged: bool | None = None


def models_of(run: Run) -> list[Model]:
    """The models that have validation scores."""
    record = run.record
    if record is None:
        return []
    own = {key: text(run.setting(key)) for key in (SEED, SPLIT) if run.setting(key) is not None}
    learned = record.run.get("dropout") == "concrete"
    if run.replicas is None:
        found = {name: value for name in VALIDATION if (value := record.metric("val", name)) is not None}
        return [_single(record, own, found, learned)] if found else []
    made = []
    for row in run.replicas.rows:
        scores = {name: row.scalars[f"val/{name}"] for name in VALIDATION if f"val/{name}" in row.scalars}
        if scores:
            made.append(Model({**own, **row.labels}, scores, dict(row.p) if learned else {}, row.converged))
    return made


def _single(record: Record, labels: dict[str, str], scores: dict[str, float], learned: bool) -> Model:
    layers = [layer for layer in layers_of(record) if learned and layer.learned]
    found = {layer.name: layer.final for layer in layers if layer.final is not None}
    return Model(labels, scores, found, converged(record) if learned else None)
