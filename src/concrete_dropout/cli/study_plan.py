"""Which runs a study has: every combination of its grid, with labels, folders and settings. Configs, no torch."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from concrete_dropout.cli.typecheck import closest
from concrete_dropout.errors import UserError

KINDS = ("comparison", "uci_table", "camvid_table", "control")  # of reports; the first is for any grid
FIELDS = ("kind", "grid", "settings")
MAX_NAME = 80  # file systems allow 255 bytes, but W&B adds its own to a path
TAKEN = re.compile(r"[.-].*|(study|run|summary)\.json|(table|metrics)\.\w+|report\.html|run\.log|wandb|figures")


@dataclass(frozen=True)
class Planned:
    """One run of a study.

    Attributes:
        label: its values of the grid, in words.
        folder: name of its folder inside of the study's.
        values: {key: value} of the grid.
        settings: {key: value} that go with these values.
    """

    label: str
    folder: str
    values: dict[str, Any]
    settings: dict[str, Any]


def planned(cfg: DictConfig, typed: Collection[str] = ()) -> list[Planned]:
    """The runs of ``cfg.study``, in their order: the last key of the grid varies fastest.

    Args:
        cfg: of the study.
        typed: keys on the command line. There study.settings gives way: who types a value wants it in every run.

    Raises:
        UserError: a study that is not understood; names what is wrong.
    """
    study: Any = OmegaConf.to_container(cfg.study, resolve=True) if OmegaConf.is_config(cfg.study) else cfg.study
    if not isinstance(study, dict):
        raise UserError(f"study={study!r} must be a mapping, as in study={{grid:{{seed:[0,1,2]}}}}")
    for field in study:
        if field not in FIELDS:
            raise UserError(f"study.{field} is unknown. {closest(str(field), FIELDS)}")
    if kind_of(cfg) not in KINDS:
        raise UserError(f"study.kind={study['kind']} is no kind of report. {closest(str(study['kind']), KINDS)}")
    grid, settings = _grid(study.get("grid")), _settings(study.get("settings"))
    points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    names = _distinct([folder_name(point) for point in points], [text(point) for point in points])
    return [
        Planned(_label(point), name, point, _settings_of(point, settings, typed))
        for point, name in zip(points, names, strict=True)
    ]


def covering(runs: list[Planned]) -> list[Planned]:
    """So many of the runs that every value of every key is among them; a grid may have hundreds of combinations."""
    found, seen = [], set[str]()
    for run in runs:
        own = {f"{key}={text(value)}" for key, value in run.values.items()}
        if not own <= seen:
            found.append(run)
            seen |= own
    return found


def kind_of(cfg: DictConfig) -> str:
    """The kind of a study's report."""
    return str(cfg.study.get("kind") or KINDS[0])


def point(cfg: DictConfig, values: Mapping[str, Any], run_dir: Path) -> DictConfig:
    """A copy of the config with some keys at other values, for a run in ``run_dir``."""
    copy = cfg.copy()
    with open_dict(copy):
        copy.study = None
        for key, value in {**values, "paths.run_dir": str(run_dir)}.items():
            if not _has(copy, key):
                raise UserError(f"{key} is unknown: neither replicas.grid, study.grid nor study.settings can set it")
            OmegaConf.update(copy, key, value)
    return copy


def _has(cfg: DictConfig, key: str) -> bool:
    """Whether a config has a key, be it without a value yet ("???")."""
    above, _, last = key.rpartition(".")
    node = OmegaConf.select(cfg, above) if above else cfg
    return isinstance(node, DictConfig) and (last in node or OmegaConf.is_missing(node, last))


def text(value: Any) -> str:
    """A value as one would type it.

    >>> text("none"), text([64, 64]), text(0.0001), text(None), text(True)
    ('none', '[64,64]', '0.0001', 'null', 'true')
    """
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def folder_name(values: Mapping[str, Any]) -> str:
    """A short name that every file system takes: the value alone where one key varies.

    >>> folder_name({"data.name": "yacht"}), folder_name({"model.hidden": [64, 64]})
    ('yacht', '64x64')
    >>> folder_name({"dropout.kind": "concrete", "seed": 1})
    'dropout.kind=concrete,seed=1'
    """
    if len(values) == 1:
        name = _safe(next(iter(values.values())))
    else:
        name = ",".join(f"{key}={_safe(value)}" for key, value in values.items())
    name = f"run_{name}" if not name or TAKEN.fullmatch(name) else name
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 9]}_{_digest(name)}"


def _safe(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(entry, (int, float)) for entry in value):
        return "x".join(map(text, value))
    return re.sub(r"[^\w.+-]+", "_", text(value)).strip("_")


def _distinct(names: list[str], texts: list[str]) -> list[str]:
    """Names of which no two are the same, also where capital letters do not count."""
    folded = [name.casefold() for name in names]
    pairs = zip(names, texts, strict=True)
    return [f"{name}_{_digest(whole)}" if folded.count(name.casefold()) > 1 else name for name, whole in pairs]


def _digest(whole: str) -> str:
    return hashlib.sha256(whole.encode()).hexdigest()[:8]


def _label(values: Mapping[str, Any]) -> str:
    if len(values) == 1:
        return text(next(iter(values.values())))
    return ", ".join(f"{key}={text(value)}" for key, value in values.items())


def _grid(grid: Any) -> dict[str, list[Any]]:
    if not isinstance(grid, dict) or not grid:
        raise UserError("study.grid must be a mapping of keys to lists, as in study.grid={seed:[0,1,2]}")
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise UserError(
                f"study.grid.{key}={text(values)} must be a list of values, as in study.grid={{{key}:[...]}}"
            )
        texts = [text(value) for value in values]
        double = next((value for value in texts if texts.count(value) > 1), None)
        if double is not None:
            raise UserError(f"study.grid.{key} has {double} twice: each value makes runs of its own")
    return {str(key): values for key, values in grid.items()}


def _settings(settings: Any) -> dict[str, dict[str, Any]]:
    if settings is None:
        return {}
    if not isinstance(settings, dict) or not all(isinstance(entry, dict) for entry in settings.values()):
        raise UserError("study.settings must map values to settings, as in study.settings={boston:{optim.lr:1e-3}}")
    return {text(value): {str(key): setting for key, setting in entry.items()} for value, entry in settings.items()}


def _settings_of(
    values: Mapping[str, Any], settings: Mapping[str, dict[str, Any]], typed: Collection[str]
) -> dict[str, Any]:
    """What goes with the values: under the value alone, or under key=value where several keys have it."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= settings.get(text(value), {}) | settings.get(f"{key}={text(value)}", {})
    return {key: setting for key, setting in found.items() if key not in typed}
