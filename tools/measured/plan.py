"""All commands behind the page in one place: what SEED and SET stand for, and the folder that each works in."""

from __future__ import annotations

import itertools
import re
import shlex
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from concrete_dropout.errors import UserError
from concrete_dropout.report.record import finite
from concrete_dropout.report.text import plain

from .commands import words
from .experiments import EXPERIMENTS, MNIST, TRAIN_SAMPLES

PLACE = "outputs/results"
SEEDS = (0, 1, 2)
MEMBERS = (0, 1, 2, 3, 4)  # seeds of a deep ensemble
SETS = ("yacht", "boston", "energy", "concrete", "wine")  # of the UCI, small enough for a grid
STANDS_FOR: dict[str, Sequence[object]] = {"SEED": SEEDS, "SET": SETS}
LAST = ("camvid",)  # days on a GPU: after everything else
TABLE = Path(__file__).parents[2] / "conf" / "experiment" / "uci_table.yaml"
MASKS = TRAIN_SAMPLES["train_samples"]
LONGEST = 120  # characters of a folder's name


@dataclass(frozen=True)
class Beyond:
    """Commands behind sections that belong to no experiment of the paper.

    Args:
        name: to run them by.
        commands: in their order.
        needs: experiments whose runs they take, which come first.
    """

    name: str
    commands: tuple[str, ...]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """One command in a folder of its own.

    Args:
        name: of the experiment, or of what lies beyond.
        command: with numbers in the place of SEED.
        folder: relative to the project.
    """

    name: str
    command: str
    folder: str


def folder_of(name: str, command: str) -> str:
    """The folder that a command works in: what it changes is its name, so that another command has another.

    >>> folder_of("mnist", "python train.py experiment=mnist seed=0 dropout=none")
    'outputs/results/mnist/seed-0_dropout-none'
    >>> folder_of("masks", "python evaluate.py ckpt=outputs/results/mnist/seed-0 mask=concrete,bernoulli")
    'outputs/results/masks/ckpt-seed-0_mask-concrete-bernoulli'
    """
    given = [word for word in words(command)[2:] if word not in ("-m", f"experiment={name}")]
    # Of paths the last part; of several checkpoints the first.
    short = [re.sub(r"^(\w+)=[^,]*/([^,/]+).*", r"\1=\2", word).removeprefix("experiment=") for word in given]
    label = "_".join(re.sub(r"[^\w.]+", "-", word).strip("-") for word in short) or "run"
    if len(label) > LONGEST:
        label = f"{label[:LONGEST]}-{zlib.crc32(label.encode()):08x}"
    return f"{PLACE}/{name}/{label}"


@cache
def table_settings() -> dict[str, dict[str, object]]:
    """What experiment=uci_table changes: set -> config key -> value."""
    table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return {str(name): own or {} for name, own in (table["study"].get("settings") or {}).items()}


def settings_of(name: str) -> tuple[str, ...]:
    """What experiment=uci_table changes for a set, as one would type it; but for p, which a grid search is about.

    >>> "data.batch_size=256" in settings_of("power"), any(key.startswith("dropout.p=") for key in settings_of("power"))
    (True, False)
    """
    found = table_settings().get(name, {})
    return tuple(f"{key}={plain(value).replace(' ', '')}" for key, value in found.items() if key != "dropout.p")


def sets_with_masks() -> list[str]:
    """The sets that experiment=uci_table trains with several masks per step.

    >>> "energy" in sets_with_masks(), "yacht" in sets_with_masks()
    (True, False)
    """
    return [name for name, own in table_settings().items() if (finite(own.get(MASKS)) or 1) > 1]


