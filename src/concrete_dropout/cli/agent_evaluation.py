"""A saved agent in the true world again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from concrete_dropout.callbacks import AtomicCheckpointIO
from concrete_dropout.cli.agent_build import AGENT, build_world
from concrete_dropout.cli.checkpoint import CONFIG_KEY
from concrete_dropout.cli.factory import factory
from concrete_dropout.cli.trust import NOTHING_ELSE, Trust, trusted_config
from concrete_dropout.control import Population
from concrete_dropout.control.video import gif
from concrete_dropout.errors import UserError


@dataclass(frozen=True)
class Evaluation:
    """Plain numbers, and a GIF file's content (empty where there is none)."""

    numbers: dict[str, Any]
    video: bytes


@torch.no_grad()
def evaluate_agent(path: Path, starts: int, seed: int, video: bool = True, trust: Trust = NOTHING_ELSE) -> Evaluation:
    """Judge the policy that acted last, as its run would.

    Args:
        path: of a checkpoint.
        starts: of episodes.
        seed: of these.
        video: whether to film an episode.
        trust: what its config may name.

    Raises:
        UserError: the file is no checkpoint of an agent.
    """
    saved = AtomicCheckpointIO().load_checkpoint(path)
    if AGENT not in saved or CONFIG_KEY not in saved:
        raise UserError(f"ckpt={path} is no checkpoint of an agent")
    cfg, state = OmegaConf.create(trusted_config(saved[CONFIG_KEY], f"ckpt={path}", trust)), saved[AGENT]
    torch.set_num_threads(cfg.threads or torch.get_num_threads())
    world = build_world(cfg)
    population: Population = factory(cfg, "policy")(world.features.number, world.limits, scale=world.feature_scale)
    population.load_state_dict(state["population"])
    policy = population.single(state["chosen"])
    returns = world.judge(policy, starts, torch.Generator().manual_seed(seed)).returns
    numbers = {
        "checkpoint": str(path),
        "episode": state["episode"],
        "starts": starts,
        "seed": seed,
        "reward": float(returns.mean()),
        "reward_std": float(returns.std()),
        "reward_se": float(returns.std() / starts**0.5),
        "reward_min": float(returns.min()),
        "reward_max": float(returns.max()),
    }
    frames = world.frames(policy, torch.Generator().manual_seed(seed)) if video else []
    return Evaluation(numbers, gif(frames, world.frames_per_second) if frames else b"")
