"""From a config to an agent: its world, experience, dynamics model and policies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig

from concrete_dropout.callbacks.rng import set_state
from concrete_dropout.cli import build
from concrete_dropout.cli.checkpoint import CONFIG_KEY, check_checkpoint
from concrete_dropout.cli.compose import plain
from concrete_dropout.cli.factory import factory
from concrete_dropout.cli.networks import build_task
from concrete_dropout.cli.saved_config import VERSION_KEY, own_version
from concrete_dropout.control import Agent, AgentSettings, Population, World, explore
from concrete_dropout.data.transitions import TransitionsData
from concrete_dropout.errors import UserError
from concrete_dropout.tasks import DynamicsTask

AGENT, WEIGHTS, RANDOM = "agent", "state_dict", "random_state"  # keys of a checkpoint
GROUPS = {"env": "cartpole", "policy": "rbf", "data": "transitions", "task": "dynamics"}


def build_world(cfg: DictConfig) -> World:
    """Where the agent acts."""
    world: World = factory(cfg, "env")()
    return world


def build_agent(cfg: DictConfig, folder: Path, callbacks: Sequence[pl.Callback] = ()) -> Agent:
    """An agent with its first experience; the one of ``cfg.ckpt_path`` where that is set.

    Args:
        cfg: of the run.
        folder: of the run.
        callbacks: that watch every fit of the model.
    """
    check_groups(cfg)
    settings: AgentSettings = factory(cfg, "agent")()
    world = build_world(cfg)
    data: TransitionsData = factory(cfg, "data")(world.features, world.state_names, world.action_names)
    generator = torch.Generator().manual_seed(cfg.seed)
    population: Population = factory(cfg, "policy")(
        world.features.number, world.limits, scale=world.feature_scale, generator=generator
    )
    explore(world, data, settings.random_episodes, generator)
    task = build_task(cfg, data)
    assert isinstance(task, DynamicsTask)

    def make_trainer() -> pl.Trainer:
        return build.build_trainer(cfg, [*callbacks], [], folder, enable_checkpointing=False)

    agent = Agent(world, task, data, population, settings, make_trainer, generator)
    if cfg.ckpt_path is not None:
        restore(agent, cfg)
    return agent


def restore(agent: Agent, cfg: DictConfig) -> None:
    """Go on as the agent of ``cfg.ckpt_path``, with the random numbers that it would have drawn."""
    check_checkpoint(cfg.ckpt_path, agent.task, plain(cfg))
    saved = torch.load(cfg.ckpt_path, map_location="cpu", weights_only=True)
    if AGENT not in saved:
        raise UserError(f"ckpt_path={cfg.ckpt_path} is of a network alone, and not of an agent with its policies")
    try:
        agent.load_state_dict(saved[AGENT])
    except (RuntimeError, KeyError) as error:
        first = str(error).strip().splitlines()[-1].strip()
        raise UserError(f"ckpt_path={cfg.ckpt_path} has other policies: {first}. Use its settings of policy") from error
    agent.task.load_state_dict(saved[WEIGHTS])
    agent.follow()
    set_state(saved[RANDOM])


def check_groups(cfg: DictConfig) -> None:
    """Refuse a config of an agent with parts that belong to ordinary experiments."""
    wanted = {
        "env": cfg.env.get("_target_") is not None,
        "policy": cfg.policy.get("_target_") is not None,
        "data": _names(cfg, "data", "TransitionsData"),
        "task": _names(cfg, "task", "DynamicsTask"),
    }
    for group, fits in wanted.items():
        if not fits:
            raise UserError(f"an agent needs {group}={GROUPS[group]} or another one of its kind: see conf/{group}/")
    if cfg.replicas.grid is not None:
        raise UserError(
            "replicas train networks on data, not agents: use a study or a sweep, as in sweep=cartpole_seeds"
        )
    if cfg.trainer.devices not in (1, "1", "auto") or cfg.trainer.num_nodes != 1:
        raise UserError(f"trainer.devices={cfg.trainer.devices}: an agent runs in one process on one device")


def snapshot(agent: Agent, config: dict[str, Any], random_state: dict[str, Any], step: int) -> dict[str, Any]:
    """What a checkpoint of an agent holds: tensors and plain containers."""
    return {
        WEIGHTS: agent.task.state_dict(),
        AGENT: agent.state_dict(),
        RANDOM: random_state,
        CONFIG_KEY: config,
        VERSION_KEY: own_version(),
        "step": step,
    }


def _names(cfg: DictConfig, group: str, name: str) -> bool:
    return str(cfg[group].get("_target_", "")).endswith(name)
