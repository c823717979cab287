"""Configs as Hydra gives them to a job, without a job; as plain containers; and what differs between two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from concrete_dropout.errors import UserError

CONFIG_NAME = "train"
NO_RUN_DIR = "RUN_DIR"  # stands for the folder of a run that is only looked at


def compose_config(overrides: Sequence[str], conf_dir: Path, run_dir: Path | str = NO_RUN_DIR) -> DictConfig:
    """The config of a command, as Hydra would give it to a job in ``run_dir``.

    Interpolations stay, so that a changed ``seed`` changes what follows it; those of Hydra's own values are resolved.
    """
    with hydra_as_before():
        return detached(compose_with_hydra(overrides, conf_dir, run_dir))


def compose_with_hydra(overrides: Sequence[str], conf_dir: Path, run_dir: Path | str = NO_RUN_DIR) -> DictConfig:
    """The same with Hydra's own settings under ``hydra``, to which ``${hydra:...}`` refers from then on."""
    try:
        with initialize_config_dir(str(conf_dir.absolute()), version_base="1.3"):
            cfg = compose(CONFIG_NAME, list(overrides), return_hydra_config=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(f"the config cannot be composed: {first_lines(error)}") from error
    with open_dict(cfg):
        cfg.hydra.runtime.output_dir = str(run_dir)
        cfg.hydra.job.num, cfg.hydra.job.id = 0, "0"
    HydraConfig.instance().set_config(cfg)
    return cfg


def detached(cfg: DictConfig) -> DictConfig:
    """What ``compose_with_hydra`` gave, without Hydra's own settings, and with their values where they are used."""
    _resolve_hydra(cfg)
    with open_dict(cfg):
        del cfg["hydra"]
    return cfg


@contextmanager
def hydra_as_before() -> Iterator[None]:
    """A job that looks at other configs keeps its own ``${hydra:...}``."""
    settings, engine = HydraConfig.instance(), GlobalHydra.instance()
    before = settings.cfg, engine.hydra
    engine.clear()
    try:
        yield
    finally:
        settings.cfg, engine.hydra = before


def plain(cfg: DictConfig) -> dict[str, Any]:
    """The resolved config as plain containers: what is saved, and what checkpoints and reports may hold."""
    try:
        container = OmegaConf.to_container(cfg, resolve=True)
    except OmegaConfBaseException as error:
        raise UserError(f"the config cannot be resolved: {first_lines(error)}") from error
    assert isinstance(container, dict)
    return {str(key): value for key, value in container.items()}


def config_diff(defaults: Any, value: Any, key: str = "") -> list[dict[str, Any]]:
    """Where a config differs from the defaults, as {"key", "default", "value"}.

    >>> config_diff({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}})
    [{'key': 'a.c', 'default': 2, 'value': 3}]
    """
    if isinstance(defaults, dict) and isinstance(value, dict):
        names = [*defaults, *(name for name in value if name not in defaults)]
        return [
            change
            for name in names
            for change in config_diff(defaults.get(name), value.get(name), f"{key}.{name}" if key else str(name))
        ]
    return [] if defaults == value else [{"key": key, "default": defaults, "value": value}]


def first_lines(error: BaseException) -> str:
    """What an error of Hydra or OmegaConf says, without the lines that only their developers can use."""
    cause = error.__cause__ or error
    lines = [line.strip() for line in (str(cause) or type(cause).__name__).splitlines()]
    return " ".join(line for line in lines[:2] if line)


def _resolve_hydra(node: DictConfig) -> None:
    for key in list(node):  # not as text: a key may be a number
        value = node._get_node(key)
        if isinstance(value, DictConfig) and not value._is_none() and key != "hydra":
            _resolve_hydra(value)
        elif OmegaConf.is_interpolation(node, key) and "${hydra:" in str(value):
            node[key] = node[key]
