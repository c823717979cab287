"""One run of an agent: build, play episode after episode, keep what came of them, report."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import torch
from omegaconf import DictConfig

from concrete_dropout.callbacks import AtomicCheckpointIO
from concrete_dropout.callbacks.rng import get_state
from concrete_dropout.cli import build
from concrete_dropout.cli.agent_build import build_agent, snapshot
from concrete_dropout.cli.agent_measures import measured
from concrete_dropout.cli.agent_record import AgentRecord
from concrete_dropout.cli.agent_summary import print_agent_summary, print_episode
from concrete_dropout.cli.compose import plain
from concrete_dropout.cli.run import facts, recording, write_config
from concrete_dropout.cli.run_log import logging_to
from concrete_dropout.cli.summary import print_start
from concrete_dropout.control import Agent
from concrete_dropout.control.video import gif
from concrete_dropout.runfolder import CHECKPOINTS
from concrete_dropout.signals import terminable

VIDEO_SEED = 12345  # the same start in all videos of all runs


def run_agent(cfg: DictConfig, folder: Path, conf_dir: Path) -> None:
    """Let an agent learn as the config says, in ``folder``."""
    config = plain(cfg)
    with logging_to(folder):
        build.set_out(cfg)
        record = AgentRecord(folder, facts(cfg))
        agent = build_agent(cfg, folder, [record.trace])
        step = saved_step(cfg)
        record.facts |= {
            "num_train": agent.data.spec.num_train,
            "kl_weight": agent.task.kl_weight,
            "max_episodes": agent.settings.episodes,
            "device": agent.make_trainer().strategy.root_device.type,
        }
        record.loggers = build.build_loggers(cfg)
        write_config(config, folder, conf_dir)
        print_start(folder, record.facts)
        with recording(record, folder), terminable(at_once=True):  # between two episodes nothing is lost
            for logger in record.loggers:
                with suppress(NotImplementedError):
                    logger.log_hyperparams(config)
            record.start(agent.task, agent.episode, step)
            save(agent, record, config)  # a run that is killed in its first episode can be continued as well
            while agent.episode < agent.settings.episodes:
                play(agent, record)
                save(agent, record, config)
    print_agent_summary(folder)


def play(agent: Agent, record: AgentRecord) -> None:
    """One episode, measured and noted."""
    began = time.monotonic()
    outcome = agent.play()
    seconds = time.monotonic() - began
    metrics, entry = measured(agent, outcome)
    changes = {layer: verdict["change_last_fifth"] for layer, verdict in record.trace.verdicts.items()}
    entry |= {"seconds": seconds, "p_change": changes}  # over the last fifth of the model's steps
    if outcome.episode in filmed(agent.settings.episodes):
        frames = agent.world.frames(agent.policy(), torch.Generator().manual_seed(VIDEO_SEED))
        if frames:
            name, caption = f"episode_{outcome.episode:03d}", f"episode {outcome.episode}"
            entry["video"] = record.video(name, gif(frames, agent.world.frames_per_second), caption)
    record.note({**metrics, **{f"train/{key}": value for key, value in losses(record).items()}}, entry, agent.task)
    print_episode(entry)


def filmed(episodes: int) -> set[int]:
    """The first, a middle and the last one.

    >>> sorted(filmed(15)), sorted(filmed(1))
    ([1, 8, 15], [1])
    """
    return {1, (episodes + 1) // 2, episodes}


def losses(record: AgentRecord) -> dict[str, float]:
    """The model's last training losses."""
    found = record.trace.losses
    return {key: found[f"train/{key}"] for key in ("nll", "kl", "loss") if f"train/{key}" in found}


def save(agent: Agent, record: AgentRecord, config: dict[str, object]) -> None:
    """A checkpoint in one piece; written between two episodes, with all random states."""
    name = f"{build.LAST}.ckpt"
    content = snapshot(agent, config, get_state(), record.trace.step)
    AtomicCheckpointIO().save_checkpoint(content, record.files.path / CHECKPOINTS / name)
    record.saved(name)


def saved_step(cfg: DictConfig) -> int:
    """Optimiser steps that the continued run had made; 0 for a new one."""
    if cfg.ckpt_path is None:
        return 0
    return int(torch.load(cfg.ckpt_path, map_location="cpu", weights_only=True)["step"])
