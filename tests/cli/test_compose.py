"""Configs composed beside a job, and their differences."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from concrete_dropout.cli.compose import compose_config, config_diff, plain
from concrete_dropout.errors import UserError

CONF = Path(__file__).parents[2] / "conf"


def test_values_of_hydra_are_there_without_hydra() -> None:
    cfg = compose_config(["experiment=uci", "seed=3"], CONF, run_dir="somewhere")
    assert (cfg.name, cfg.paths.run_dir) == ("uci", "somewhere")
    assert "hydra" not in cfg
    assert not HydraConfig.initialized()


def test_the_hydra_of_a_job_is_left_alone() -> None:
    outer = compose_config(["experiment=uci"], CONF)
    singleton = HydraConfig.instance()
    mark = OmegaConf.create({"hydra": {"runtime": {"choices": {"experiment": "mine"}}}})
    singleton.cfg = mark  # type: ignore[assignment]
    try:
        compose_config([], CONF)
        assert singleton.cfg is mark
    finally:
        singleton.cfg = None
    assert outer.name == "uci"


def test_what_follows_another_key_still_follows_it() -> None:
    cfg = compose_config([], CONF)
    cfg.seed = 7
    assert plain(cfg)["data"]["seed"] == 7


def test_a_broken_config_is_one_message() -> None:
    with pytest.raises(UserError, match="cannot be composed"):
        compose_config(["experiment=nope"], CONF)
    cfg = compose_config(["data.num_data=${nowhere}"], CONF)
    with pytest.raises(UserError, match=r"cannot be resolved: .*nowhere"):
        plain(cfg)


def test_differences_name_keys_on_either_side() -> None:
    diff = config_diff({"a": 1, "b": {"c": [1, 2]}}, {"b": {"c": [1]}, "d": {"e": None}})
    assert diff == [
        {"key": "a", "default": 1, "value": None},
        {"key": "b.c", "default": [1, 2], "value": [1]},
        {"key": "d", "default": None, "value": {"e": None}},
    ]
