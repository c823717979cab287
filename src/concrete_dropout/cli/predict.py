"""python predict.py: what it understands, and how it ends. torch is imported when all is understood."""

from __future__ import annotations

import math
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from concrete_dropout.cli.paths import unquoted
from concrete_dropout.cli.secret import refuse_secrets
from concrete_dropout.cli.stopped import by_what
from concrete_dropout.cli.trust import Trust
from concrete_dropout.cli.typecheck import closest
from concrete_dropout.errors import UserError, as_user_error
from concrete_dropout.memory import is_out_of_memory
from concrete_dropout.signals import Terminated, terminable

HELP = """Apply a trained network to your own files.

USAGE
  python predict.py ckpt=RUN/checkpoints/best.ckpt input=FILES [key=value ...]
  python predict.py ckpt=RUN/checkpoints/best.ckpt --deploy

WHAT COMES OUT
  regression      a CSV file -> the same with mean, epistemic, aleatoric and predictive standard deviation and an
                  interval for every target, in original units
  classification  pictures -> predictions.csv: class, confidence, probabilities, predictive entropy, mutual
                  information (epistemic), expected entropy (aleatoric), in nats
  segmentation    pictures of any size -> for each: class mask (PNG with palette), overlay, epistemic and aleatoric
                  maps (PNG over the picture, and .npy in nats), all of the picture's size; predictions.csv

KEYS
  ckpt=PATH         a checkpoint of python train.py; a run's folder stands for its last one
  input=PATH        a file, a folder (with all below it), or a pattern in quotes: input='photos/*.jpg'
  output=null       folder for the results; null: predictions/TIME in the run's folder. Naming the folder of a run
                    that was stopped goes on with it: finished files are left alone
  mc_samples=null   stochastic passes; 0: one without dropout; null: as many as the run's own test
  mask=null         concrete | bernoulli: masks of layers with learned p; null: as the run's own test
  seed=0            of the masks
  device=auto       auto | cpu | cuda | cuda:1
  strict=false      true: end with the first file that is refused, instead of going on with the others
  interval=0.95     regression: share of the predictive distribution between the columns lower and upper (central
                    interval of the mixture of all passes, not of a Gaussian with its variance)
  missing=null      regression, rows that miss a value: error | skip (empty predictions) | mean (of the training data);
                    null: mean where the run was trained so, else error
  unknown=error     regression, categories that training did not have: error | zeros (none of the known ones)
  raw=true          segmentation: false writes no .npy files
  max_size=null     segmentation: pixels of the longer side that the network sees at the most; larger pictures are
                    predicted at a lower resolution, and their maps enlarged
  memory=null       segmentation: GB that a pass may take; null: most of what is free
  trust=MODULE,...  modules of your own that the checkpoint's config may name; those that conf/ names need none

OPTIONS
  --deploy          write the network for use without this package, with dropout left active: torch.export, and ONNX
                    where pip install '.[deploy]' was run; into deploy/ in the run's folder, or output=...
  --traceback       show where an error comes from; so does the environment variable HYDRA_FULL_ERROR=1
  --help            this text

EXAMPLES
  python predict.py ckpt=outputs/csv/TIME input=new.csv interval=0.9
  python predict.py ckpt=outputs/camvid/TIME/checkpoints/best.ckpt input=photos mc_samples=20 output=maps
  python predict.py ckpt=outputs/image_folder/TIME input='inbox/**/*.jpg' mc_samples=0
  python predict.py ckpt=outputs/mnist/TIME --deploy

EXIT CODES
  0 all files are done | 1 some files were refused, or writing failed | 2 the command was refused
  130 stopped by Ctrl-C | 143 by SIGTERM
"""
FAILED, USER_ERROR, INTERRUPTED = 1, 2, 130
MASKS, MISSING, UNKNOWN = ("concrete", "bernoulli"), ("error", "skip", "mean"), ("error", "zeros")


@dataclass(frozen=True)
class Request:
    """What predict.py was asked for; the attributes are the keys of ``HELP``."""

    ckpt: Path
    input: str | None = None
    output: Path | None = None
    mc_samples: int | None = None
    mask: str | None = None
    seed: int = 0
    device: str = "auto"
    strict: bool = False
    interval: float = 0.95
    missing: str | None = None
    unknown: str = "error"
    raw: bool = True
    max_size: int | None = None
    memory: float | None = None
    trust: tuple[str, ...] = ()
    deploy: bool = False


