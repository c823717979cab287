"""A record of what was tried: validation scores of runs that were made to choose settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from concrete_dropout.report.replica_record import SEED, SPLIT
from concrete_dropout.report.statistics import summarise

from .cells import Row, numbers, setting, text
from .collect import facts_of, p_of, paper_experiment
from .commands import changes
from .folders import Run, runs_in
from .models import Model, models_of
from .store import in_order

SET, VAL_FRACTION = "data.name", "data.val_fraction"
# With columns of their own, or of no consequence for a score on validation data.
ASIDE = (SET, VAL_FRACTION, "test")
SCORES = ("log_likelihood", "rmse", "accuracy")


@dataclass
class _Group:
    """Models of one setting with the facts of their runs; of each seed and split the newest."""

    found: dict[tuple[str, str], tuple[Row, Model]] = field(default_factory=dict)

    def add(self, facts: Row, model: Model) -> None:
        """A folder may be given twice, by itself and inside of another; and a run may have been made again."""
        key = (model.labels.get(SEED, ""), model.labels.get(SPLIT, ""))
        known, _ = self.found.get(key, ({"started": ""}, None))
        if facts["started"] >= known["started"]:
            self.found[key] = (facts, model)

    @property
    def models(self) -> list[Model]:
        """In the order of their seeds and splits, so that means do not depend on that of the folders."""
        ordered = sorted(self.found, key=lambda key: [in_order(part) for part in key])
        return [self.found[key][1] for key in ordered]

    @property
    def facts(self) -> Row:
        """Of the newest run."""
        return max((facts for facts, _ in self.found.values()), key=lambda facts: facts["started"])


def tried(folders: Sequence[Path]) -> tuple[list[Row], list[str]]:
    """Rows of settings with means over their splits and seeds, and notes on runs that were left out.

    Raises:
        UserError: a folder without a run.
    """
    groups: dict[tuple[tuple[str, str], ...], _Group] = {}
    notes = []
    for run in (run for folder in folders for run in runs_in(folder)):
        experiment, note = paper_experiment(run)
        models = models_of(run) if experiment is not None else []
        if experiment is None or not models:
            notes.append(note or f"{run.label}: left out, it has no scores on validation data")
            continue
        for model in models:
            key = {"experiment": experiment.name, **_settings(run, model)}
            groups.setdefault(tuple(key.items()), _Group()).add(_facts(run), model)
    return [_row(dict(key), group) for key, group in groups.items()], notes


def _settings(run: Run, model: Model) -> Row:
    assert run.record is not None
    kind = str(run.record.run.get("dropout") or "")
    labels = {key: value for key, value in model.labels.items() if key not in (SEED, SPLIT)}
    command = run.study or str(run.record.run.get("command") or "")
    return {
        "set": setting(labels.pop(SET, run.setting(SET))),
        "val_fraction": text(run.setting(VAL_FRACTION)),
        "dropout": kind,
        "p": text(labels.pop("dropout.p", p_of(run, kind))),
        "settings": changes(command, {**run.values, **labels}, ASIDE),
    }


def _facts(run: Run) -> Row:
    assert run.record is not None
    return {"steps": text(run.record.step), **facts_of(run.record.run, run.study)}


def _row(key: Row, group: _Group) -> Row:
    models = group.models
    row = {
        **key,
        "splits": numbers([model.labels[SPLIT] for model in models if SPLIT in model.labels]),
        "seeds": numbers([model.labels[SEED] for model in models if SEED in model.labels]),
        "models": str(len(models)),
        **group.facts,
    }
    for name in SCORES:
        mean = summarise(model.scores.get(name) for model in models)
        row |= {name: text(mean.mean) if mean else "", f"{name}_se": text(mean.se) if mean else ""}
    layers = dict.fromkeys(layer for model in models for layer in model.p)
    means = {layer: summarise(model.p.get(layer) for model in models) for layer in layers}
    row["learned_p"] = " ".join(f"{layer}={text(mean.mean)}" for layer, mean in means.items() if mean)
    judged = [model.converged for model in models if model.p and model.converged is not None]
    row["converged"] = f"{sum(judged)} of {len(judged)}" if judged else ""
    return row
