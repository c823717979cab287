"""The config in a checkpoint, as far as this version of the project understands it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from concrete_dropout.cli.typecheck import check_node
from concrete_dropout.errors import UserError

VERSION_KEY = "concrete_dropout_version"
BUILT = ("data", "model", "task", "dropout", "optim")
PACKAGE = "concrete-dropout-lightning"
# What code raises that is given settings which it does not know, or misses some.
MISSING_OR_UNKNOWN = (KeyError, TypeError, AssertionError, OmegaConfBaseException, InstantiationException)


def own_version() -> str:
    """Of this project; "unknown" where it runs from its files, without having been installed."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return "unknown"


def saved_config(path: Path, saved: Mapping[str, Any], config: Mapping[str, Any]) -> DictConfig:
    """The config of the run that wrote a checkpoint, checked against the code that shall build from it.

    Args:
        path: of the checkpoint.
        saved: its content.
        config: the one in it, which names no code that is not to be trusted: see ``trusted_config``.

    Raises:
        UserError: another version wrote it, and this one does not know a setting, or misses one.
    """
    with of_this_version(path, saved, (UserError,)):
        for key in BUILT:
            check_node(key, config[key], get_object)
        cfg = OmegaConf.create(dict(config))
        assert isinstance(cfg, DictConfig)
        return cfg


@contextmanager
def of_this_version(path: Path, saved: Mapping[str, Any], refusals: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """What goes wrong with the settings of a checkpoint in here is told with the version that wrote it.

    Args:
        path: of the checkpoint.
        saved: its content.
        refusals: errors that are of this kind too, beside those of missing and unknown settings.
    """
    try:
        yield
    except Exception as error:
        if not isinstance(error, (*MISSING_OR_UNKNOWN, *refusals)):
            raise
        known = saved.get(VERSION_KEY)
        wrote = f"version {known}" if known else "an earlier version, which did not say which"
        kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
        said = f"{kind}{str(error).strip()}".splitlines()[0].rstrip(".")
        raise UserError(
            f"ckpt={path} has settings that this version ({own_version()}) cannot use: {said}. It was written by "
            f"{wrote}: use that one, or train again"
        ) from error
