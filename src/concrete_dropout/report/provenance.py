"""Where the numbers come from: configuration, command, versions."""

from __future__ import annotations

import re

from concrete_dropout.report.components import Section, code, details, paragraph, table
from concrete_dropout.report.html import Html, escape, join, tag
from concrete_dropout.report.layers import Layer
from concrete_dropout.report.record import Record, finite, mapping
from concrete_dropout.report.text import MISSING, duration, moment, plain, whole


def facts(record: Record) -> list[str]:
    """Short facts for the line below the title."""
    run = record.run
    parameters = finite(run.get("num_parameters"))
    time = duration(run.get("started"), run.get("ended"))
    found = [
        f"dropout: {run['dropout']}" if run.get("dropout") else None,
        f"{whole(parameters)} parameters" if parameters is not None else None,
        f"{whole(record.step)} steps" if record.step is not None else None,
        f"seed {run['seed']}" if run.get("seed") is not None else None,
        moment(run["started"]) if run.get("started") else None,
        f"took {time}" if time else None,
        f"folder {record.name}",
    ]
    return [fact for fact in found if fact]


def configuration(record: Record, layers: list[Layer]) -> Section:
    """What differs from the defaults, and the whole config folded away."""
    parts: list[object] = []
    if record.config_diff is None:
        parts.append(paragraph("It was not recorded what differs from the defaults."))
    elif not record.config_diff:
        parts.append(paragraph("Everything is at its default."))
    else:
        rows = [
            [
                tag("code", plain(entry.get("key"))),
                tag("code", plain(entry.get("default"))),
                tag("strong", tag("code", plain(entry.get("value")))),
            ]
            for entry in record.config_diff
        ]
        parts.append(table(["Key", "Default", "This run"], rows, "Settings that differ from the defaults"))
    if record.config:
        parts.append(details("Full configuration (config.yaml)", code(record.config)))
    else:
        parts.append(paragraph("config.yaml is missing from the run folder."))
    return Section("configuration", "Configuration", join(parts))


def reproduction(record: Record, layers: list[Layer]) -> Section:
    """How to run it again, and on what it ran."""
    run = record.run
    command = str(run.get("command") or "")
    commit = str(run.get("commit") or "")
    lines = [f"git checkout {commit}" if re.fullmatch(r"[0-9a-f]{7,40}", commit) else "", command]
    parts: list[object] = [
        code("\n".join(filter(None, lines))) if command else paragraph("The command was not recorded.")
    ]
    seed = run.get("seed")
    checkpoints = mapping(run.get("checkpoints"))
    loggers = mapping(run.get("loggers"))
    rows = [
        ["Seed", plain(seed) if seed is not None else MISSING],
        ["Commit", _commit(commit)],
        ["Started", moment(run.get("started"))],
        ["Ended", moment(run.get("ended"))],
        ["Device", _plain_or_missing(run.get("device"))],
        ["Hardware", _plain_or_missing(run.get("hardware"))],
        *([f"Checkpoint ({name})", tag("code", plain(path))] for name, path in checkpoints.items() if path),
        *([f"Logger ({name})", tag("code", plain(path))] for name, path in loggers.items() if path),
        *([name, plain(version)] for name, version in mapping(run.get("versions")).items()),
    ]
    parts.append(table(["What", "Value"], rows, "Where and with what it ran", words=(1,)))
    parts.append(
        paragraph("Build this page again from the files: ", tag("code", "python -m concrete_dropout.report RUN_DIR"))
    )
    return Section("reproduce", "How to reproduce", join(parts))


def _commit(commit: str) -> Html:
    """Git's state when the run was started: a "+" behind the commit stands for changed files."""
    if not commit:
        return escape("not known: the code was in no git repository, or there was no git")
    changed = ", with changes that were not committed" if commit.endswith("+") else None
    return join([tag("code", commit.removesuffix("+")), changed], "")


def _plain_or_missing(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {plain(entry)}" for key, entry in value.items())
    return plain(value) if value else MISSING
