"""One job of a sweep: what it adds to a run, and when there is nothing left to do."""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict

from concrete_dropout.cli.build import LAST
from concrete_dropout.cli.jobs import FINISHED, SWEEP, texts
from concrete_dropout.cli.orphans import ending_with_the_sweep
from concrete_dropout.cli.overrides import override
from concrete_dropout.cli.requeue import ask_for_requeue, was_requeued
from concrete_dropout.cli.run_log import FILE_ONLY, logging_to
from concrete_dropout.cli.stopped import Stopped
from concrete_dropout.cli.study_check import check_finished
from concrete_dropout.errors import RunFailedError, UserError
from concrete_dropout.runfolder import CHECKPOINTS, RUN, SUMMARY, RunFolder

CANDIDATE, CANDIDATES = "candidate", "candidates"  # several settings under one name, see conf/sweep
OF_THE_SWEEP = ("sweep", "resume", CANDIDATE, CANDIDATES)
PROGRAM = "train.py"
Runner = Callable[[DictConfig, Path], object]
_log = logging.getLogger(__name__)


def run_job(cfg: DictConfig, folder: Path, run: Runner) -> float | None:
    """Make a job of a sweep, or what is left of it; returns what a sweeper may minimise.

    With ``resume=true`` a finished job is left alone, and one that was stopped or failed goes on from its last
    checkpoint, or starts again where it has none. So does a job that Slurm has taken away and starts again.
    """
    own = _own_config(cfg, folder)
    if cfg.resume and _state(folder) == FINISHED:
        check_finished(own, folder)
        print(f"\n=== job {HydraConfig.get().job.num} is finished already", flush=True)
        return objective(own, folder)
    print(f"\n=== job {HydraConfig.get().job.num}: {label(own, folder)}", flush=True)
    try:
        with _own_command(own), ending_with_the_sweep():
            run(own, folder)
    except (UserError, RunFailedError):
        raise
    except Stopped as stopped:
        ask_for_requeue(stopped)
        raise
    except Exception as error:  # the others go on, and Hydra has a traceback for the first alone
        with logging_to(folder):
            _log.error("the job failed: %s", error, exc_info=error, extra={FILE_ONLY: True})
        print(f"\nJob {HydraConfig.get().job.num} failed: {type(error).__name__}: {error}", file=sys.stderr)
        raise
    return objective(own, folder)


def objective(cfg: DictConfig, folder: Path) -> float | None:
    """The last value of ``cfg.objective``; None where the run has none."""
    metrics = (RunFolder(folder).read_json(SUMMARY) or {}).get("metrics", {})
    value = metrics.get(cfg.objective)
    return None if value is None else float(value)


def label(cfg: DictConfig, folder: Path) -> str:
    """The settings of a job that the sweep varies, as one would type them."""
    swept = {*(RunFolder(folder.parent).read_json(SWEEP) or {}).get("swept", []), "dropout"}
    return " ".join(entry for entry in _overrides(cfg) if entry.partition("=")[0] in swept)


def _own_config(cfg: DictConfig, folder: Path) -> DictConfig:
    """The config with a W&B group of the sweep, a name of the job, and the checkpoint that it goes on from."""
    own = copy.deepcopy(cfg)
    last = folder / CHECKPOINTS / f"{LAST}.ckpt"
    with open_dict(own):
        for key in (CANDIDATE, CANDIDATES):
            if key in own:
                OmegaConf.resolve(own.dropout)
                own.pop(key)
        if (cfg.resume or was_requeued()) and last.is_file() and own.ckpt_path is None:
            own.ckpt_path = str(last)
        wandb = OmegaConf.select(own, "logger.wandb", default=None)
        if wandb is not None and wandb.group == own.name:  # nobody has chosen another
            wandb.group = f"{own.name}/{folder.parent.name}"
            wandb.name = wandb.name or label(own, folder) or folder.name
    return own


def _overrides(cfg: DictConfig) -> list[str]:
    """The settings of a job without those of its sweep: a command for this job alone."""
    given = texts(HydraConfig.get().overrides.task)
    kept = [entry for entry in given if entry.lstrip("+~").partition("=")[0].partition(".")[0] not in OF_THE_SWEEP]
    if any(entry.partition("=")[0] == CANDIDATE for entry in given):
        kind = str(cfg.dropout.kind)
        kept += [f"dropout={kind}", *([override("dropout.p", cfg.dropout.p)] if kind == "fixed" else [])]
    return kept


@contextmanager
def _own_command(cfg: DictConfig) -> Iterator[None]:
    """While a job is under way, Hydra and ``sys.argv`` are those of a command for this job alone.

    run.json names it, and the folder's saved overrides are what ``ckpt_path=...`` continues the job from.
    """
    config, arguments = HydraConfig.instance(), sys.argv
    before: Any = config.cfg
    task = _overrides(cfg)
    own = copy.deepcopy(before)
    OmegaConf.set_readonly(own.hydra, False)
    with open_dict(own):
        own.hydra.overrides.task = [entry.replace("${", "$\\{") for entry in task]  # no interpolation of its own
    # Launchers start jobs by programs of their own.
    program = arguments[0] if Path(arguments[0]).name == PROGRAM else str(Path(before.hydra.runtime.cwd) / PROGRAM)
    config.cfg, sys.argv = own, [program, *task]
    try:
        yield
    finally:
        config.cfg, sys.argv = before, arguments


def _state(folder: Path) -> str:
    try:
        record: Mapping[str, Any] = RunFolder(folder).read_json(RUN) or {}
    except (OSError, ValueError):
        return ""
    return str(record.get("state", ""))
