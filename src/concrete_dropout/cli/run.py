"""One run: seed, build, fit, test, and what it leaves behind.

A mistake that shows before training starts (no such file, a checkpoint of another network, no GPU) is a ``UserError``
and leaves no folder. From then on run.json says how the run stands, and how it ended.
"""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Protocol

import pytorch_lightning as pl
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.utilities.exceptions import SIGTERMException

from concrete_dropout.callbacks import RunRecord
from concrete_dropout.callbacks.stopping import StopSignal
from concrete_dropout.cli import build
from concrete_dropout.cli.checkpoint import check_checkpoint, renew_weights
from concrete_dropout.cli.compose import compose_config, config_diff, plain
from concrete_dropout.cli.entry import from_the_start
from concrete_dropout.cli.facts import run_facts
from concrete_dropout.cli.leftovers import HYDRA
from concrete_dropout.cli.memory_check import check_memory
from concrete_dropout.cli.networks import build_task
from concrete_dropout.cli.paths import shortest
from concrete_dropout.cli.ranks import is_rank, processes_to_start, run_on_ranks
from concrete_dropout.cli.run_log import logging_to, run_log
from concrete_dropout.cli.stopped import Stopped, failed
from concrete_dropout.cli.summary import print_start, print_summary
from concrete_dropout.cli.wandb_run import close_wandb
from concrete_dropout.errors import UserError
from concrete_dropout.heartbeat import beating
from concrete_dropout.report import build_run_report
from concrete_dropout.runfolder import CHECKPOINTS, CONFIG, CONFIG_DIFF, RUN, SUMMARY, RunFolder
from concrete_dropout.signals import Terminated, check_terminated, terminable


def run(cfg: DictConfig, folder: Path, conf_dir: Path) -> dict[str, float]:
    """Train and test as the config says, in ``folder``; returns the last metrics."""
    with logging_to(folder):
        build.set_out(cfg)
        data = build.build_data(cfg)
        validates = "val" in data.parts
        check_parts(cfg, validates)
        processes = 1 if is_rank() or cfg.trainer.devices == 1 else _processes(cfg, folder)
        if processes > 1:  # which find the data in place
            write_config(plain(cfg), folder, conf_dir)
            run_on_ranks(cfg, folder, conf_dir, processes)
            return dict((RunFolder(folder).read_json(SUMMARY) or {}).get("metrics", {}))
        task = build_task(cfg, data)
        check_memory(task, data)
        record = RunRecord(folder, {**facts(cfg), "num_train": data.spec.num_train, "kl_weight": task.kl_weight})
        callbacks = [
            *build.build_callbacks(cfg),
            *build.keepers(plain(cfg), folder, task.selection if validates else None),
        ]
        trainer = carry_out(cfg, folder, conf_dir, task, data, record, callbacks, tests="test" in data.parts)
    if trainer.is_global_zero:
        print_summary(folder)
    return {name: float(value) for name, value in trainer.callback_metrics.items()}


def _processes(cfg: DictConfig, folder: Path) -> int:
    return processes_to_start(build.build_trainer(cfg, [], [], folder))


def carry_out(
    cfg: DictConfig,
    folder: Path,
    conf_dir: Path,
    task: pl.LightningModule,
    data: pl.LightningDataModule,
    record: RunRecord,
    callbacks: Sequence[pl.Callback],
    tests: bool,
) -> pl.Trainer:
    """Fit and test what is built, with its record kept; ``tests``: whether the data have a test part."""
    config = plain(cfg)
    if cfg.ckpt_path is not None:
        check_checkpoint(cfg.ckpt_path, task, config)
    trainer = build.build_trainer(cfg, [*callbacks, record], build.build_loggers(cfg), folder)
    if trainer.is_global_zero:
        if not is_rank():  # whose parent has done it, and knows the command
            write_config(config, folder, conf_dir)
        print_start(folder, record.facts)
    with recording(record, folder, trainer.is_global_zero):
        log_config(trainer, config)
        if cfg.train:
            trainer.fit(task, datamodule=data, ckpt_path=cfg.ckpt_path)
            if cfg.task.get("final_m_step") and trainer.is_global_zero:  # which comes after the last checkpoint
                renew_weights(folder / CHECKPOINTS / f"{build.LAST}.ckpt", task)
        if cfg.test and tests:
            trainer.test(task, datamodule=data, ckpt_path=_tested(cfg, folder), verbose=False)
    return trainer


def write_config(config: Mapping[str, Any], folder: Path, conf_dir: Path) -> None:
    """The resolved config, where it differs from its experiment's defaults, and the overrides that led to it."""
    files = RunFolder(folder)
    experiment: list[str] = []
    if HydraConfig.initialized():
        job = HydraConfig.get()
        experiment = [f"experiment={job.runtime.choices['experiment']}"]
        # Hydra writes this file too, but not when a run is continued: `ckpt_path` might be refused.
        files.write_text(f"{HYDRA}/overrides.yaml", OmegaConf.to_yaml(job.overrides.task))
    files.write_text(CONFIG, OmegaConf.to_yaml(OmegaConf.create(dict(config))))
    defaults = plain(compose_config(experiment, conf_dir, run_dir=folder))
    files.write_json(CONFIG_DIFF, config_diff(defaults, dict(config)))


