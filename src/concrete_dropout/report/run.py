"""The report of a folder, from its files to report.html in it: one run, replicas trained as one, or a study."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from concrete_dropout import runfolder
from concrete_dropout.report import headline, provenance, sections
from concrete_dropout.report.components import Section, guarded
from concrete_dropout.report.layers import Layer, layers_of
from concrete_dropout.report.notices import notices
from concrete_dropout.report.page import page
from concrete_dropout.report.record import Record, read_record
from concrete_dropout.report.replica_record import is_replicated
from concrete_dropout.report.replicas import build_replicas_report
from concrete_dropout.report.study import build_study_report
from concrete_dropout.report.study_record import is_study
from concrete_dropout.runfolder import RunFolder

# Builder, key and heading; the latter two are for a section whose builder fails.
SECTIONS: tuple[tuple[Callable[[Record, list[Layer]], Section], str, str], ...] = (
    (headline.results, "results", "Results"),
    (sections.probabilities, "probabilities", "Dropout probabilities"),
    (sections.uncertainty, "uncertainty", "Uncertainty"),
    (sections.calibration, "calibration", "Calibration"),
    (sections.training, "training", "Training curves"),
    (provenance.configuration, "configuration", "Configuration"),
    (provenance.reproduction, "reproduce", "How to reproduce"),
)


def build_run_report(folder: Path | str) -> Path:
    """Write report.html into a run folder, from its files alone.

    A folder of replicas or of a study gets the report of its kind.

    Args:
        folder: of a run that finished, failed, was killed, or is still going.

    Returns:
        The path of the report.

    Raises:
        UserError: where the folder holds no run.
    """
    path = Path(folder)
    if is_study(path):
        return build_study_report(path)
    if is_replicated(path):
        return build_replicas_report(path)
    record = read_record(path)
    return RunFolder(path).write_text(runfolder.REPORT, render(record))


def render(record: Record) -> str:
    """The page of a run as text."""
    layers = layers_of(record)
    experiment, dropout = str(record.run.get("experiment") or record.name), str(record.run.get("dropout") or "")
    return page(
        f"{experiment} · {dropout[:1].upper() + dropout[1:]} dropout" if dropout not in ("", "none") else experiment,
        [guarded(partial(build, record, layers), key, heading) for build, key, heading in SECTIONS],
        kind="Run report",
        lead=headline.lead(record, layers),
        facts=provenance.facts(record),
        notices=notices(record, layers),
    )
