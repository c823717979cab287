"""From a config to the objects of a run. Dimensions and N come from the data; constructors never see a config."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig
from pytorch_lightning.accelerators import CUDAAccelerator
from pytorch_lightning.callbacks import ModelCheckpoint, ProgressBar
from pytorch_lightning.loggers import Logger
from rich.console import Console
from torch import nn

from concrete_dropout.callbacks import AtomicCheckpointIO, RandomState
from concrete_dropout.cli.checkpoint import CONFIG_KEY
from concrete_dropout.cli.factory import factory
from concrete_dropout.cli.resume import FinishedEpochs
from concrete_dropout.data import RegressionData, RegressionSpec
from concrete_dropout.errors import UserError
from concrete_dropout.models import GaussianHead
from concrete_dropout.runfolder import CHECKPOINTS
from concrete_dropout.settings import DropoutSettings, OptimSettings
from concrete_dropout.tasks import RegressionTask

ALL_THREADS = torch.get_num_threads()
LAST, BEST = "last", "best"
PROGRESS = "progress"  # the callback that is of use on a terminal only


class ConfigInCheckpoint(pl.Callback):
    """Keeps the config in every checkpoint, as plain containers: a checkpoint alone can be built up again."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = dict(config)

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Add the config."""
        checkpoint[CONFIG_KEY] = self.config


def set_out(cfg: DictConfig) -> None:
    """Seeds and threads: what comes before anything is built."""
    if cfg.threads is not None and cfg.threads < 1:
        raise UserError(f"threads={cfg.threads} must be at least 1, or null for all cores")
    torch.set_num_threads(cfg.threads or ALL_THREADS)  # also after another job of a sweep had its own
    pl.seed_everything(cfg.seed, workers=True, verbose=False)


def build_data(cfg: DictConfig) -> RegressionData:
    """The data module, with its data in place."""
    data: RegressionData = factory(cfg, "data")()
    data.prepare_data()
    return data


def build_network(cfg: DictConfig, data: RegressionData) -> nn.Module:
    """The network with its dropouts swapped, of the size that the data ask for."""
    network = _bare_network(cfg, data.spec)
    settings: DropoutSettings = factory(cfg, "dropout")()
    return settings.apply(network, data.example_input)


def build_task(cfg: DictConfig, data: RegressionData) -> RegressionTask:
    """The task around a new network."""
    spec = data.spec
    optim: OptimSettings = factory(cfg, "optim")()
    task: RegressionTask = factory(cfg, "task")(
        build_network(cfg, data),
        num_train=spec.num_train,
        inputs=spec.inputs,
        targets=spec.targets,
        optim=optim,
        mask=cfg.dropout.mask,
        seed=cfg.seed,
    )
    return task


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


def keepers(config: Mapping[str, Any], folder: Path, validates: bool) -> list[pl.Callback]:
    """The callbacks that no run goes without: checkpoints, their config, and what continuing from them takes."""
    place = folder / CHECKPOINTS
    last = ModelCheckpoint(place, filename=LAST, enable_version_counter=False, save_on_train_epoch_end=True)
    best = ModelCheckpoint(place, filename=BEST, enable_version_counter=False, monitor="val/nll", mode="min")
    return [ConfigInCheckpoint(config), FinishedEpochs(), RandomState(), last, *([best] if validates else [])]


def build_trainer(cfg: DictConfig, callbacks: list[pl.Callback], loggers: list[Logger], folder: Path) -> pl.Trainer:
    """The trainer; checkpoints are written in one piece."""
    try:
        trainer: pl.Trainer = factory(cfg, "trainer")(
            callbacks=callbacks,
            logger=loggers or False,
            default_root_dir=folder,
            enable_progress_bar=any(isinstance(callback, ProgressBar) for callback in callbacks),
            plugins=[AtomicCheckpointIO()],
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


def _bare_network(cfg: DictConfig, spec: RegressionSpec) -> nn.Module:
    build = factory(cfg, "model")
    if cfg.task.noise == "heteroscedastic":
        return GaussianHead(build(num_inputs=spec.num_inputs, num_outputs=2 * spec.num_outputs))
    network: nn.Module = build(num_inputs=spec.num_inputs, num_outputs=spec.num_outputs)
    return network
