"""What python evaluate.py is asked for: its keys, their values, and the help text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from concrete_dropout.cli.paths import unquoted
from concrete_dropout.cli.typecheck import closest
from concrete_dropout.errors import UserError

HELP = """Score a checkpoint again: other numbers of samples, masks, splits, shifted data; or a saved agent.

USAGE
  python evaluate.py ckpt=RUN/checkpoints/last.ckpt [key=value ...]

EXAMPLES
  python evaluate.py ckpt=outputs/mnist/TIME
  python evaluate.py ckpt=RUN/checkpoints/last.ckpt mc_samples=0,10,50,200 mask=concrete,bernoulli split=val,test
  python evaluate.py ckpt=RUN mc_samples=0,10,100 repeats=3          # with the Monte Carlo error of each number
  python evaluate.py ckpt=RUN temperature_scaling=true               # fitted on validation, reported on test data
  python evaluate.py ckpt=RUN corruptions=true                       # six corruptions in five severities
  python evaluate.py ckpt=RUN corruptions=blur,rotation ood=noise,inverted,digits
  python evaluate.py ckpt=RUN_A,RUN_B,RUN_C                          # several runs in one table
  python evaluate.py ckpt=RUN_A,RUN_B,RUN_C ensemble=true            # as one deep ensemble
  python evaluate.py ckpt=outputs/cartpole/TIME/checkpoints/last.ckpt starts=1000

KEYS
  ckpt=PATH,...             checkpoints, or run folders for their checkpoints/last.ckpt
  mc_samples=0,N            numbers of stochastic passes; 0: one pass without dropout. By default 0 and the run's own
  mask=concrete             concrete, bernoulli or both: masks of Concrete layers. By default the run's own
  split=test                val, test or both
  repeats=1                 evaluate with so many seeds of the masks, for the Monte Carlo error
  seed=null                 of masks and corruptions; null for the run's own, with which its own test is repeated
  replica=all               of a run of replicas: all, or numbers as in 0,3
  ensemble=false            true: all checkpoints (or replicas) as members of one ensemble, which share the samples
  temperature_scaling=false true: fit one temperature (regression: one scale of stds) on validation data
  corruptions=false         true, or names: gaussian_noise, blur, brightness, contrast, pixelate, rotation;
                            of tables feature_noise, shift, missing
  severities=1,2,3,4,5      of the corruptions
  ood=null                  data to be told from the run's: noise, inverted, rotated, or data sets as in digits,camvid,
                            of which at most as many items are taken as the run's own split has
  ood.KEY=VALUE             a setting of these data sets, as in ood=image_folder ood.root=my_pictures
  shift_samples=null        passes on shifted data, one of mc_samples; null for the largest
  data.KEY=VALUE            another setting of the run's data, as in data.data_dir=... or data.eval_batch_size=100
  device=auto               auto, cpu or cuda
  threads=null              of torch on the CPU; null for the run's own
  trust=MODULE,...          modules of your own that a checkpoint's config may name, as in trust=my_package; those that
                            conf/ names need none
  out=null                  folder of the results; null: evaluations/TIME in the (first) run's folder.
                            A folder of an earlier evaluation is taken up: what is finished is kept

KEYS FOR AGENTS
  starts=200                episodes in the true world, from so many starts
  seed=1000                 of these starts
  trust=MODULE,...          as above
  video=true                false: no video
  out=null                  folder for evaluation.json and policy.gif; null: evaluation/ in the run's folder

OPTIONS
  --help                    this text
  --traceback               show where an error came from (as HYDRA_FULL_ERROR=1 does)

WHAT IT LEAVES
  results.csv, results.json, and evaluation.html with figures, written as they come. Shifted data are told from clean
  ones by epistemic uncertainty, by the whole uncertainty and by 1 - largest probability: AUROC, AUPR and FPR95.
  Exit codes: 0 done, 1 failed, 2 refused, 130 Ctrl-C, 143 SIGTERM; the same command with out=FOLDER goes on.
