"""Loggers that keep to the run folder."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pytorch_lightning.loggers import CSVLogger, TensorBoardLogger

from concrete_dropout.callbacks.loggers import wandb_environment
from concrete_dropout.cli.wandb_key import wandb_key_is_configured
from concrete_dropout.cli.wandb_run import WandbLogger, earlier_id
from concrete_dropout.errors import UserError


def wandb_logger(
    folder: str,
    project: str = "concrete-dropout",
    name: str | None = None,
    group: str | None = None,
    mode: Literal["auto", "online", "offline"] = "auto",
    tags: Sequence[str] = (),
) -> WandbLogger:
    """A W&B run in the run folder; in mode "auto" online only where a key is configured, and never a question asked."""
    if mode == "online" and not wandb_key_is_configured():
        raise UserError(
            "logger.wandb.mode=online needs an API key: run `wandb login`, set WANDB_API_KEY, or leave the mode at auto"
        )
    wanted = os.environ.get("WANDB_MODE", "online")
    offline = mode == "offline" or (mode == "auto" and not (wandb_key_is_configured() and wanted == "online"))
    os.environ.update(wandb_environment(folder))
    os.environ.setdefault("WANDB_SILENT", "true")
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    known = earlier_id(place)
    again: dict[str, Any] = {} if known is None else {"id": known, **({} if offline else {"resume": "allow"})}
    logger = WandbLogger(
        save_dir=place, project=project, name=name or place.name, group=group, offline=offline, tags=list(tags), **again
    )
    logger._wandb_init.pop("anonymous", None)  # a setting without effect, about which W&B warns
    return logger


def csv_logger(folder: str) -> CSVLogger:
    """Lightning's own CSV files, in csv/version_<n>/: one more each time a run is continued.

    In one folder the logger would delete what it wrote before the run was stopped.
    """
    return CSVLogger(save_dir=folder, name="csv")


def tensorboard_logger(folder: str) -> TensorBoardLogger:
    """TensorBoard's event files, in tensorboard/."""
    if not any(importlib.util.find_spec(name) for name in ("tensorboard", "tensorboardX")):
        raise UserError("logger=tensorboard needs the package: pip install tensorboard")
    return TensorBoardLogger(save_dir=folder, name="tensorboard", version="")
