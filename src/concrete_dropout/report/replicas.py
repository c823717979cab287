"""The report of a replicated run: several models, trained as one batch, in one folder."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from concrete_dropout import runfolder
from concrete_dropout.report import provenance, replica_sections, sections
from concrete_dropout.report.components import Section, bullets, guarded, notice
from concrete_dropout.report.data_size import data_size
from concrete_dropout.report.html import Html, join, tag
from concrete_dropout.report.notices import MAX_NAMED, notices_of_the_run
from concrete_dropout.report.page import page
from concrete_dropout.report.record import data_setting, finite
from concrete_dropout.report.replica_record import INIT_P, NUM_DATA, WORDS, Replica, Replicas, read_replicas
from concrete_dropout.report.text import count, plain, probability
from concrete_dropout.runfolder import RunFolder


def build_replicas_report(folder: Path | str) -> Path:
    """Write report.html into the folder of a replicated run, from its files alone.

    Args:
        folder: with replicas.json and, once the run has ended, replicas.csv.

    Returns:
        The path of the report.

    Raises:
        UserError: where the folder holds no run.
    """
    path = Path(folder)
    return RunFolder(path).write_text(runfolder.REPORT, render(read_replicas(path)))


def render(replicas: Replicas) -> str:
    """The page of a replicated run as text."""
    record = replicas.record
    experiment, dropout = str(record.run.get("experiment") or record.name), str(record.run.get("dropout") or "")
    if name := data_setting(record.config, "name"):
        experiment = f"{experiment} {name}"
    return page(
        f"{experiment} · {dropout[:1].upper() + dropout[1:]} dropout" if dropout not in ("", "none") else experiment,
        [guarded(build, key, heading) for build, key, heading in _sections(replicas)],
        kind="Report of replicas",
        lead=_lead(replicas),
        facts=[count(replicas.expected, "replica"), *provenance.facts(record)],
        notices=notices_of_the_run(record, _unscored(replicas), _moving(replicas)),
    )


def _sections(replicas: Replicas) -> list[tuple[Callable[[], Section], str, str]]:
    record, layers = replicas.record, list(replicas.layers)
    found: list[tuple[Callable[[], Section], str, str]] = [
        (partial(replica_sections.results, replicas), "results", "Results")
    ]
    if NUM_DATA in replicas.group_keys:
        found.append((partial(data_size, replicas), "data-size", "Uncertainty against the amount of data"))
    if INIT_P in replicas.group_keys and replicas.learned:
        found.append((partial(replica_sections.initial_sweep, replicas), "initial-p", "Initial p"))
    return [
        *found,
        (partial(replica_sections.probabilities, replicas), "probabilities", "Dropout probabilities"),
        (partial(replica_sections.every_replica, replicas), "replicas", "Every replica"),
        (partial(sections.calibration, record, layers), "calibration", "Calibration"),
        (partial(sections.training, record, layers), "training", "Training curves"),
        (partial(provenance.configuration, record, layers), "configuration", "Configuration"),
        (partial(provenance.reproduction, record, layers), "reproduce", "How to reproduce"),
    ]


def _lead(replicas: Replicas) -> str:
    """One sentence about the whole run."""
    amount = count(replicas.expected, "model")
    varied = [key for key in replicas.keys if len({row.labels.get(key) for row in replicas.rows}) > 1]
    named = " and ".join(_range(replicas, key) for key in varied)
    what = f"{amount} trained as one batch{', one for each ' + named if named else ''}"
    learned = [layer.final for layer in replicas.layers if layer.learned and layer.final is not None]
    if learned:
        low, high = probability(min(learned)), probability(max(learned))
        reach = f" of {low}" if low == high else f" from {low} to {high}"
        return f"{what}. Concrete dropout learned mean probabilities{reach}."
    return f"{what}, {'with fixed' if replicas.layers else 'without'} dropout."


def _range(replicas: Replicas, key: str) -> str:
    values = list(dict.fromkeys(row.labels.get(key, "") for row in replicas.rows))
    numbers = [value for value in values if finite(value) is not None]
    ends = sorted(numbers, key=lambda value: finite(value) or 0.0)
    reach = f" from {ends[0]} to {ends[-1]}" if len(ends) > 1 else ""
    return f"{WORDS.get(key, key)}{reach}"


def _unscored(replicas: Replicas) -> Html | None:
    missing = replicas.unscored
    absent = replicas.expected - len(replicas.rows)
    if not missing and not absent:
        return None
    title = f"{count(len(missing) + absent, 'replica')} of {replicas.expected} without results."
    why = "They diverged or their rows are damaged. Means and standard errors are over the others: they flatter."
    return notice("bad", title, join([tag("p", why), _named(replicas, missing)]))


def _moving(replicas: Replicas) -> Html | None:
    moving = [row for row in replicas.rows if row.converged is False]
    if not moving or not replicas.learned:
        return None
    title = f"p had not converged in {len(moving)} of {count(len(replicas.rows), 'replica')}."
    advice = "A p that is still moving is not a result: train longer or raise optim.p_lr."
    criterion = plain(replicas.record.convergence.get("criterion") or "")
    why = f"{advice} Criterion: {criterion.rstrip('.')}." if criterion else advice
    return notice("warning", title, join([tag("p", why), _named(replicas, moving)]))


def _named(replicas: Replicas, rows: list[Replica]) -> Html:
    lines = [
        f"replica {row.index}"
        + "".join(f", {WORDS.get(key, key)} {row.labels[key]}" for key in replicas.keys if key in row.labels)
        for row in rows
    ]
    rest = len(lines) - MAX_NAMED
    return bullets([*lines[:MAX_NAMED], *([f"and {rest} more"] if rest > 0 else [])])
