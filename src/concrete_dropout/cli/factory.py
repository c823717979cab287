"""From a node of the config to what it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate

from concrete_dropout.errors import UserError


def factory(cfg: Mapping[str, Any], key: str) -> Callable[..., Any]:
    """What ``cfg[key]`` builds, waiting for the arguments that the config does not have.

    Settings refuse a value with a ValueError that names it; such a one is the user's to mend.
    """
    try:
        partial: Callable[..., Any] = instantiate(cfg[key], _partial_=True, _convert_="all")
    except InstantiationException as error:  # of settings inside of it, which are built at once
        if isinstance(error.__cause__, ValueError):
            raise UserError(str(error.__cause__)) from error
        raise

    def build(*args: Any, **kwargs: Any) -> Any:
        try:
            return partial(*args, **kwargs)
        except ValueError as error:
            raise UserError(str(error) if f"{key}." in str(error) else f"{_settings(cfg, key)}: {error}") from error

    return build


def _settings(cfg: Mapping[str, Any], key: str) -> str:
    """A node as one would type it, without what is not set."""
    node = {name: value for name, value in cfg[key].items() if not str(name).startswith("_") and value is not None}
    return " ".join(f"{key}.{name}={value}" for name, value in node.items()) or key
