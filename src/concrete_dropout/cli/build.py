"""From a config to the data, callbacks, loggers and trainer of a run; constructors never see a config."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from lightning_fabric.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig
from pytorch_lightning.accelerators import CUDAAccelerator
from pytorch_lightning.callbacks import ModelCheckpoint, ProgressBar
from pytorch_lightning.loggers import Logger
from rich.console import Console

from concrete_dropout.callbacks import AtomicCheckpointIO, RandomState
from concrete_dropout.callbacks.agreement import SameConfig
from concrete_dropout.callbacks.finite import FiniteLoss
from concrete_dropout.callbacks.stopping import ANNOUNCED, StopOnSignal
from concrete_dropout.cli.checkpoint import CONFIG_KEY, RECIPE_KEY
from concrete_dropout.cli.factory import factory
from concrete_dropout.cli.resume import FinishedEpochs
from concrete_dropout.cli.saved_config import VERSION_KEY, own_version
from concrete_dropout.data import ExperimentData
from concrete_dropout.data.recipes import recipe_of
from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import CHECKPOINTS

ALL_THREADS = torch.get_num_threads()
LAST, BEST = "last", "best"
Selection = tuple[str, str]
PROGRESS = "progress"  # the callback that is of use on a terminal only


class ConfigInCheckpoint(pl.Callback):
    """Keeps the config in every checkpoint, as plain containers: a checkpoint alone can be built up again."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = dict(config)

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Add the config, and which version of this project it is of."""
        checkpoint[CONFIG_KEY] = self.config
        checkpoint[VERSION_KEY] = own_version()


class RecipeInCheckpoint(pl.Callback):
    """Keeps in every checkpoint how files become inputs: predict.py needs neither the training data nor a cache."""

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Add the recipe, where the data have one."""
        recipe = recipe_of(getattr(trainer, "datamodule", None))
        if recipe is not None:
            checkpoint[RECIPE_KEY] = recipe.plain()


def set_out(cfg: DictConfig) -> None:
    """Seeds, threads and arithmetic: what comes before anything is built, and before torch starts its threads.

    A prior pulls weights that no data hold until they are too small for a normal float32. Many processors compute with
    such numbers dozens of times slower, so that a long run would come to a crawl; as 0 they say the same.
    """
    if cfg.threads is not None and cfg.threads < 1:
        raise UserError(f"threads={cfg.threads} must be at least 1, or null for all cores")
    torch.set_flush_denormal(True)
    torch.set_num_threads(cfg.threads or ALL_THREADS)  # also after another job of a sweep had its own
    pl.seed_everything(cfg.seed, workers=True, verbose=False)


def build_data(cfg: DictConfig) -> ExperimentData:
    """The data module, with its data in place."""
    data: ExperimentData = factory(cfg, "data")()
    data.prepare_data()
    return data


def build_loggers(cfg: DictConfig) -> list[Logger]:
    """The loggers of the group; none is a choice."""
    return [factory(cfg.logger, str(name))() for name in cfg.logger]


def build_callbacks(cfg: DictConfig, only: set[str] | None = None) -> list[pl.Callback]:
    """The callbacks of the group, by name where ``only`` is given; no progress bar in a file or a pipe."""
    names = [str(name) for name in cfg.callbacks if only is None or name in only]
    console = Console()
    if not (console.is_terminal or console.is_jupyter):
        names = [name for name in names if name != PROGRESS]
    return [factory(cfg.callbacks, name)() for name in names]


def keepers(config: Mapping[str, Any], folder: Path, selection: Selection | None) -> list[pl.Callback]:
    """The callbacks that no run goes without: checkpoints, their config, and what continuing from them takes.

    Args:
        config: of the run, resolved.
        folder: of the run.
        selection: the metric that the best checkpoint is chosen by, and "min" or "max"; None without validation.
    """
    place = folder / CHECKPOINTS
    kept: list[pl.Callback] = [SameConfig(config), ConfigInCheckpoint(config), RecipeInCheckpoint()]
    kept += [FinishedEpochs(), RandomState()]
    if selection is not None:
        monitor, mode = selection
        kept.append(ModelCheckpoint(place, BEST, monitor=monitor, mode=mode, enable_version_counter=False))
    # Behind the best one, whose score so far it holds: a run that goes on from it must not forget that.
    kept.append(ModelCheckpoint(place, LAST, enable_version_counter=False, save_on_train_epoch_end=True))
    return [*kept, FiniteLoss(), StopOnSignal(place / f"{LAST}.ckpt", stop_signals())]


def stop_signals() -> tuple[signal.Signals, ...]:
    """What ends a run between two steps; Slurm announces the end of a job by the signal that it was submitted with."""
    return (signal.SIGTERM, *(ANNOUNCED if in_slurm_job() else ()))


def in_slurm_job() -> bool:
    """Whether Slurm has started this process."""
    return SLURMEnvironment.detect()


def _is_slurm_job(cfg: DictConfig) -> bool:
    """Whether Slurm has started the processes of this run: one for each device."""
    return in_slurm_job() and (cfg.trainer.devices, cfg.trainer.num_nodes) != (1, 1)


def build_trainer(
    cfg: DictConfig, callbacks: list[pl.Callback], loggers: list[Logger], folder: Path, **options: Any
) -> pl.Trainer:
    """The trainer, with ``options`` on top of the config's; checkpoints are written in one piece."""
    try:
        trainer: pl.Trainer = factory(cfg, "trainer")(
            callbacks=callbacks,
            logger=loggers or False,
            default_root_dir=folder,
            enable_progress_bar=any(isinstance(callback, ProgressBar) for callback in callbacks),
            # Lightning would save and requeue a Slurm job from within a signal handler, in the middle of a step.
            plugins=[AtomicCheckpointIO(), *([SLURMEnvironment(auto_requeue=False)] if _is_slurm_job(cfg) else [])],
            **options,
        )
    except MisconfigurationException as error:
        asked = f"trainer.accelerator={cfg.trainer.accelerator} trainer.devices={cfg.trainer.devices}"
        raise UserError(
            f"{asked} is not possible here: {str(error).strip()} Take trainer=auto for what there is, or trainer=cpu"
        ) from error
    if not isinstance(trainer.accelerator, CUDAAccelerator):
        # Set by Lightning for processes that fork before they use a GPU. Without one, every optimiser step would look
        # for a driver again, which takes longer than the step of a small network.
        os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)
    return trainer