def facts(cfg: DictConfig) -> dict[str, Any]:
    """What run.json says beside what callbacks see."""
    return {
        "experiment": cfg.name,
        "dropout": cfg.dropout.kind,
        "seed": cfg.seed,
        **run_facts(from_the_start(sys.argv)),
    }


class Ending(Protocol):
    """A record of a run, as far as its end is concerned."""

    facts: dict[str, Any]

    def finish(self) -> None:
        """The run has done all that it was asked for."""

    def fail(self, error: BaseException) -> None:
        """The run has ended before its time."""


@contextmanager
def recording(record: Ending, folder: Path, is_first: bool = True) -> Iterator[None]:
    """The life of a run in run.json, from its start to however it ends; then W&B's end, and a report of what there is.

    Args:
        record: of the run.
        folder: of the run.
        is_first: whether this is the first process of the run, which alone writes at the start and at the end.

    Raises:
        Stopped: in place of what Ctrl-C and signals raise.
    """
    check_terminated()  # a run before this one may have come to its end all the same
    # What is known so far: the record itself starts with the trainer, which may never come to that.
    if is_first:
        RunFolder(folder).remove_unfinished()
        RunFolder(folder).update_json(RUN, **record.facts, state="running", error=None, ended=None)
    run_log.info("started: %s", record.facts.get("command"))
    try:
        with terminable(), beating(folder) if is_first else nullcontext():
            yield
        record.finish()
        run_log.info("finished")
    except (KeyboardInterrupt, SystemExit) as error:  # Lightning turns the former into the latter
        stopped = Stopped(received(error), folder)
        _note_failure(record, stopped)
        run_log.info("stopped %s", stopped)
        raise stopped from error
    except BaseException as error:
        failed.add(folder.absolute())
        _note_failure(record, error)
        raise
    finally:
        try:
            with terminable():
                _close(folder, is_first)
        except (KeyboardInterrupt, Terminated) as error:  # all else is on disk, and the report can be made again
            raise Stopped(received(error), folder) from error


def received(error: BaseException) -> signal.Signals:
    """The signal behind what a trainer raises when it is stopped."""
    if isinstance(error, StopSignal):
        return error.number
    return signal.SIGTERM if isinstance(error, (SIGTERMException, Terminated)) else signal.SIGINT


def log_config(trainer: pl.Trainer, config: Mapping[str, Any]) -> None:
    """The config as the hyper-parameters of the logged run."""
    for logger in trainer.loggers:
        with suppress(NotImplementedError):
            logger.log_hyperparams(dict(config))


def _note_failure(record: Ending, error: BaseException) -> None:
    """A full disk, which may be what ended the run, takes no record of its end either: the error itself counts."""
    try:
        record.fail(error)
    except OSError as trouble:
        run_log.info("the end of the run could not be recorded: %s", trouble)


def _close(folder: Path, is_first: bool) -> None:
    """The end of W&B's run, and a report."""
    close_wandb()
    if is_first:
        _write_report(folder)


def _write_report(folder: Path) -> None:
    """A report that fails shall not hide the run's own end."""
    try:
        build_run_report(folder)
    except OSError as error:
        run_log.warning("no report could be written (%s); try again with: %s", error.strerror, report_command(folder))
    except Exception:
        run_log.exception("no report could be written; try again with: %s", report_command(folder))


def report_command(folder: Path) -> str:
    """What to type to have the report of a run built again."""
    return f"python -m concrete_dropout.report {shlex.quote(shortest(folder))}"


def check_parts(cfg: DictConfig, validates: bool) -> None:
    """Refuse to test what there will not be."""
    if cfg.test_ckpt == build.BEST and not validates:
        raise UserError(
            "test_ckpt=best needs validation data to choose by: hold some out with data.val_fraction=0.1, or use "
            "test_ckpt=last"
        )
    if not cfg.train and cfg.ckpt_path is None:
        raise UserError("train=false has nothing to test: name a checkpoint with ckpt_path=.../checkpoints/last.ckpt")


def _tested(cfg: DictConfig, folder: Path) -> str | None:
    """The checkpoint to test; None for the weights at hand."""
    if not cfg.train:
        return str(cfg.ckpt_path)
    best = folder / CHECKPOINTS / f"{build.BEST}.ckpt"
    if cfg.test_ckpt == build.BEST and not best.is_file():
        run_log.warning("test_ckpt=best: training ended before the first validation, the last weights are tested")
    return str(best) if cfg.test_ckpt == build.BEST and best.is_file() else None
