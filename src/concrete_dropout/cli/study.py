"""A study: the same config with one key at several values, one run after the other, and a report that compares them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from concrete_dropout.cli.facts import run_facts
from concrete_dropout.errors import UserError
from concrete_dropout.report.study import build_study_report
from concrete_dropout.runfolder import RUN, STUDY, RunFolder

FINISHED = "finished"
Runner = Callable[[DictConfig, Path], object]
_log = logging.getLogger(__name__)


def run_study(cfg: DictConfig, folder: Path, run: Runner) -> None:
    """Make the runs of ``cfg.study`` in folders of their own; those that are finished already are left alone.

    A run that fails is recorded, and the others go on. The report is renewed after every run, so that it can be looked
    at while the study is under way.

    Args:
        cfg: with study.kind, study.key, study.values and study.settings.
        folder: of the study. Naming an earlier one (hydra.run.dir=...) takes that study up again.
        run: makes one run: (config, folder).

    Raises:
        UserError: some runs failed; names them.
    """
    files, study = RunFolder(folder), cfg.study
    runs: list[dict[str, Any]] = [
        {"label": str(value), "folder": str(value), "state": "pending", "error": None} for value in study["values"]
    ]
    record: dict[str, Any] = {"kind": study.kind, "state": "running", "seed": cfg.seed, **run_facts()}
    record |= {"started": (files.read_json(STUDY) or {}).get("started") or _now(), "ended": None, "runs": runs}
    for entry, value in zip(runs, study["values"], strict=True):
        place = folder / str(value)
        if (RunFolder(place).read_json(RUN) or {}).get("state") == FINISHED:
            entry["state"] = FINISHED
            continue
        entry["state"] = "running"
        _save(files, record)
        print(f"\n=== {study.key}={value} ({runs.index(entry) + 1} of {len(runs)})")
        try:
            run(point(cfg, {study.key: value, **(study.settings or {}).get(value, {})}, place), place)
            entry["state"] = FINISHED
        except Exception as error:
            entry |= {"state": "failed", "error": str(error)}
            _log.exception("%s=%s failed; the others go on", study.key, value)
        finally:
            _save(files, record)
    failed = [entry["label"] for entry in runs if entry["state"] != FINISHED]
    record |= {"state": "failed" if failed else FINISHED, "ended": _now()}
    _save(files, record)
    print(f"\nstudy        {folder}\nreport       {build_study_report(folder)}")
    if failed:
        raise UserError(
            f"{len(failed)} of {len(runs)} runs failed ({', '.join(failed)}); see their run.json and run.log, then go "
            f"on with the same command and hydra.run.dir={folder}"
        )


def point(cfg: DictConfig, values: Mapping[str, Any], run_dir: Path) -> DictConfig:
    """A copy of the config with some keys at other values, for a run in ``run_dir``."""
    copy = cfg.copy()
    with open_dict(copy):
        copy.study = None
        for key, value in {**values, "paths.run_dir": str(run_dir)}.items():
            if OmegaConf.select(copy, key, default=_MISSING) is _MISSING:
                raise UserError(f"{key} is unknown: neither replicas.grid nor study.settings can set it")
            OmegaConf.update(copy, key, value)
    return copy


_MISSING = object()


def _save(files: RunFolder, record: Mapping[str, Any]) -> None:
    files.write_json(STUDY, record)
    try:
        build_study_report(files.path)
    except Exception:
        _log.exception("the study's report could not be written")


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