"""
PARTS, MASKS, DEVICES = ("val", "test"), ("concrete", "bernoulli"), ("auto", "cpu", "cuda")
PREFIXES = ("data.", "ood.")
FOR_AGENTS = {"ckpt", "starts", "video", "seed", "trust", "out"}


@dataclass(frozen=True)
class Request:
    """What evaluate.py was asked for; the attributes are the keys of ``HELP``, None where it is up to the run.

    Attributes:
        given: the keys that were on the command line.
        data: data.KEY -> text.
        ood_data: ood.KEY -> text.
    """

    ckpt: tuple[Path, ...]
    mc_samples: tuple[int, ...] | None = None
    mask: tuple[str, ...] | None = None
    split: tuple[str, ...] | None = None
    repeats: int = 1
    seed: int | None = None
    replica: tuple[int, ...] | None = None
    ensemble: bool = False
    temperature_scaling: bool = False
    corruptions: tuple[str, ...] | bool = False
    severities: tuple[int, ...] = (1, 2, 3, 4, 5)
    ood: tuple[str, ...] = ()
    shift_samples: int | None = None
    device: str = "auto"
    threads: int | None = None
    trust: tuple[str, ...] = ()
    out: Path | None = None
    starts: int = 200
    video: bool = True
    given: frozenset[str] = frozenset()
    data: dict[str, str] = field(default_factory=dict)
    ood_data: dict[str, str] = field(default_factory=dict)


def parse(arguments: Sequence[str]) -> Request:
    """Sort key=value arguments.

    >>> request = parse(["ckpt=a.ckpt", "mc_samples=50,0,10", "mask=bernoulli", "data.root=here"])
    >>> request.ckpt, request.mc_samples, request.mask, request.data
    ((PosixPath('a.ckpt'),), (0, 10, 50), ('bernoulli',), {'data.root': 'here'})

    Raises:
        UserError: an unknown key, a wrong value, or no checkpoint.
    """
    values: dict[str, Any] = {}
    settings: dict[str, dict[str, str]] = {prefix: {} for prefix in PREFIXES}
    for argument in arguments:
        key, sign, text = argument.partition("=")
        text = unquoted(text)
        if not sign:
            option = " The options are --help and --traceback" if argument.startswith("-") else ""
            raise UserError(
                f"{argument!r} is not understood: settings are written key=value, as in mc_samples=0,10,50.{option}"
            )
        prefix = next((p for p in PREFIXES if key.startswith(p) and len(key) > len(p)), None)
        if prefix is not None:
            settings[prefix][key] = text
        elif key in READERS:
            values[key] = READERS[key](key, text)
        else:
            raise UserError(f"{key} is unknown. {closest(key, [*READERS, 'data.KEY', 'ood.KEY'])}")
    if "ckpt" not in values:
        raise UserError("ckpt=... is missing: name a checkpoint, as in ckpt=RUN/checkpoints/last.ckpt")
    given = frozenset([*values, *(p.rstrip(".") + ".KEY" for p in PREFIXES if settings[p])])
    return Request(**values, given=given, data=settings["data."], ood_data=settings["ood."])


def for_agents(request: Request) -> None:
    """Refuse keys that say nothing about an agent."""
    extra = sorted(request.given - FOR_AGENTS)
    if extra:
        raise UserError(
            f"{extra[0]} is not for agents, and {request.ckpt[0]} is the checkpoint of one. There is: "
            f"{', '.join(sorted(FOR_AGENTS))}"
        )


def for_networks(request: Request) -> None:
    """Refuse keys that say nothing about a network."""
    extra = sorted(request.given & {"starts", "video"})
    if extra:
        raise UserError(
            f"{extra[0]} is for agents, and {request.ckpt[0]} is the checkpoint of a network: see python evaluate.py "
            "--help"
        )


def _words(key: str, text: str) -> list[str]:
    words = [word.strip().strip("'\"") for word in text.strip("[]").split(",")]
    if not all(words):
        raise UserError(f"{key}={text} has no value: write {key}=..., several with commas between them")
    return list(dict.fromkeys(words))


def _integer(least: int, most: int | None = None) -> Callable[[str, str], int]:
    def read(key: str, text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= (int(text) if most is None else most):
            wanted = f"an integer of at least {least}" if most is None else f"an integer from {least} to {most}"
            raise UserError(f"{key}={text} must be {wanted}")
        return int(text)

    return read


def _integers(least: int, most: int | None = None) -> Callable[[str, str], tuple[int, ...]]:
    read = _integer(least, most)
    return lambda key, text: tuple(sorted({read(key, word) for word in _words(key, text)}))


def _choices(options: Sequence[str]) -> Callable[[str, str], tuple[str, ...]]:
    def read(key: str, text: str) -> tuple[str, ...]:
        for word in _words(key, text):
            if word not in options:
                raise UserError(f"{key}={word} must be {' | '.join(options)}. {closest(word, options)}")
        return tuple(_words(key, text))

    return read


def _boolean(key: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UserError(f"{key}={text} must be true | false")
    return text.lower() == "true"


def _paths(key: str, text: str) -> tuple[Path, ...]:
    whole = Path(text)
    return (whole,) if text and whole.exists() else tuple(Path(word) for word in _words(key, text))


def _corruptions(key: str, text: str) -> tuple[str, ...] | bool:
    return text.lower() == "true" if text.lower() in ("true", "false", "null") else tuple(_words(key, text))


def _or_null(read: Callable[[str, str], Any], null: str = "null", empty: Any = None) -> Callable[[str, str], Any]:
    return lambda key, text: empty if text == null else read(key, text)


READERS: dict[str, Callable[[str, str], Any]] = {
    "ckpt": _paths,
    "mc_samples": _integers(0),
    "mask": _choices(MASKS),
    "split": _choices(PARTS),
    "repeats": _integer(1),
    "seed": _or_null(_integer(0)),
    "replica": _or_null(_integers(0), null="all"),
    "ensemble": _boolean,
    "temperature_scaling": _boolean,
    "corruptions": _corruptions,
    "severities": _integers(1, 5),
    "ood": _or_null(lambda key, text: tuple(_words(key, text)), empty=()),
    "shift_samples": _or_null(_integer(0)),
    "device": lambda key, text: _choices(DEVICES)(key, text)[0],
    "threads": _or_null(_integer(1)),
    "trust": lambda key, text: tuple(_words(key, text)),
    "out": _or_null(lambda key, text: Path(text)),
    "starts": _integer(2),
    "video": _boolean,
}
