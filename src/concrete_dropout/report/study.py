"""The report of a study: several runs in one folder, as far as they have come."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from concrete_dropout import runfolder
from concrete_dropout.report import camvid_table, comparison_table, control_study, provenance, uci
from concrete_dropout.report.camvid_table import camvid_lead, camvid_section
from concrete_dropout.report.comparison import Comparison, compare
from concrete_dropout.report.comparison_sections import comparison_lead, comparison_notices, comparison_sections
from concrete_dropout.report.components import Section, guarded
from concrete_dropout.report.page import page
from concrete_dropout.report.study_record import CAMVID_TABLE, CONTROL_STUDY, UCI_TABLE, Study, read_study
from concrete_dropout.report.study_runs import runs, study_notices
from concrete_dropout.report.sweep_sections import sweep_sections
from concrete_dropout.report.uci import TABLE_CSV, TABLE_MD
from concrete_dropout.report.uci_sections import uci_lead, uci_sections
from concrete_dropout.runfolder import RunFolder

FOOTER = "Built from the files of the study folder alone. This page makes no network requests."
Builder = tuple[Callable[[], Section], str, str]


def build_study_report(folder: Path | str) -> Path:
    """Write report.html, table.csv and table.md into a study folder, from its files alone.

    Args:
        folder: with study.json and a run folder for each run that has begun; may be built again whenever one ends.

    Returns:
        The path of the report.

    Raises:
        UserError: where the folder holds no study.
    """
    path = Path(folder)
    study = read_study(path)
    files = RunFolder(path)
    for name, text in tables(study).items():
        files.write_text(name, text)
    return files.write_text(runfolder.REPORT, render(study))


def tables(study: Study) -> dict[str, str]:
    """The study's numbers as files: name -> text."""
    if study.kind == UCI_TABLE:
        found = uci.entries(study)
        return {TABLE_CSV: uci.table_csv(found), TABLE_MD: uci.table_md(found)}
    if study.kind == CAMVID_TABLE:
        rows = camvid_table.rows_of(study)
        return {TABLE_CSV: camvid_table.table_csv(rows), TABLE_MD: camvid_table.table_md(study)}
    if study.kind == CONTROL_STUDY:
        return {TABLE_CSV: control_study.table_csv(study), TABLE_MD: control_study.table_md(study)}
    compared = compare(study)
    return {TABLE_CSV: comparison_table.table_csv(compared), TABLE_MD: comparison_table.table_md(compared)}


def render(study: Study) -> str:
    """The page of a study as text."""
    found = compare(study)
    title, lead, made = _content(study, found)
    made += [
        (partial(runs, study), "runs", "Runs"),
        (partial(provenance.reproduction, study.record, []), "reproduce", "How to reproduce"),
    ]
    notices = study_notices(study)
    return page(
        title,
        [guarded(build, key, heading) for build, key, heading in made],
        kind="Study report",
        lead=lead,
        facts=provenance.facts(study.record),
        notices=notices if study.kind == UCI_TABLE else [*notices, *comparison_notices(found)],
        footer=FOOTER,
    )


def _content(study: Study, found: Comparison) -> tuple[str, str, list[Builder]]:
    """Title, lead and sections of a kind of study."""
    if study.kind == UCI_TABLE:
        return "UCI regression, side by side with the paper", uci_lead(study), uci_sections(study)
    if study.kind == CAMVID_TABLE:
        ours: list[Builder] = [(partial(camvid_section, study), "results", "CamVid, beside the paper's table")]
        return "CamVid segmentation, side by side with the paper", camvid_lead(study), comparison_sections(found, ours)
    title = str(study.record.run.get("experiment") or study.kind)
    if study.kind == CONTROL_STUDY:
        return title, control_study.control_lead(study), control_study.control_sections(study)
    results, *others = comparison_sections(found)
    return title, comparison_lead(found), [results, *sweep_sections(found), *others]