def predict_command(arguments: Sequence[str], conf_dir: Path | None = None) -> int:
    """Predict as the command line says; returns the exit code. A mistake is one message on stderr."""
    if not arguments or {"--help", "-h"} & set(arguments):
        print(HELP, end="")
        return 0
    shows_traceback = "--traceback" in arguments or os.environ.get("HYDRA_FULL_ERROR") == "1"
    try:
        refuse_secrets(arguments)
        request = parse([argument for argument in arguments if argument != "--traceback"])
        # torch takes seconds to import: not for --help and misspelled keys
        from concrete_dropout.cli.predict_run import deploy, predict

        with terminable():
            return (deploy if request.deploy else predict)(request, Trust(request.trust, conf_dir))
    except UserError as error:
        if shows_traceback:
            traceback.print_exc()
        print(f"\nError: {error}", file=sys.stderr)
        return USER_ERROR
    except OSError as error:
        if shows_traceback:
            traceback.print_exc()
        print(f"\nError: {as_user_error(error) or error} What is finished is kept", file=sys.stderr)
        return FAILED
    except (MemoryError, RuntimeError) as error:
        if shows_traceback or not is_out_of_memory(error):
            raise
        way_out = "Take fewer mc_samples, smaller pictures or another device. What is finished is kept"
        print(f"\nError: there is not enough memory. {way_out}", file=sys.stderr)
        return FAILED
    except (KeyboardInterrupt, Terminated) as stop:
        print(f"\nStopped {by_what(stop)}. Nothing had begun: start again.", file=sys.stderr)
        return stop.exit_code if isinstance(stop, Terminated) else INTERRUPTED


def parse(arguments: Sequence[str]) -> Request:
    """Sort key=value arguments.

    >>> parse(["ckpt=a.ckpt", "input=b.csv", "mc_samples=5"]).mc_samples
    5

    Raises:
        UserError: an unknown key, a wrong value, or none where one is needed.
    """
    known = [field.name for field in fields(Request)]
    given: dict[str, Any] = {}
    for argument in arguments:
        key, sign, value = ("deploy", "=", "true") if argument == "--deploy" else argument.partition("=")
        if argument.startswith("--") and key != "deploy":
            raise UserError(f"{argument} is no option: there are --deploy, --traceback and --help")
        if not sign:
            raise UserError(f"{argument!r} is not understood: settings are written key=value, as in mc_samples=50")
        if key not in known:
            raise UserError(f"{key} is unknown. {closest(key, known)}")
        if key in given:
            raise UserError(f"{key} is given twice")
        given[key] = _value(key, unquoted(value))
    for key, example in (("ckpt", "RUN/checkpoints/best.ckpt"), ("input", "photos")):
        if not given.get(key) and not (key == "input" and given.get("deploy")):
            raise UserError(f"{key}=... is missing: name a file, as in {key}={example}")
    return Request(**given)


def _value(key: str, text: str) -> Any:
    if text == "null" and key in NULLABLE:
        return None
    return PARSERS[key](key, text)


def _integer(least: int) -> Callable[[str, str], int]:
    def parse_integer(key: str, text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise UserError(f"{key}={text} must be an integer of at least {least}")
        return int(text)

    return parse_integer


def _number(low: float, high: float, what: str) -> Callable[[str, str], float]:
    def parse_number(key: str, text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not low < number < high:
            raise UserError(f"{key}={text} must be {what}")
        return number

    return parse_number


def _choice(choices: Sequence[str]) -> Callable[[str, str], str]:
    def parse_choice(key: str, text: str) -> str:
        if text not in choices:
            raise UserError(f"{key}={text} must be {' | '.join(choices)}")
        return text

    return parse_choice


def _boolean(key: str, text: str) -> bool:
    return _choice(("true", "false"))(key, text.lower()) == "true"


def _device(key: str, text: str) -> str:
    kind, _, index = text.partition(":")
    if kind not in ("auto", "cpu", "cuda") or (index and not (kind == "cuda" and index.isdecimal())):
        raise UserError(f"{key}={text} must be auto | cpu | cuda | cuda:1")
    return text


def _text(key: str, text: str) -> str:
    if not text:
        raise UserError(f"{key}= has no value")
    return text


PARSERS: Mapping[str, Callable[[str, str], Any]] = {
    "ckpt": lambda key, text: Path(_text(key, text)).expanduser(),
    "input": _text,
    "output": lambda key, text: Path(_text(key, text)).expanduser(),
    "mc_samples": _integer(0),
    "mask": _choice(MASKS),
    "seed": _integer(0),
    "device": _device,
    "strict": _boolean,
    "interval": _number(0, 1, "a number between 0 and 1, such as 0.95"),
    "missing": _choice(MISSING),
    "unknown": _choice(UNKNOWN),
    "raw": _boolean,
    "max_size": _integer(1),
    "memory": _number(0, math.inf, "a number of GB above 0"),
    "trust": lambda key, text: tuple(_text(key, text).split(",")),
    "deploy": _boolean,
}
NULLABLE = ("output", "mc_samples", "mask", "missing", "max_size", "memory")
