"""python evaluate.py: score a checkpoint again. So far of agents: reward over any number of starts, and a video."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from concrete_dropout.cli.paths import shortest
from concrete_dropout.cli.typecheck import closest
from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import RunFolder

HELP = """Score a saved policy again.

USAGE
  python evaluate.py ckpt=RUN/checkpoints/last.ckpt [key=value ...]

KEYS
  ckpt=PATH       a checkpoint of an agent, as python train.py experiment=cartpole leaves it
  starts=200      episodes in the true world, from so many starts
  seed=1000       of these starts
  video=true      false: no video
  out=null        folder for evaluation.json and policy.gif; null: evaluation/ in the run's folder

EXAMPLE
  python evaluate.py ckpt=outputs/cartpole/TIME/checkpoints/last.ckpt starts=1000
"""
USER_ERROR = 2


@dataclass(frozen=True)
class Request:
    """What evaluate.py was asked for; the attributes are the keys of ``HELP``."""

    ckpt: Path
    starts: int = 200
    seed: int = 1000
    video: bool = True
    out: Path | None = None


def evaluate_command(arguments: Sequence[str]) -> int:
    """Evaluate as the command line says; returns the exit code. A mistake is one message on stderr."""
    if not arguments or {"--help", "-h"} & set(arguments):
        print(HELP, end="")
        return 0
    try:
        request = parse(arguments)
        # torch takes seconds to import: not for --help
        from concrete_dropout.cli.agent_evaluation import evaluate_agent

        result = evaluate_agent(request.ckpt, request.starts, request.seed, request.video)
        print_result(result.numbers, save(request, result.numbers, result.video))
    except UserError as error:
        print(f"\nError: {error}", file=sys.stderr)
        return USER_ERROR
    return 0


def parse(arguments: Sequence[str]) -> Request:
    """Sort key=value arguments.

    >>> parse(["ckpt=a.ckpt", "starts=5"])
    Request(ckpt=PosixPath('a.ckpt'), starts=5, seed=1000, video=True, out=None)

    Raises:
        UserError: an unknown key, a wrong value, or no checkpoint.
    """
    given: dict[str, Any] = {}
    known = list(Request.__dataclass_fields__)
    for argument in arguments:
        key, sign, value = argument.partition("=")
        if not sign:
            raise UserError(f"{argument!r} is not understood: settings are written key=value, as in starts=100")
        if key not in known:
            raise UserError(f"{key} is unknown. {closest(key, known)}")
        given[key] = _value(key, value.strip("'\""))
    if "ckpt" not in given:
        raise UserError("ckpt=... is missing: name a checkpoint, as in ckpt=RUN/checkpoints/last.ckpt")
    return Request(**given)


def save(request: Request, numbers: dict[str, Any], video: bytes) -> dict[str, Path]:
    """Write the files; their paths by name."""
    folder = request.out or request.ckpt.absolute().parent.parent / "evaluation"
    files = RunFolder(folder)
    paths = {"numbers": files.write_json("evaluation.json", numbers)}
    if video:
        paths["video"] = files.write_bytes("policy.gif", video)
    return paths


def print_result(numbers: dict[str, Any], paths: dict[str, Path]) -> None:
    """One line about the reward, where the files are, and all numbers as JSON."""
    print(
        f"true reward {numbers['reward']:.2f} ± {numbers['reward_std']:.2f} over {numbers['starts']} starts "
        f"(from {numbers['reward_min']:.2f} to {numbers['reward_max']:.2f}), the agent of episode {numbers['episode']}"
    )
    for name, path in paths.items():
        print(f"{name:<12} {shortest(path)}")
    print(json.dumps(numbers))


def _value(key: str, text: str) -> Any:
    if key in ("starts", "seed"):
        least = 2 if key == "starts" else 0
        if not text.isdecimal() or int(text) < least:
            raise UserError(f"{key}={text} must be an integer of at least {least}")
        return int(text)
    if key == "video":
        if text.lower() not in ("true", "false"):
            raise UserError(f"video={text} must be true | false")
        return text.lower() == "true"
    return None if key == "out" and text == "null" else Path(text)