NO_DROPOUT, FIXED = (f"{MNIST} dropout={kind}" for kind in ("none", "fixed"))
UCI_TABLE = "python train.py experiment=uci_table"
EXTRA_MEMBERS = tuple(f"{NO_DROPOUT.replace('SEED', str(seed))} test=false" for seed in MEMBERS if seed not in SEEDS)
ENSEMBLE = ",".join(
    [folder_of("mnist", NO_DROPOUT.replace("SEED", str(seed))) for seed in MEMBERS if seed in SEEDS]
    + [folder_of("shift", command) for command in EXTRA_MEMBERS]
)
SHIFTED = "mc_samples=50 corruptions=true ood=noise,inverted,rotated,digits"
BEYOND = (
    Beyond(
        "grid_cost",
        (
            f"python train.py -m experiment=mnist sweep=grid_vs_concrete seed={','.join(map(str, SEEDS))} test=false",
            "python train.py -m experiment=uci sweep=grid_vs_concrete data.name=SET replicas=splits "
            "data.val_fraction=0.1 test=false",
        ),
    ),
    Beyond(
        "masks",
        (
            f"python evaluate.py ckpt={folder_of('mnist', MNIST)} mc_samples=0,10,50,200 mask=concrete,bernoulli "
            "repeats=3",
            # The set whose p is largest among those that every split has converged on, or nearly.
            f"python evaluate.py ckpt={folder_of('uci', UCI_TABLE)}/boston mc_samples=10,50,200 "
            "mask=concrete,bernoulli repeats=3",
        ),
        needs=("mnist", "uci"),
    ),
    Beyond(
        "shift",
        (
            *(
                f"python evaluate.py ckpt={folder_of('mnist', command)} {SHIFTED}"
                for command in (MNIST, NO_DROPOUT, FIXED)
            ),
            *EXTRA_MEMBERS,
            f"python evaluate.py ckpt={ENSEMBLE} ensemble=true {SHIFTED}",
        ),
        needs=("mnist",),
    ),
    Beyond(
        "train_samples",
        (
            "python train.py experiment=synthetic_study task.train_samples=4",
            f"{MNIST} task.train_samples=1",
            # Sets that have one mask have nothing to be compared with.
            "python train.py experiment=uci_table task.train_samples=1 "
            f"'study.grid={{data.name:[{','.join(sets_with_masks())}]}}'",
        ),
        needs=("synthetic", "mnist", "uci"),
    ),
)


def commands_of(name: str) -> tuple[str, ...]:
    """The commands of an experiment or of what lies beyond, as a section names them."""
    for experiment in EXPERIMENTS:
        if experiment.name == name:
            return experiment.commands
    return next(entry.commands for entry in BEYOND if entry.name == name)


def names() -> tuple[str, ...]:
    """All that can be asked for, in the order in which they run."""
    found = (*(experiment.name for experiment in EXPERIMENTS), *(entry.name for entry in BEYOND))
    return tuple(sorted(found, key=lambda name: name in LAST))


def steps(wanted: Sequence[str] = ()) -> list[Step]:
    """The commands of some names, after those that they need; of all where none is given.

    Raises:
        UserError: an unknown name.
    """
    unknown = [name for name in wanted if name not in names()]
    if unknown:
        raise UserError(f"there is no {', '.join(unknown)}; known are {', '.join(names())}")
    needed = {need for entry in BEYOND if entry.name in wanted for need in entry.needs}
    chosen = [name for name in names() if not wanted or name in wanted or name in needed]
    found = [
        Step(name, command, folder_of(name, command))
        for name in chosen
        for template in commands_of(name)
        for command in expanded(template)
    ]
    return list(dict.fromkeys(found))


def expanded(template: str) -> Iterator[str]:
    """A command for everything that SEED and SET stand for.

    >>> list(expanded("python train.py seed=SEED"))[:2]
    ['python train.py seed=0', 'python train.py seed=1']
    """
    used = [word for word in STANDS_FOR if re.search(_alone(word), template)]
    for values in itertools.product(*(STANDS_FOR[word] for word in used)):
        command = template
        for word, value in zip(used, values, strict=True):
            command = re.sub(_alone(word), shlex.quote(str(value)), command)
        # A set by itself has the settings that the table of all sets has for it.
        own = dict(zip(used, values, strict=True)).get("SET")
        yield shlex.join([*words(command), *settings_of(str(own))]) if own is not None else command


def _alone(word: str) -> str:
    """A pattern for a word that is no part of another, also between underscores."""
    return rf"(?<![A-Za-z]){word}(?![A-Za-z])"
