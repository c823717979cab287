"""Recorded commands: without what belongs to a machine, and what they changed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from concrete_dropout.report.text import plain

# Settings that change where a run works and what it leaves behind, not what it measures.
ASIDE = (
    "experiment",
    "study",
    "replicas",
    "sweep",
    "candidate",
    "resume",
    "ckpt_path",
    "logger",
    "hydra",
    "paths",
    "threads",
)
VALIDATION = "trainer.check_val_every_n_epoch"
OWN_COLUMNS = ("dropout", "dropout.kind", "dropout.p", "seed", "data.split")
CONF = Path(__file__).parents[2] / "conf" / "experiment"
PLACES = ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir", "out")

# A seed, or a run folder that has one in its name; where there are several, each tells something.
SEEDED = r"^(seed=|ckpt=[^,]*/seed-)\d+((?:_[^,]*)?)$"


def portable(command: str) -> str:
    """A command without the folders of the machine that it ran on.

    >>> portable("python train.py seed=1 hydra.run.dir=/home/me/run data.cache_dir=/big 'study.grid={seed:[0,1]}'")
    "python train.py seed=1 'study.grid={seed:[0,1]}'"
    """
    kept = [word for word in words(command) if _key(word) not in PLACES and not re.search(r"[=\[{:,'\"]~?/", word)]
    return shlex.join(kept)


def changes(command: str, values: Mapping[str, Any], known: Collection[str]) -> str:
    """What a run changed, as one would type it, in alphabetical order.

    Args:
        command: of the run, or of its study.
        values: key -> value in which a study's run differs from the study's command.
        known: config keys that have columns of their own.

    >>> changes("python train.py experiment=cartpole_study agent.episodes=20 logger=none", {"seed": 1}, ())
    'agent.episodes=20'
    >>> changes("python train.py experiment=mnist trainer.check_val_every_n_epoch=20 optim.lr=0.01", {}, ())
    'optim.lr=0.01'
    >>> changes("python train.py experiment=camvid trainer.check_val_every_n_epoch=20", {}, ())
    'trainer.check_val_every_n_epoch=20'
    """
    given = {_key(word): word.partition("=")[2] for word in words(portable(command)) if "=" in word}
    given |= {key: plain(value).replace(" ", "") for key, value in values.items()}
    aside = {*OWN_COLUMNS, *known} if _validation_chooses(given) else {*OWN_COLUMNS, *known, VALIDATION}
    kept = {key: value for key, value in given.items() if key not in aside and _group(key) not in ASIDE}
    return " ".join(f"{key}={value}" for key, value in sorted(kept.items()))


def of_any_seed(command: str) -> str:
    """A command in which a word stands for the seed.

    >>> of_any_seed("python train.py experiment=mnist seed=2")
    'python train.py experiment=mnist seed=SEED'
    >>> of_any_seed("python evaluate.py ckpt=outputs/results/mnist/seed-2_dropout-none mc_samples=50")
    'python evaluate.py ckpt=outputs/results/mnist/seed-SEED_dropout-none mc_samples=50'
    """
    return shlex.join(re.sub(SEEDED, r"\1SEED\2", word) for word in words(command))


def words(command: str) -> list[str]:
    """The words of a command."""
    try:
        return shlex.split(command)
    except ValueError:  # a quotation mark too many: what a file says need not be a command
        return command.split()


def _validation_chooses(given: Mapping[str, str]) -> bool:
    """Whether validation decides which weights are tested, or when a run ends; else its frequency is time alone."""
    tested = (given.get("test_ckpt"), _tested(given.get("experiment", "")))
    return "best" in tested or any(_group(key) == "callbacks" for key in given)


@cache
def _tested(experiment: str) -> str:
    """The weights that an experiment of conf/ tests, as it or one that it builds on says; "" where none does."""
    path = CONF / f"{experiment}.yaml"
    config = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    bases = [_tested(base) for base in config.get("defaults", ()) if isinstance(base, str)]
    return str(config.get("test_ckpt") or next(filter(None, bases), ""))


def _key(word: str) -> str:
    return word.lstrip("+~").partition("=")[0]


def _group(key: str) -> str:
    return re.split(r"[./]", key)[0]
