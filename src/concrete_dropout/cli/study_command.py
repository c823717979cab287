"""A run of a study as a command of its own: what to type to have this run alone."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf, open_dict

from concrete_dropout.cli.entry import CONTINUES
from concrete_dropout.cli.overrides import override

NOT_OF_A_RUN = ("hydra.run.", "hydra.sweep", "hydra.mode", "hydra.job.", "hydra.output_subdir")


@contextmanager
def as_own_command(values: Mapping[str, Any], folder: Path, checkpoint: Path | None) -> Iterator[None]:
    """While a run of a study is under way, Hydra and ``sys.argv`` are those of a command for this run alone.

    Three things read them: run.json, for the command that repeats the run; the folder's saved overrides, from which
    ``ckpt_path=...`` continues it; and Lightning, for the processes that it starts for further devices, which would
    begin the whole study otherwise.

    Args:
        values: {key: value}, in which the run differs from the study's command.
        folder: of the run.
        checkpoint: that it goes on from.
    """
    if not HydraConfig.initialized():  # called from Python: there is no command
        yield
        return
    settings, arguments = HydraConfig.instance(), sys.argv
    before: Any = settings.cfg  # a config that has Hydra's own under "hydra"
    job = before.hydra
    task = own_overrides(job.overrides.task, values)
    own = copy.deepcopy(before)
    OmegaConf.set_readonly(own.hydra, False)
    with open_dict(own):
        own.hydra.overrides.task = task
        own.hydra.run.dir = own.hydra.runtime.output_dir = str(folder)
    more = [entry for entry in job.overrides.hydra if not entry.startswith(NOT_OF_A_RUN)]
    if checkpoint is not None:  # as `cli.entry` has it for a run that is continued
        more += [override("ckpt_path", str(checkpoint)), override("hydra.run.dir", str(folder)), CONTINUES]
    settings.cfg, sys.argv = own, [arguments[0], *task, *more]
    try:
        yield
    finally:
        settings.cfg, sys.argv = before, arguments


@contextmanager
def processes_as_before() -> Iterator[None]:
    """Without a trace of the processes that a run on several devices had, which the next run would wait for.

    Lightning leaves the process group, and its address and ranks in the environment.
    """
    before = dict(os.environ)
    try:
        yield
    finally:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        os.environ.clear()
        os.environ.update(before)


def own_overrides(overrides: Sequence[str], values: Mapping[str, Any]) -> list[str]:
    """The overrides of a study's command, turned into those of one of its runs.

    >>> own_overrides(["experiment=mnist_width", "seed=5", "study.grid={seed:[0,1]}"], {"seed": 1})
    ['experiment=mnist_width', 'study=null', 'seed=1']
    """
    pairs = ((_key(entry), entry) for entry in overrides)
    kept = [entry for key, entry in pairs if key not in values and key.partition(".")[0] != "study"]
    return [*kept, "study=null", *(override(key, value) for key, value in values.items())]


def typed_keys() -> frozenset[str]:
    """The keys on the command line; none where a study is called from Python."""
    return frozenset(map(_key, HydraConfig.get().overrides.task)) if HydraConfig.initialized() else frozenset()


def _key(entry: str) -> str:
    return entry.lstrip("+~").partition("=")[0]
