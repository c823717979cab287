"""Keys and passwords that were put where they do not belong: refused before anything of them is written or printed."""

from __future__ import annotations

import netrc
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from concrete_dropout.errors import UserError

NAMES = re.compile(r"(?:^|[_.-])(?:api_?key|access_?key|secret_?key|private_?key|token|secret|passw(?:or)?d)$", re.I)
VARIABLES = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.I)
IN_ADDRESS = re.compile(r"\w+://[^/\s:@]*:[^/\s@]+@")  # scheme://user:password@host
WANDB_KEY = re.compile(r"(?:local-)?[0-9a-f]{40}|wandb_v1_\w{20,}")
SHORTEST = 8  # characters of a variable's value that is worth looking for
INSTEAD = (
    "Settings are written to the run's folder, its checkpoints and reports, so that keys have no place there. Set the "
    "environment variable WANDB_API_KEY instead, or run `wandb login`, and make a new key where this one was seen"
)


def refuse_secrets(arguments: Iterable[str]) -> None:
    """Refuse a command line with a key or password in it.

    Raises:
        UserError: names where it is, without repeating it.
    """
    known = known_secrets()
    for argument in arguments:
        key, sign, value = argument.partition("=")
        if not sign and _is_secret("", argument, known):
            raise UserError(f"an argument of the command looks like a key or password. {INSTEAD}")
        if sign and _is_secret(key, value.strip("'\""), known):
            raise _refusal(key, known)


def refuse_secrets_in(config: Any, path: str = "") -> None:
    """The same for a resolved config, into which interpolations may have brought something."""
    _refuse_in(config, path, known_secrets())


def known_secrets() -> frozenset[str]:
    """Values of the environment and of the netrc file that nobody should read in files."""
    found = {value for name, value in os.environ.items() if VARIABLES.search(name)}
    file = Path(os.environ.get("NETRC") or Path.home() / ".netrc")
    with suppress(netrc.NetrcParseError, OSError):  # there is none, or nobody can read it
        found |= {entry[2] for entry in netrc.netrc(str(file)).hosts.values() if entry[2]}
    return frozenset(value for value in found if len(value) >= SHORTEST and not Path(value).is_absolute())


def _refuse_in(node: Any, path: str, known: frozenset[str]) -> None:
    if isinstance(node, Mapping):
        for key, value in node.items():
            _refuse_in(value, f"{path}.{key}" if path else str(key), known)
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for index, value in enumerate(node):
            _refuse_in(value, f"{path}.{index}", known)
    elif isinstance(node, str) and _is_secret(path, node, known):
        raise _refusal(path, known)


def _is_secret(key: str, value: str, known: frozenset[str]) -> bool:
    if not value or value.lower() in ("null", "true", "false", "none", "???"):
        return False
    of_logger = key.lstrip("+").startswith("logger") and WANDB_KEY.fullmatch(value) is not None
    named = NAMES.search(key) is not None and not value.replace(".", "").isdecimal()
    return named or of_logger or IN_ADDRESS.search(value) is not None or any(secret in value for secret in known)


def _refusal(key: str, known: frozenset[str]) -> UserError:
    name = "a setting" if any(secret in key for secret in known) else key
    return UserError(f"{name} looks like a key or password, which is not repeated here. {INSTEAD}")
