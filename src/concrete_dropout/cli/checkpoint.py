"""A checkpoint that is named on the command line, looked at before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from concrete_dropout.callbacks import AtomicCheckpointIO
from concrete_dropout.cli.compose import config_diff
from concrete_dropout.errors import UserError

CONFIG_KEY = "config"
RECIPE_KEY = "recipe"  # how files become inputs
SHAPING = ("model", "dropout.kind", "dropout.place", "task", "data")  # keys that decide which tensors there are


def check_checkpoint(path: str | Path, task: nn.Module, config: Mapping[str, Any]) -> None:
    """Refuse a checkpoint that cannot be read, or that belongs to another network.

    Args:
        path: of the file, under ``ckpt_path``.
        task: that shall take its weights.
        config: of this run.

    Raises:
        UserError: says what is wrong with it, and which settings it was written with.
    """
    checkpoint = _read(Path(path))
    saved, wanted = _shapes(checkpoint["state_dict"]), _shapes(task.state_dict())
    if saved == wanted:
        return
    wrong = sorted(name for name in {*saved, *wanted} if saved.get(name) != wanted.get(name))
    changes = [
        f"{change['key']}={change['default']} (here {change['value']})"
        for change in config_diff(checkpoint.get(CONFIG_KEY, {}), dict(config))
        if change["key"].startswith(SHAPING)
    ]
    settings = f" It was written with {', '.join(changes[:5])}." if changes and CONFIG_KEY in checkpoint else ""
    raise UserError(
        f"ckpt_path={path} is of another network: {len(wrong)} tensors differ, the first is {wrong[0]} "
        f"({_shape(saved.get(wrong[0]))} there, {_shape(wanted.get(wrong[0]))} here).{settings} Use the settings of "
        "the run that wrote it"
    )


def renew_weights(path: Path, task: nn.Module) -> None:
    """Put the weights at hand into a checkpoint that was written before they were final; all else in it stays."""
    if path.is_file():
        files = AtomicCheckpointIO()
        files.save_checkpoint({**files.load_checkpoint(path), "state_dict": task.state_dict()}, path)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise UserError(f"ckpt_path={path}: there is no such file. A run keeps its own in checkpoints/last.ckpt")
    try:
        # mapped: the tensors are not read, their shapes are
        checkpoint = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        if not isinstance(checkpoint["state_dict"], dict):
            raise TypeError("no weights")
    except Exception as error:  # a file of anything makes the unpickler fail in any way
        raise UserError(
            f"ckpt_path={path} is no checkpoint, or a damaged one ({type(error).__name__}). A run keeps its own in "
            "checkpoints/last.ckpt and checkpoints/best.ckpt"
        ) from error
    return dict(checkpoint)


def _shapes(state: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in state.items() if isinstance(value, torch.Tensor)}


def _shape(shape: tuple[int, ...] | None) -> str:
    return "missing" if shape is None else " x ".join(map(str, shape)) or "a number"
