"""Recorded commands: without what belongs to a machine, and what they changed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from typing import Any

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
ASIDE_KEYS = ("trainer.check_val_every_n_epoch",)  # of the others' groups; weights of the last step are tested
OWN_COLUMNS = ("dropout", "dropout.kind", "dropout.p", "seed", "data.split")
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
    """
    given = {_key(word): word.partition("=")[2] for word in words(portable(command)) if "=" in word}
    given |= {key: plain(value).replace(" ", "") for key, value in values.items()}
    aside = {*OWN_COLUMNS, *ASIDE_KEYS, *known}
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


def _key(word: str) -> str:
    return word.lstrip("+~").partition("=")[0]


def _group(key: str) -> str:
    return re.split(r"[./]", key)[0]
