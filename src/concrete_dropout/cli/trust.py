"""Configs that come with a checkpoint or a run folder: settings of somebody else, which must not run his code.

A config names what it builds (``_target_``), and anything that can be imported can be named. On the command line and in
``conf/`` that is the user's own doing. In a file that came from elsewhere it would be an open door.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from concrete_dropout.errors import UserError

BUILT = ("data", "model", "task", "dropout", "optim", "env", "policy", "agent")  # what a saved config is used for
OURS = tuple(f"concrete_dropout.{name}" for name in ("control", "data", "models", "settings", "tasks"))
LIBRARIES = ("torch.nn", "torchvision.models", "timm.models", "timm.layers", "segmentation_models_pytorch")
BUILDERS = {
    "concrete_dropout.models.vision.smp_model",
    "concrete_dropout.models.vision.timm_model",
    "concrete_dropout.models.vision.torchvision_model",
    "segmentation_models_pytorch.create_model",
    "timm.create_model",
    "torchvision.models.get_model",
}
OVERRIDES = Path(".hydra") / "overrides.yaml"
TARGET, REWARD, ENVIRONMENT = "_target_", "reward", "id"
OWN_REWARDS = "concrete_dropout.control.rewards."
NAMED = re.compile(rf"^[ \t]*({TARGET}|{REWARD}|{ENVIRONMENT}):[ \t]*['\"]?([\w.:-]+)", re.MULTILINE)


@dataclass(frozen=True)
class Trust:
    """What saved configs may name beside this package and the libraries of networks.

    Attributes:
        modules: of the user's own, from ``trust=...`` on his command line.
        conf_dir: his own config files; what they name is his as well.
    """

    modules: tuple[str, ...] = ()
    conf_dir: Path | None = None

    def has(self, group: str, name: str) -> bool:
        """Whether the user has said that something under this name is his."""
        module = name.partition(":")[0]
        return any(module == own or module.startswith(f"{own}.") for own in self.modules) or name in self._named(group)

    def _named(self, group: str) -> set[str]:
        folders = [self.conf_dir / name for name in (group, "experiment")] if self.conf_dir else []
        files = [path for folder in folders for path in folder.glob("*.yaml")]
        return {found[2] for path in files for found in NAMED.finditer(path.read_text(encoding="utf-8"))}


NOTHING_ELSE = Trust()


def trusted_config(config: Any, name: str, trust: Trust) -> dict[str, Any]:
    """The config of a checkpoint, once nothing in it can run code.

    Args:
        config: plain containers.
        name: of the file, for messages.
        trust: what the user allows beside what is known.

    Raises:
        UserError: names the key and what it would import, and how to allow it.
    """
    if not isinstance(config, dict):
        raise UserError(f"{name} has no config: only checkpoints of python train.py have one")
    for key, value in _leaves(config):
        if "${" in key or (isinstance(value, str) and "${" in value):
            raise UserError(
                f"{name} is refused: {key} of its config refers to something outside of it, which no run's own does"
            )
    for group in BUILT:
        for key, value in _leaves(config.get(group), group):
            if TARGET in key.split(".") and value is not None:
                _check_target(group, key, value, name, trust)
    grid = (config.get("replicas") or {}).get("grid")
    if any(TARGET in key for key, _ in _leaves(grid)):
        raise UserError(f"{name} is refused: replicas.grid of its config names code")
    _check_world(config.get("env"), name, trust)
    return config


def check_saved_override(entry: str, folder: Path) -> None:
    """Refuse a setting that a run folder would add to the user's command, where it names code or reaches outside.

    Raises:
        UserError: says how the user can give it himself.
    """
    if entry.startswith("-") or _key(entry).startswith("hydra") or "\n" in entry:
        file = folder / OVERRIDES
        raise UserError(f"{file} has {entry!r}, which is no setting of a run: remove it")
    if must_be_repeated(entry):
        raise UserError(
            f"the run in {folder} was started with {entry!r}, which names code or reads outside of the config. A "
            "folder that came from elsewhere could do anything that way: if it is yours, repeat this setting beside "
            "ckpt_path=..."
        )


def must_be_repeated(entry: str) -> bool:
    """Whether a setting is taken from the command line alone, and not from a run folder.

    >>> must_be_repeated("model._target_=my_package.Net"), must_be_repeated("seed=1"), must_be_repeated("name=a${seed}")
    (True, False, False)
    """
    key, value = _key(entry), entry.partition("=")[2]
    names_code = TARGET in entry or key == f"env.{REWARD}" or (key == f"env.{ENVIRONMENT}" and ":" in value)
    return names_code or re.search(r"\$\{[^}]*:", entry) is not None


def _key(entry: str) -> str:
    return entry.lstrip("+~").partition("=")[0]


def _check_target(group: str, key: str, value: Any, name: str, trust: Trust) -> None:
    if isinstance(value, str) and (trust.has(group, value) or _is_known(value)):
        return
    raise _refusal(key, value, name)


def _check_world(env: Any, name: str, trust: Trust) -> None:
    """A gymnasium world imports modules by other keys than ``_target_``."""
    if not isinstance(env, Mapping):
        return
    reward, identity = env.get(REWARD), env.get(ENVIRONMENT)
    if isinstance(reward, str) and not reward.startswith(OWN_REWARDS) and not trust.has("env", reward):
        raise _refusal("env.reward", reward, name)
    if isinstance(identity, str) and ":" in identity and not trust.has("env", identity):
        raise _refusal("env.id", identity, name)


def _refusal(key: str, value: Any, name: str) -> UserError:
    module = str(value).partition(":")[0].partition(".")[0]
    return UserError(
        f"{name} is refused: its config says {key}={value}, which is neither of this package nor a network of torch, "
        "torchvision, timm or segmentation-models-pytorch. A checkpoint that came from elsewhere could run any code "
        f"that way: if it is yours, add trust={module}"
    )


def _is_known(name: str) -> bool:
    """Whether a name is that of a data module, network, task, world or their settings, and of nothing that is near."""
    if not name.startswith(tuple(f"{package}." for package in (*OURS, *LIBRARIES))) and name not in BUILDERS:
        return False
    # Only now: importing a module of another name would run it already.
    from hydra.utils import get_object

    try:
        found = get_object(name)
    except Exception:  # a name that is not there is told by whoever needs it
        return True
    return name in BUILDERS or _is_of_a_kind(found) or _is_torchvision_builder(found)


def _is_of_a_kind(found: Any) -> bool:
    # What is imported inside of our modules is reached by their names too: subprocess, for one.
    from pytorch_lightning import LightningDataModule
    from torch import nn

    from concrete_dropout.control import AgentSettings, SearchSettings, World
    from concrete_dropout.settings import DropoutSettings, OptimSettings

    kinds = (nn.Module, LightningDataModule, World, DropoutSettings, OptimSettings, AgentSettings, SearchSettings)
    packages = tuple(f"{package}." for package in (*OURS, *LIBRARIES))
    return inspect.isclass(found) and issubclass(found, kinds) and f"{found.__module__}.".startswith(packages)


def _is_torchvision_builder(found: Any) -> bool:
    if not inspect.isfunction(found) or not found.__module__.startswith("torchvision.models."):
        return False
    from torchvision import models

    return found.__name__ in models.list_models() and models.get_model_builder(found.__name__) is found


def _leaves(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of nested containers with its dotted key; texts are values."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for index, value in enumerate(node):
            yield from _leaves(value, f"{path}.{index}")
    else:
        yield path, node
