"""The page of an evaluation, from its results.json alone: tables, metrics against samples, shifted data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from concrete_dropout.report.components import Section, code, guarded, notice, paragraph, table
from concrete_dropout.report.evaluation_figures import fitted_section, samples_section
from concrete_dropout.report.evaluation_rows import MAIN, SHORT, Estimate, Row, error_words, rows_of
from concrete_dropout.report.evaluation_shifts import detection_section, severity_section
from concrete_dropout.report.html import Html, join, tag
from concrete_dropout.report.page import page
from concrete_dropout.report.text import count, duration, moment, number, plain, plus_minus
from concrete_dropout.runfolder import EVALUATION, EVALUATION_PAGE, RunFolder

PARTS = {"val": "Validation data", "test": "Test data"}
FOOTER = "Built from results.json alone. This page makes no network requests."
UNFINISHED = "What is below is what there is so far. The same command with out=FOLDER goes on from here."


def build_evaluation_page(folder: Path | str) -> Path:
    """Write ``evaluation.html`` into the folder of an evaluation; returns its path."""
    files = RunFolder(folder)
    return files.write_text(EVALUATION_PAGE, evaluation_page(files.read_json(EVALUATION) or {}))


def is_evaluation(folder: Path) -> bool:
    """Whether a folder is one of evaluate.py."""
    return (folder / EVALUATION).is_file()


def evaluation_page(results: Mapping[str, Any]) -> str:
    """The page as text."""
    rows = rows_of(results)
    kind = str(results.get("kind"))
    builders = {
        ("results", "Results"): lambda: _results(results, rows, kind),
        ("samples", "Number of samples"): lambda: samples_section(results, rows, kind),
        ("temperature", "Calibration fitted on validation data"): lambda: fitted_section(results, rows, kind),
        ("severity", "Corrupted data"): lambda: severity_section(rows, kind),
        ("detection", "Telling shifted data"): lambda: detection_section(rows, kind),
        ("provenance", "What was evaluated"): lambda: _provenance(results),
    }
    built = [guarded(build, *key) for key, build in builders.items()]
    groups = list(dict.fromkeys(subject["group"] for subject in results.get("subjects", [])))
    took = duration(results.get("started"), results.get("ended"))
    state = results.get("state")
    notices = [] if state == "finished" else [notice("warning", f"This evaluation is {state}", UNFINISHED)]
    return page(
        ", ".join(groups[:4]) + (f" and {len(groups) - 4} more" if len(groups) > 4 else ""),
        [section for section in built if section.body],
        kind="Evaluation",
        facts=[
            kind,
            *([f"dropout: {', '.join(_kinds(results))}"] if _kinds(results) else []),
            count(len(results.get("passes", [])), "pass", "passes") + " over data",
            moment(results.get("started")),
            *([f"took {took}"] if took else []),
        ],
        notices=notices,
        footer=FOOTER,
    )


def _kinds(results: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(str(subject.get("dropout")) for subject in results.get("subjects", [])))


def _results(results: Mapping[str, Any], rows: list[Row], kind: str) -> Section:
    parts: list[object] = []
    for part in results["plan"]["parts"]:
        clean = [row for row in rows if row.part == part and not row.shift]
        names = [name for name in MAIN[kind] if any(name in row.metrics for row in clean)]
        if clean:
            several = len({row.group for row in clean}) > 1
            body = [
                [
                    *([row.group] if several else []),
                    row.mask,
                    str(row.samples),
                    *(shown(row.metrics.get(name)) for name in names),
                ]
                for row in clean
            ]
            header = [*(["Run"] if several else []), "Mask", "Samples", *(SHORT[name] for name in names)]
            caption = f"{PARTS[part]}, {count(clean[0].points, 'observation')}"
            parts.append(table(header, body, caption, numeric=range(1 + several, len(header))))
    if error_words(results):
        parts.append(paragraph(error_words(results)))
    parts.append(paragraph("Without dropout (mask none, 0 samples) it is one pass with weights scaled."))
    return Section("results", "Results", join(parts))


def shown(estimate: Estimate | None) -> str:
    """An estimate for a table."""
    if estimate is None:
        return number(None)
    return (
        plus_minus(estimate.mean, estimate.error, 3) if estimate.error == estimate.error else number(estimate.mean, 4)
    )


def _provenance(results: Mapping[str, Any]) -> Section:
    subjects = results.get("subjects", [])
    header = ["Name", "Checkpoint", "Experiment", "Dropout", "Seed", "Replica"]
    body: list[list[object]] = [
        [
            s["name"],
            tag("code", s.get("checkpoint", "")),
            s.get("experiment"),
            s.get("dropout"),
            plain(s.get("seed")),
            s.get("label", ""),
        ]
        for s in subjects
    ]
    identity, versions = results.get("identity", {}), results.get("versions", {})
    changed = {**identity.get("data", {}), **identity.get("ood", {})}
    settings: list[list[object]] = [
        *([key, tag("strong", tag("code", plain(value)))] for key, value in changed.items()),
        *([key, tag("code", plain(value))] for key, value in results.get("plan", {}).items()),
        ["Commit", plain(results.get("commit"))],
        ["Device", plain(results.get("device"))],
        ["Hardware", plain(results.get("hardware"))],
        *([name, plain(version)] for name, version in versions.items()),
    ]
    parts: list[Html] = [
        table(header, body, "Checkpoints", words=(1,)),
        table(
            ["Setting", "Value"], settings, "Settings; data.* and ood.* in bold replace those of the run", words=(1,)
        ),
        code(str(results.get("command") or "")),
    ]
    return Section("provenance", "What was evaluated", join(parts))
