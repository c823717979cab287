"""A checkpoint as a model that can be used: its network with the learned weights, and how files become its inputs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig

from concrete_dropout.callbacks import AtomicCheckpointIO
from concrete_dropout.cli.agent_build import AGENT
from concrete_dropout.cli.build import build_data
from concrete_dropout.cli.checkpoint import CONFIG_KEY, RECIPE_KEY
from concrete_dropout.cli.checkpoint_files import find_checkpoint, sha256
from concrete_dropout.cli.networks import build_task, without_downloads
from concrete_dropout.cli.paths import shortest
from concrete_dropout.cli.saved_config import of_this_version, saved_config
from concrete_dropout.cli.trust import NOTHING_ELSE, Trust, trusted_config
from concrete_dropout.data.recipes import Recipe, read_recipe, recipe_of
from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import CHECKPOINTS
from concrete_dropout.tasks import Task

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SavedModel:
    """What a checkpoint holds.

    Attributes:
        path: of the checkpoint.
        task: with its weights, in eval mode.
        recipe: from files to inputs.
        config: of the run.
        sha256: of the file.
    """

    path: Path
    task: Task
    recipe: Recipe
    config: dict[str, Any]
    sha256: str

    @property
    def run_folder(self) -> Path:
        """The folder of the run; that of the file where it is not in a run's ``checkpoints``."""
        place = self.path.absolute().parent
        return place.parent if place.name == CHECKPOINTS else place


def load_saved_model(path: Path, trust: Trust = NOTHING_ELSE) -> SavedModel:
    """Build the network of a checkpoint and give it the weights.

    Args:
        path: under ``ckpt``, as in ``find_checkpoint``.
        trust: what its config may name.

    Raises:
        UserError: there is no such file, it is no checkpoint of a network, or its data are unknown.
    """
    path = find_checkpoint(path)
    saved = AtomicCheckpointIO().load_checkpoint(path)
    config = trusted_config(_config(path, saved), f"ckpt={shortest(path)}", trust)
    cfg = saved_config(path, saved, config)
    recipe = None if RECIPE_KEY in saved else _recipe_of_the_data(path, cfg)
    # A new network draws weights.
    with of_this_version(path, saved), torch.random.fork_rng(devices=[]):
        recipe = recipe or read_recipe(saved[RECIPE_KEY])
        task = build_task(without_downloads(cfg), recipe)
    try:
        task.load_state_dict(saved["state_dict"])
    except RuntimeError as error:
        detail = " ".join(str(error).split())[:300]
        raise UserError(
            f"ckpt={shortest(path)} does not fit the network that its own config builds ({detail}). Was the model's "
            "code changed since? Use the version that wrote the checkpoint"
        ) from error
    return SavedModel(path, task.eval(), recipe, config, sha256(path))


def _config(path: Path, saved: Mapping[str, Any]) -> dict[str, Any]:
    name = f"ckpt={shortest(path)}"
    if AGENT in saved:
        raise UserError(
            f"{name} is of an agent, which acts in its world and predicts no files. Judge it with "
            f"python evaluate.py ckpt={shortest(path)}"
        )
    if CONFIG_KEY not in saved or not isinstance(saved.get("state_dict"), dict):
        raise UserError(
            f"{name} has no config, so that its network cannot be built: only checkpoints of python train.py have one"
        )
    config: dict[str, Any] = saved[CONFIG_KEY]
    if (config.get("replicas") or {}).get("grid") is not None:
        raise UserError(
            f"{name} holds several replicas that were trained as one, and predict.py takes single networks. Train the "
            "one you want without replicas=..., with its seed, split and initial p"
        )
    return config


def _recipe_of_the_data(path: Path, cfg: DictConfig) -> Recipe:
    """For a checkpoint of a version that kept no recipe: the training data have it, if they are still there."""
    name = f"ckpt={shortest(path)} is of an earlier version, which did not keep how files become inputs"
    log.warning("%s: the run's data are read for it", name)
    try:
        recipe = recipe_of(build_data(cfg))
    except UserError as error:
        raise UserError(
            f"{name}, and the run's data, which have it too, cannot be read ({error}) Put them back, or train again"
        ) from error
    if recipe is None:
        raise UserError(f"{name}, and data of {cfg.data._target_} have none")
    return recipe
