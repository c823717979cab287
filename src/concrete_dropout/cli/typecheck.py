"""Types of a config, taken from the signatures of what it builds: nothing is declared twice."""

from __future__ import annotations

import difflib
import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from concrete_dropout.errors import UserError

TOP_LEVEL: dict[str, Any] = {
    "name": str,
    "seed": int,
    "threads": int | None,
    "train": bool,
    "test": bool,
    "test_ckpt": Literal["last", "best"],
    "ckpt_path": str | None,
    "resume": bool,
    "objective": str,
    "study": Mapping[str, Any] | None,
}
NUMBERS: dict[type, tuple[type, ...]] = {float: (int, float), int: (int,), bool: (bool,), str: (str, Path)}


def check_top_level(config: Mapping[str, Any]) -> None:
    """Refuse values of the wrong type among the keys that belong to no group."""
    for key, annotation in TOP_LEVEL.items():
        if key in config:
            _check(key, config[key], annotation)


def check_node(path: str, node: Any, resolve: Callable[[str], Any]) -> None:
    """Refuse values of the wrong type, and keys that their target does not take.

    Args:
        path: the key of the node.
        node: plain containers; every mapping with a ``_target_`` is checked against that target's signature.
        resolve: a target's dotted name -> the class or function.

    Raises:
        UserError: names the key, its value, and what it may be.
    """
    if isinstance(node, Mapping):
        target = node.get("_target_")
        if isinstance(target, str):
            _check_call(path, node, target, resolve)
        for key, value in node.items():
            check_node(f"{path}.{key}", value, resolve)
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for index, value in enumerate(node):
            check_node(f"{path}.{index}", value, resolve)


def describe(annotation: Any) -> str:
    """An annotation in words.

    >>> describe(float | None), describe(Literal["linear", "cosine"]), describe(Sequence[int])
    ('a number or null', 'linear | cosine', 'a list of integers')
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        # "a number or a list ..." in the order of the code, null last
        words = [describe(option) for option in arguments if option is not type(None)]
        return " or ".join(dict.fromkeys([*words, *(["null"] if type(None) in arguments else [])]))
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin is not None and issubclass(origin, Mapping):
        return "a mapping"
    if origin is not None and issubclass(origin, Iterable):
        plural = {"an integer": "integers", "a number": "numbers", "text": "texts"}
        return f"a list of {plural.get(describe(arguments[0]), 'values')}" if arguments else "a list"
    simple = {int: "an integer", float: "a number", bool: "true | false", str: "text", Path: "a path"}
    return simple.get(annotation, getattr(annotation, "__name__", str(annotation)))


def closest(word: str, choices: Iterable[str]) -> str:
    """The choices as a sentence, with the one that was probably meant in front."""
    choices = sorted(choices)
    near = difflib.get_close_matches(word, choices, n=1)
    meant = f"Did you mean {near[0]!r}? " if near else ""
    return f"{meant}There is: {', '.join(choices) or 'nothing'}"


def _check_call(path: str, node: Mapping[str, Any], target: str, resolve: Callable[[str], Any]) -> None:
    try:
        parameters = parameters_of(resolve(target))
    except Exception as error:  # importing may fail in any way
        raise UserError(f"{path}._target_={target} cannot be imported: {error}") from error
    if parameters is None:
        return
    for key, value in node.items():
        if key.startswith("_") and key.endswith("_"):
            continue
        if key not in parameters:
            raise UserError(f"{path}.{key} is no setting of {target.rpartition('.')[2]}. {closest(key, parameters)}")
        _check(f"{path}.{key}", value, parameters[key])


@cache
def parameters_of(target: Any) -> dict[str, Any] | None:
    """{parameter: annotation} of a class or function, those behind ``**kwargs`` of base classes included.

    None where any keyword is taken.
    """
    if not inspect.isclass(target):
        found, takes_any = _signature(target)
        return None if takes_any else found
    parameters: dict[str, Any] = {}
    for base in target.__mro__:
        own = vars(base).get("__init__")
        if own is None:
            continue
        found, passes_on = _signature(own)
        parameters = {**found, **parameters}
        if not passes_on:
            return parameters
    return None


def _signature(function: Callable[..., Any]) -> tuple[dict[str, Any], bool]:
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError):  # names that exist for type checkers only
        hints = {}
    keywords, passes_on = {}, False
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            passes_on = True
        elif name != "self" and parameter.kind is not inspect.Parameter.VAR_POSITIONAL:
            keywords[name] = hints.get(name, Any)
    return keywords, passes_on


def _check(key: str, value: Any, annotation: Any) -> None:
    if isinstance(value, str) and value.strip() == "???":
        raise UserError(f"{key} has no value yet: give it one, as in {key}=...")
    if not fits(value, annotation):
        wanted = describe(annotation)
        example = f", as in {key}=[{value}]" if fits([value], annotation) else ""
        raise UserError(f"{key}={value!r} must be {wanted}{example}")


def fits(value: Any, annotation: Any) -> bool:
    """Whether a plain config value can be passed for an annotation; what we cannot judge, fits."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Any or isinstance(annotation, TypeVar):
        return True
    if annotation is None or annotation is type(None):
        return value is None
    if origin in (Union, types.UnionType):
        return any(fits(value, option) for option in arguments)
    if origin is Literal:
        return value in arguments
    if annotation in NUMBERS:
        return isinstance(value, NUMBERS[annotation]) and (annotation is bool or not isinstance(value, bool))
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return isinstance(value, Mapping)
    if inspect.isclass(origin) and issubclass(origin, Iterable):
        if isinstance(value, str) or not isinstance(value, Sequence):
            return False
        return all(fits(entry, arguments[0]) for entry in value) if arguments else True
    if annotation is Path:
        return isinstance(value, (str, Path))
    return value is None or isinstance(value, (Mapping, str)) or not inspect.isclass(annotation)
