"""The report of a folder, from its files to report.html in it: one run, replicas trained as one, or a study."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from concrete_dropout import runfolder
from concrete_dropout.report import control_sections, headline, map_sections, provenance, sections, vision_sections
from concrete_dropout.report.components import Section, guarded
from concrete_dropout.report.control_record import is_agent, read_videos
from concrete_dropout.report.control_sections import agent_lead
from concrete_dropout.report.evaluation import build_evaluation_page, is_evaluation
from concrete_dropout.report.layers import Layer, layers_of
from concrete_dropout.report.notices import notices
from concrete_dropout.report.page import page
from concrete_dropout.report.record import STAGES, Record, dicts, mapping, read_record
from concrete_dropout.report.replica_record import is_replicated
from concrete_dropout.report.replicas import build_replicas_report
from concrete_dropout.report.study import build_study_report
from concrete_dropout.report.study_record import is_study
from concrete_dropout.runfolder import RunFolder

Build = Callable[[], Section]


def build_run_report(folder: Path | str) -> Path:
    """Write report.html into a run folder, from its files alone.

    A folder of replicas, of a study or of an evaluation gets the report of its kind.

    Args:
        folder: of a run that finished, failed, was killed, or is still going.

    Returns:
        The path of the report.

    Raises:
        UserError: where the folder holds no run.
    """
    path = Path(folder)
    if is_evaluation(path):
        return build_evaluation_page(path)
    if is_study(path):
        return build_study_report(path)
    if is_replicated(path):
        return build_replicas_report(path)
    record = read_record(path, with_pictures=True)
    record = replace(record, videos=read_videos(path, record.control, record.problems))
    return RunFolder(path).write_text(runfolder.REPORT, render(record))


def render(record: Record) -> str:
    """The page of a run as text."""
    layers = layers_of(record)
    experiment, dropout = str(record.run.get("experiment") or record.name), str(record.run.get("dropout") or "")
    return page(
        f"{experiment} · {dropout[:1].upper() + dropout[1:]} dropout" if dropout not in ("", "none") else experiment,
        [guarded(build, key, heading) for build, key, heading in _sections(record, layers)],
        kind="Run report",
        lead=agent_lead(record, layers) if is_agent(record) else headline.lead(record, layers),
        facts=provenance.facts(record),
        notices=notices(record, layers),
    )


def _sections(record: Record, layers: list[Layer]) -> Iterator[tuple[Build, str, str]]:
    """Builder, key and heading of every section; the latter two are for one whose builder fails."""
    if is_agent(record):
        yield from _agent_sections(record, layers)
        return
    yield partial(headline.results, record, layers), "results", "Results"
    # What only classes or pictures have is there where it was recorded.
    if map_sections.has_maps(record):
        yield partial(map_sections.maps, record), "maps", "Maps"
    if any(mapping(record.classes.get(stage)).get("names") for stage in STAGES):
        yield partial(vision_sections.classes, record), "classes", "Classes"
    if any(dicts(record.gallery.get(stage)) for stage in STAGES):
        yield partial(vision_sections.gallery, record), "gallery", "Gallery"
    yield partial(sections.probabilities, record, layers), "probabilities", "Dropout probabilities"
    yield partial(sections.uncertainty, record, layers), "uncertainty", "Uncertainty"
    yield partial(sections.calibration, record, layers), "calibration", "Calibration"
    yield partial(sections.training, record, layers), "training", "Training curves"
    yield partial(provenance.configuration, record, layers), "configuration", "Configuration"
    yield partial(provenance.reproduction, record, layers), "reproduce", "How to reproduce"


def _agent_sections(record: Record, layers: list[Layer]) -> Iterator[tuple[Build, str, str]]:
    yield partial(control_sections.results, record, layers), "results", "Results"
    yield partial(control_sections.learning, record, layers), "learning", "Learning"
    if record.videos:
        yield partial(control_sections.videos, record, layers), "videos", "The policy in motion"
    yield partial(control_sections.uncertainty, record, layers), "uncertainty", "What the model knows of its errors"
    yield partial(control_sections.predictions, record, layers), "predictions", "Predicted episodes"
    yield partial(sections.probabilities, record, layers), "probabilities", "Dropout probabilities"
    yield partial(provenance.configuration, record, layers), "configuration", "Configuration"
    yield partial(provenance.reproduction, record, layers), "reproduce", "How to reproduce"
