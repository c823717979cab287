"""A study: one config with some keys at several values, one run after the other, and a report that compares them."""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from concrete_dropout.cli.build import LAST
from concrete_dropout.cli.facts import run_facts
from concrete_dropout.cli.leftovers import discard
from concrete_dropout.cli.overrides import override
from concrete_dropout.cli.paths import shortest
from concrete_dropout.cli.run_log import logging_to
from concrete_dropout.cli.study_check import check_finished
from concrete_dropout.cli.study_command import as_own_command, processes_as_before, typed_keys
from concrete_dropout.cli.study_plan import Planned, kind_of, planned, point
from concrete_dropout.cli.study_summary import print_study_summary
from concrete_dropout.errors import UserError, as_user_error
from concrete_dropout.report.study import build_study_report
from concrete_dropout.runfolder import CHECKPOINTS, RUN, STUDY, RunFolder

__all__ = ["RunsFailed", "planned", "point", "run_study"]

FINISHED = "finished"
GROUP = "logger.wandb.group"
Runner = Callable[[DictConfig, Path], object]
_log = logging.getLogger(__name__)


class RunsFailed(SystemExit):
    """Ends the program with exit code 1: the study has come to its end, but not with all of its runs.

    Python prints the message. It is no ``UserError``, whose folder is taken away.
    """


def run_study(cfg: DictConfig, folder: Path, run: Runner) -> None:
    """Make the runs of ``cfg.study`` in folders of their own.

    Runs that are finished already are left alone, and one that was stopped goes on from its last checkpoint: naming
    the folder of an earlier study (hydra.run.dir=...) takes it up again. A run that fails is recorded, and the others
    go on. The report is renewed after every run, so that it can be looked at while the study is under way.

    Args:
        cfg: with study.kind, study.grid and study.settings.
        folder: of the study.
        run: makes one run: (config, folder).

    Raises:
        RunsFailed: some runs failed; names them.
        UserError: the study itself cannot be made.
    """
    runs = planned(cfg, typed_keys())
    if cfg.ckpt_path is not None:
        raise UserError(
            f"ckpt_path={cfg.ckpt_path} is of one run, and this is a study of {len(runs)}. A study is taken up by the "
            "same command with hydra.run.dir=STUDY_FOLDER; study=null makes one run from a checkpoint"
        )
    for item in runs:
        place = folder / item.folder
        own = point(cfg, _changes(cfg, item, folder), place)  # an unknown key is refused before the first run
        if _is_finished(place):
            check_finished(own, place)
    files = RunFolder(folder)
    record = _record(cfg, runs, folder)
    _save(files, record)
    for number, (item, entry) in enumerate(zip(runs, record["runs"], strict=True), start=1):
        if entry["state"] == FINISHED:
            continue
        entry["state"] = "running"
        files.write_json(STUDY, record)
        print(f"\n=== {item.label} ({number} of {len(runs)})", flush=True)
        try:
            _one_run(cfg, item, folder, run)
            entry["state"] = FINISHED
        except Exception as error:
            entry |= {"state": "failed", "error": str(as_user_error(error) or error) or type(error).__name__}
            _tell(item, error, folder)
        except BaseException:  # Ctrl-C or SIGTERM, which end the whole study
            entry["state"] = record["state"] = "interrupted"
            raise
        finally:
            _save(files, record)
    failed = [entry["label"] for entry in record["runs"] if entry["state"] != FINISHED]
    record |= {"state": "failed" if failed else FINISHED, "ended": _now()}
    _save(files, record)
    print_study_summary(folder)
    if failed:
        again = shlex.quote(override("hydra.run.dir", shortest(folder)))
        raise RunsFailed(
            f"\nError: {len(failed)} of {len(runs)} runs failed ({'; '.join(failed)}). The report has their messages, "
            f"and run.log in their folders. Go on with the same command and {again}"
        )


def _record(cfg: DictConfig, runs: list[Planned], folder: Path) -> dict[str, Any]:
    """The study as study.json has it before the first of its runs starts, or starts again."""
    before = RunFolder(folder).read_record(STUDY)
    return {
        "kind": kind_of(cfg),
        "experiment": cfg.name,
        "state": "running",
        "error": None,
        "seed": None if "seed" in runs[0].values else cfg.seed,
        **run_facts(),
        "started": before.get("started") or _now(),
        "ended": None,
        "grid": OmegaConf.to_container(cfg.study.grid, resolve=True),
        "runs": [
            {
                "label": item.label,
                "folder": item.folder,
                "values": item.values,
                "state": FINISHED if _is_finished(folder / item.folder) else "pending",
                "error": None,
            }
            for item in runs
        ],
    }


def _is_finished(place: Path) -> bool:
    return bool(RunFolder(place).read_record(RUN).get("state") == FINISHED)


def _one_run(cfg: DictConfig, item: Planned, folder: Path, run: Runner) -> None:
    place = folder / item.folder
    last = place / CHECKPOINTS / f"{LAST}.ckpt"
    checkpoint = last if last.is_file() else None
    changes = _changes(cfg, item, folder)
    try:
        with as_own_command(changes, place, checkpoint), processes_as_before():
            run(point(cfg, {**changes, "ckpt_path": checkpoint and str(checkpoint)}, place), place)
    except UserError as error:
        discard(place, folder)
        if checkpoint is None or not (place / RUN).is_file():
            raise
        raise UserError(f"{error}. Delete {shortest(place)} to begin this run again") from error


def _changes(cfg: DictConfig, item: Planned, folder: Path) -> dict[str, Any]:
    """Where a run differs from the study's config; in W&B, the runs of a study are a group."""
    changes = {**item.values, **item.settings}
    if OmegaConf.select(cfg, GROUP, default=None) == cfg.name:  # nobody has chosen another
        changes[GROUP] = f"{cfg.name}/{folder.name}"
    return changes


def _tell(item: Planned, error: Exception, folder: Path) -> None:
    """A mistake of the user in one line; the traceback of anything else also in the run's own log."""
    told = as_user_error(error, folder / item.folder)
    if told is not None:
        print(f"\n{item.label} failed: {told}", file=sys.stderr)
        return
    with logging_to(folder / item.folder):
        _log.error("%s failed; the other runs go on", item.label, exc_info=error)


def _save(files: RunFolder, record: Mapping[str, Any]) -> None:
    files.write_json(STUDY, record)
    try:
        build_study_report(files.path)
    except OSError as error:
        _log.warning("the study's report could not be written: %s", error.strerror)
    except Exception:
        _log.exception("the study's report could not be written")


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
