"""The report of one run, from its folder to report.html in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from concrete_dropout import runfolder
from concrete_dropout.report import headline, provenance, sections
from concrete_dropout.report.components import Section, paragraph
from concrete_dropout.report.layers import Layer, layers_of
from concrete_dropout.report.notices import notices
from concrete_dropout.report.page import page
from concrete_dropout.report.record import Record, read_record
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

    Args:
        folder: of a run that finished, failed, was killed, or is still going.

    Returns:
        The path of the report.

    Raises:
        UserError: where the folder holds no run.
    """
    path = Path(folder)
    record = read_record(path)
    return RunFolder(path).write_text(runfolder.REPORT, render(record))


def render(record: Record) -> str:
    """The page of a run as text."""
    layers = layers_of(record)
    experiment, dropout = str(record.run.get("experiment") or record.name), str(record.run.get("dropout") or "")
    return page(
        f"{experiment} · {dropout[:1].upper() + dropout[1:]} dropout" if dropout not in ("", "none") else experiment,
        [_guarded(record, layers, *entry) for entry in SECTIONS],
        kind="Run report",
        lead=headline.lead(record, layers),
        facts=provenance.facts(record),
        notices=notices(record, layers),
    )


def _guarded(
    record: Record, layers: list[Layer], build: Callable[[Record, list[Layer]], Section], key: str, heading: str
) -> Section:
    """A section, or a sentence in its place: a file of an unforeseen shape costs one section, not the report."""
    try:
        return build(record, layers)
    except Exception as error:
        text = f"This section could not be built from the run's files ({type(error).__name__}: {str(error)[:200]})."
        return Section(key, heading, paragraph(text))
