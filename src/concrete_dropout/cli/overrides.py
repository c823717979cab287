"""Settings as Hydra's grammar has them: written, read, and taken literally where they are paths. No torch here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

NO_TEXT = ("null", "true", "false", "nan", "inf")  # what Hydra takes for something else
READ = ("ckpt_path", "data_dir", "root", "path", "test_path")  # last parts of keys that name what is there
WRITTEN = ("hydra.run.dir", "hydra.sweep.dir", "paths.output_dir", "data.cache_dir")  # and keys that name what will be


def override(key: str, value: Any) -> str:
    """A setting in Hydra's own grammar.

    >>> override("model.hidden", [64, 64]), override("data.path", "my file.csv"), override("optim.p_lr", None)
    ('model.hidden=[64,64]', "data.path='my file.csv'", 'optim.p_lr=null')
    """
    return f"{key}={_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_value(str(key))}:{_value(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_value, value)) + "]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if not isinstance(value, str):
        return repr(value)
    if re.fullmatch(r"[A-Za-z_/][\w./-]*", value) and value.lower() not in NO_TEXT:
        return value
    # Backslashes count as such only in front of a quote, and at the end.
    quoted = re.sub(r"(\\*)('|\Z)", lambda match: 2 * match[1] + ("\\'" if match[2] else ""), value)
    return f"'{quoted}'"


def text_of(argument: str) -> str:
    """The value of ``key=value`` as text, without Hydra's quotes and escapes; as it stands where that is no grammar.

    >>> text_of(override("ckpt_path", "it's mine.ckpt")), text_of("data.path=it's mine.csv")
    ("it's mine.ckpt", "it's mine.csv")
    """
    is_single, value = _read(argument)
    return value if is_single and isinstance(value, str) else argument.partition("=")[2]


def with_literal_paths(arguments: Sequence[str]) -> list[str]:
    """The arguments, with paths quoted where Hydra would take a comma, a bracket or a quote in them for its grammar.

    A path that is read is taken literally where there is such a file or folder; one that is written, always.
    """
    return [_literal(argument) for argument in arguments]


def _literal(argument: str) -> str:
    key, sign, raw = argument.partition("=")
    bare = key.lstrip("+")
    written = bare in WRITTEN
    if not sign or not raw or "${" in raw or not (written or bare.rpartition(".")[2] in READ):
        return argument
    if _read(argument)[0] or raw[0] in "'\"" or not (written or _exists(raw)):
        return argument
    return override(key, raw)


def _exists(path: str) -> bool:
    try:
        return Path(path).expanduser().exists()
    except (OSError, ValueError):  # too long, or with a zero byte: no path
        return False


def _read(argument: str) -> tuple[bool, Any]:
    """Whether Hydra reads a single value (text, a number, null), and which; no sweep, list, or nothing at all."""
    try:
        parsed = OverridesParser.create().parse_override(argument)
    except HydraException:
        return False, None
    value = None if parsed.is_sweep_override() else parsed.value()
    return not parsed.is_sweep_override() and not isinstance(value, (list, dict)), value
