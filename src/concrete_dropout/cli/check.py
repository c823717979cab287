"""Checks a command before anything is built: groups, choices, keys, types and values, each refused by name."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override, ValueType
from hydra.errors import HydraException
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from concrete_dropout.cli.compose import compose_config, compose_with_hydra, detached, hydra_as_before, plain
from concrete_dropout.cli.factory import factory
from concrete_dropout.cli.secret import refuse_secrets_in
from concrete_dropout.cli.study_plan import covering, planned, point
from concrete_dropout.cli.typecheck import check_node, check_top_level, closest
from concrete_dropout.errors import UserError

SETTINGS = ("dropout", "optim", "data", "agent")  # cheap to build: their constructors check values and read no data
RAY = ("ray", "hydra_plugins.hydra_ray_launcher")
NOT_KEYS = {"_target_", "_partial_"}


def check_command(overrides: Sequence[str], conf_dir: Path, multirun: bool = False) -> None:
    """Refuse a command that cannot work; for a sweep, each of its values.

    What can be told from the YAML files alone comes first: torch and Lightning take seconds to import.

    Raises:
        UserError: names the key or group, and what there is.
    """
    with hydra_as_before():
        parsed = [_parse(text) for text in overrides]
        cfg = _check_names(parsed, conf_dir, multirun)
        if not all(_is_group(override, conf_dir) for override in parsed):
            cfg = compose_with_hydra(_job(parsed, conf_dir), conf_dir)
        _check_launcher(cfg)
        _check_place(Path(str(cfg.hydra.sweep.dir if multirun else cfg.hydra.run.dir)).absolute())
        sweeps = [override for override in parsed if override.is_sweep_override()]
        sweeps += _of_the_sweep_file(cfg, parsed) if multirun else []
        touched = {override.key_or_group.partition(".")[0] for override in [*parsed, *sweeps]}
        for variant in _variants(detached(cfg), _job(parsed, conf_dir), sweeps, conf_dir):
            for run, varied in _runs(variant, {override.key_or_group for override in parsed}):
                check_config(plain(run), touched | varied)


def check_config(config: dict[str, Any], touched: set[str] | None = None) -> None:
    """Refuse wrong types and values of a resolved config; what the user ``touched`` is looked at first."""
    refuse_secrets_in(config)
    check_top_level(config)
    for key in sorted(config, key=lambda name: name not in (touched or set())):
        check_node(key, config[key], get_object)
        if key in SETTINGS and _is_whole(config[key]):
            factory(config, key)()


def _is_whole(node: dict[str, Any]) -> bool:
    """Whether a node names something that it can build by itself."""
    return bool(node.get("_target_")) and not node.get("_partial_")


def _parse(text: str) -> Override:
    try:
        return OverridesParser.create().parse_override(text)
    except HydraException as error:
        key, _, value = text.partition("=")
        hint = f"; quote a value that has special characters: '{key}=\"{value}\"'" if value else ""
        raise UserError(
            f"{text!r} is not understood: settings are written key=value, as in dropout.init_p=0.2{hint}"
        ) from error


def _check_names(parsed: list[Override], conf_dir: Path, multirun: bool) -> DictConfig:
    """Groups, their choices and keys: all that can be told from the YAML files. Returns the config of the groups."""
    for override in parsed:
        _check_choice(override, conf_dir)
        if override.is_sweep_override() and not multirun:
            raise _one_value_too_many(override)
    cfg = compose_with_hydra(_job([o for o in parsed if _is_group(o, conf_dir)], conf_dir), conf_dir)
    for override in parsed:
        if not _is_group(override, conf_dir):
            _check_key(override, cfg, conf_dir)
            _check_grid(override, cfg)
    chosen = cfg.hydra.runtime.choices.get("sweep", "none")
    if chosen != "none" and not multirun:
        raise UserError(f"sweep={chosen} makes several runs: add -m, as in python train.py -m sweep={chosen}")
    return cfg


def _is_group(override: Override, conf_dir: Path) -> bool:
    key = override.key_or_group
    return (conf_dir / key).is_dir() or key.startswith("hydra/")


def _options(override: Override, conf_dir: Path) -> list[str]:
    """The values of an override as one writes them; none of a range that only a sweeper can draw from."""
    if override.value_type == ValueType.GLOB_CHOICE_SWEEP:
        return cast(Glob, override.value()).filter(_choices(override, conf_dir))
    if override.is_sweep_override():
        return [str(option) for option in override.sweep_string_iterator()] if override.is_discrete_sweep() else []
    return [_text(override).partition("=")[2]]


def _text(override: Override) -> str:
    return override.input_line or ""


def _job(parsed: list[Override], conf_dir: Path) -> list[str]:
    """The overrides of a sweep's first job; of a single job, as they are."""
    lines = []
    for override in parsed:
        if override.is_sweep_override():
            lines += [f"{override.get_key_element()}={option}" for option in _options(override, conf_dir)[:1]]
        else:
            lines.append(_text(override))
    return lines


