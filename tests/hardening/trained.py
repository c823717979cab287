"""Small runs that the real train.py has made, and what may have happened to their checkpoints since."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tests.hardening import bad_files as bad
from tests.hardening.cases import CSV, PICTURES, SCENES, SMALL
from tests.hardening.commands import WarmCommands

TINY = ["test=false", "task.val_samples=1"]
NETWORK = ["model.blocks=[1,1,1]", "model.growth=4", "model.first_filters=8"]
COMMANDS: dict[str, tuple[list[str], Callable[[Path], object]]] = {
    "toy": ([*SMALL], lambda folder: None),
    "csv": ([*CSV, *TINY], lambda folder: bad.table(folder, bad.good_table())),
    "pictures": ([*PICTURES, *TINY, "model.hidden=[8]"], bad.pictures),
    "scenes": ([*SCENES, *TINY, *NETWORK], bad.scenes),
}


class Runs:
    """Runs by name, each made when it is first asked for; its data stay in the folder "data" beside it."""

    def __init__(self, commands: WarmCommands, place: Path) -> None:
        self.commands, self.place = commands, place

    def __call__(self, name: str) -> Path:
        folder = self.place / name
        if not folder.exists():
            folder.mkdir()
            arguments, prepare = COMMANDS[name]
            prepare(folder)
            result = self.commands.run("train.py", [*arguments, "hydra.run.dir=run"], folder)
            assert result.code == 0, result.out + result.err
        return folder / "run"

    def copy(self, name: str, target: Path) -> Path:
        """A run of one's own, to be tampered with; its data are where they were."""
        shutil.copytree(self(name), target)
        return target


def last(run: Path) -> Path:
    return run / "checkpoints" / "last.ckpt"


def change(run: Path, action: Callable[[dict[str, Any]], object]) -> None:
    """Change what a checkpoint holds."""
    content = torch.load(last(run), weights_only=True)
    action(content)
    torch.save(content, last(run))


def age(content: dict[str, Any]) -> None:
    """Make a checkpoint one of an earlier version: without what was added since."""
    for key in ("concrete_dropout_version", "recipe"):
        content.pop(key, None)
    config = content["config"]
    for key in ("env", "policy", "agent", "replicas", "callbacks", "study", "objective", "resume"):
        config.pop(key, None)
    for group, key in (("dropout", "inactive"), ("task", "train_samples"), ("data", "min_steps_per_epoch")):
        config[group].pop(key, None)


def rename_setting(content: dict[str, Any]) -> None:
    """As of a version in which a setting had another name."""
    content.pop("concrete_dropout_version", None)
    content["config"]["dropout"]["drop_rate"] = content["config"]["dropout"].pop("init_p")


def of_a_later_version(content: dict[str, Any]) -> None:
    content["concrete_dropout_version"] = "9.7"
    content["config"]["model"]["wings"] = 2
