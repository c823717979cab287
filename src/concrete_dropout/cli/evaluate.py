"""python evaluate.py: score checkpoints again, of networks or of an agent. See --help."""

from __future__ import annotations

import json
import os
import shlex
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from concrete_dropout.cli.evaluation_request import HELP, Request, for_agents, for_networks, parse
from concrete_dropout.cli.paths import shortest
from concrete_dropout.cli.secret import refuse_secrets
from concrete_dropout.cli.stopped import by_what
from concrete_dropout.cli.trust import Trust
from concrete_dropout.errors import UserError, as_user_error
from concrete_dropout.runfolder import RunFolder
from concrete_dropout.signals import Terminated, terminable

FAILED, USER_ERROR, INTERRUPTED = 1, 2, 130
TRACEBACK = "--traceback"
AGENT_SEED = 1000


def evaluate_command(arguments: Sequence[str], conf_dir: Path) -> int:
    """Evaluate as the command line says; returns the exit code. An error is one message on stderr."""
    if not arguments or {"--help", "-h"} & set(arguments):
        print(HELP, end="")
        return 0
    shows_traceback = TRACEBACK in arguments or os.environ.get("HYDRA_FULL_ERROR") == "1"
    try:
        refuse_secrets(arguments)
        with terminable():
            return _evaluate(parse([argument for argument in arguments if argument != TRACEBACK]), conf_dir)
    except UserError as error:
        return _failed(str(error), USER_ERROR, shows_traceback)
    except OSError as error:
        told = as_user_error(error) or error
        return _failed(f"{told} What is finished is kept", FAILED, shows_traceback)
    except (KeyboardInterrupt, Terminated) as stop:
        print(f"\nStopped {by_what(stop)}. Nothing had begun: start again.", file=sys.stderr)
        return stop.exit_code if isinstance(stop, Terminated) else INTERRUPTED
    except Exception as error:
        message = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}. {TRACEBACK} shows where it came from"
        return _failed(message, FAILED, shows_traceback)


def _evaluate(request: Request, conf_dir: Path) -> int:
    # torch takes seconds to import: not for --help and misspelled keys
    from concrete_dropout.cli.checkpoint_files import find_checkpoint
    from concrete_dropout.cli.evaluation_load import is_agent
    from concrete_dropout.cli.evaluation_run import EvaluationStopped, evaluate_networks

    kinds = [is_agent(find_checkpoint(path)) for path in request.ckpt]
    if any(kinds):
        if len(kinds) > 1:
            raise UserError("ckpt: an agent is evaluated by itself, name one checkpoint")
        for_agents(request)
        _evaluate_agent(request, Trust(request.trust, conf_dir))
        return 0
    for_networks(request)
    try:
        evaluate_networks(request, conf_dir)
    except EvaluationStopped as stopped:
        place = shlex.quote(f"out={shortest(stopped.folder)}")
        print(f"\nStopped. What is finished is kept: go on with the same command and {place}", file=sys.stderr)
        return stopped.exit_code
    return 0


def _evaluate_agent(request: Request, trust: Trust) -> None:
    from concrete_dropout.cli.agent_evaluation import evaluate_agent
    from concrete_dropout.cli.checkpoint_files import find_checkpoint

    path, seed = find_checkpoint(request.ckpt[0]), AGENT_SEED if request.seed is None else request.seed
    result = evaluate_agent(path, request.starts, seed, request.video, trust)
    files = RunFolder(request.out or path.absolute().parent.parent / "evaluation")
    paths = {"numbers": files.write_json("evaluation.json", result.numbers)}
    if result.video:
        paths["video"] = files.write_bytes("policy.gif", result.video)
    print_result(result.numbers, paths)


def print_result(numbers: dict[str, Any], paths: dict[str, Path]) -> None:
    """One line about an agent's reward, where the files are, and all numbers as JSON."""
    print(
        f"true reward {numbers['reward']:.2f} ± {numbers['reward_std']:.2f} over {numbers['starts']} starts "
        f"(from {numbers['reward_min']:.2f} to {numbers['reward_max']:.2f}), the agent of episode {numbers['episode']}"
    )
    for name, path in paths.items():
        print(f"{name:<12} {shortest(path)}")
    print(json.dumps(numbers))


def _failed(message: str, code: int, shows_traceback: bool) -> int:
    if shows_traceback:
        traceback.print_exc()
    print(f"\nError: {message}", file=sys.stderr)
    return code