def _choices(override: Override, conf_dir: Path) -> list[str]:
    key = override.key_or_group
    if key.startswith("hydra/"):  # where most choices are those of plugins
        return []
    return sorted(path.stem for path in (conf_dir / key).glob("*.yaml"))


def _check_launcher(cfg: DictConfig) -> None:
    """Ray has a file in conf/, and may not be there itself."""
    if cfg.hydra.runtime.choices.get("hydra/launcher") == "ray" and not all(map(find_spec, RAY)):
        raise UserError(
            "hydra/launcher=ray needs Ray, which is not installed: pip install --no-deps -r requirements-ray.lock "
            "adds it, or take hydra/launcher=joblib"
        )


def _check_choice(override: Override, conf_dir: Path) -> None:
    choices = _choices(override, conf_dir)
    if not choices or override.is_delete():
        return
    for option in _options(override, conf_dir):
        if option.strip("'\"") not in {*choices, "null"}:
            raise UserError(f"{override.key_or_group}={option} is no choice. {closest(option, choices)}")


def _one_value_too_many(override: Override) -> UserError:
    key = override.get_key_element()
    return UserError(
        f"{override.input_line} has several values, which makes a sweep: add -m, as in python train.py -m "
        f"{override.input_line}. A list as one value is written {key}=[...]"
    )


def _check_key(override: Override, cfg: DictConfig, conf_dir: Path) -> None:
    """Refuse a key that is nowhere in the config, with what there is at the place where it goes wrong."""
    key = override.key_or_group
    if override.is_add() or override.is_force_add() or key.startswith("hydra"):
        return
    node: Any = cfg
    done: list[str] = []
    for part in key.replace("/", ".").split("."):
        names = {str(name) for name in node} if isinstance(node, DictConfig) and not node._is_none() else set()
        if part not in names:
            where = ".".join(done)
            groups = set() if done else {path.name for path in conf_dir.iterdir() if path.is_dir()}
            place = f"{where} has no {part!r}" if done else f"there is no key or group {part!r}"
            raise UserError(f"{key} is unknown, {place}. {closest(part, (names | groups) - NOT_KEYS)}")
        done.append(part)
        node = node._get_node(part)


def _check_grid(override: Override, cfg: DictConfig) -> None:
    """Refuse a key that the grid of an experiment's study has not: Hydra replaces values and adds nothing unasked."""
    known, given = OmegaConf.select(cfg, "study.grid"), override.value()
    if override.key_or_group == "study":
        given = given.get("grid") if isinstance(given, dict) else None
    asked = override.is_add() or override.is_force_add() or override.is_delete()
    if override.key_or_group not in ("study", "study.grid") or asked or not known or not isinstance(given, dict):
        return
    for key in map(str, given):
        if key not in known:
            raise UserError(
                f"study.grid has no {key!r}, this study varies {', '.join(map(str, known))}: add a key with "
                f"'++study.grid={{{key}:[...]}}'"
            )


def _runs(cfg: DictConfig, typed: set[str]) -> Iterator[tuple[DictConfig, set[str]]]:
    """The config of a job, and nothing that varies; of a study, configs with every value, and what varies in them."""
    if cfg.study is None:
        yield cfg, set()
        return
    for run in covering(planned(cfg, typed)):
        changes = {**run.values, **run.settings}
        yield point(cfg, changes, Path(run.folder)), {key.partition(".")[0] for key in changes}


def _of_the_sweep_file(cfg: DictConfig, parsed: list[Override]) -> list[Override]:
    given = {override.key_or_group for override in parsed}
    params = cfg.hydra.sweeper.get("params") or {}
    return [_parse(f"{key}={value}") for key, value in params.items() if key not in given]


def _check_place(place: Path) -> None:
    """Refuse a place for the run where no folder can be made."""
    there = next(path for path in (place, *place.parents) if path.exists())
    try:
        tempfile.TemporaryDirectory(dir=there, prefix=".concrete-dropout.").cleanup()
    except OSError as error:
        raise UserError(
            f"no run can be written to {place}: {there} is not a folder that can be written to ({error.strerror}). "
            "Choose another place with paths.output_dir=... or the environment variable OUTPUT_DIR"
        ) from error


def _variants(cfg: DictConfig, job: list[str], sweeps: list[Override], conf_dir: Path) -> Iterator[DictConfig]:
    """The config of a job; of a sweep, configs that together have every value."""
    yield cfg
    for override in sweeps:
        for option in _options(override, conf_dir):
            line = f"{override.get_key_element()}={option}"
            if _is_group(override, conf_dir):
                yield compose_config([*job, line], conf_dir)
            else:  # composing takes a fifth of a second, and a sweep may have hundreds of values
                variant = copy.deepcopy(cfg)
                OmegaConf.update(variant, override.key_or_group, _parse(line).value(), force_add=True)
                yield variant
