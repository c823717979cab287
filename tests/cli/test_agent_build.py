from __future__ import annotations

from pathlib import Path

import pytest
import torch

from concrete_dropout.cli.agent_build import build_agent, snapshot
from concrete_dropout.cli.check import check_command
from concrete_dropout.cli.compose import compose_config, plain
from concrete_dropout.errors import UserError

CONF = Path(__file__).parents[2] / "conf"
SMALL = ["experiment=cartpole", "policy.size=4", "model.hidden=[8,8]"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["agent.particles=1"], r"agent\.particles=1 must be at least 2"),
        (["agent.search.lr=0"], r"agent\.search\.lr=0 must be above 0"),
        (["policy.sise=3"], r"policy\.sise is unknown"),
        (["agent.episodes=many"], r"agent\.episodes='many' must be an integer"),
    ],
)
def test_what_a_config_shows_is_refused_before_anything_is_built(arguments: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_command(["experiment=cartpole", *arguments], CONF)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["env.pole_length=-1"], r"env\.pole_length=-1 must be above 0"),
        (["env=pendulum", "env.id=Nothing-v0"], r"env\.id=Nothing-v0 cannot be made by gymnasium"),
        (["env=none"], "an agent needs env=cartpole"),
        (["data=synthetic"], "an agent needs data=transitions"),
        (["task=regression"], "an agent needs task=dynamics"),
        (["policy.units=0"], r"policy\.units=0"),
        (["trainer.devices=2"], r"trainer\.devices=2: an agent runs in one process"),
        (["replicas=repeats"], "replicas train networks on data"),
        (["task.min_noise=-1"], r"task\.min_noise=-1"),
    ],
)
def test_parts_that_do_not_fit_are_refused(arguments: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        build_agent(compose_config([*SMALL, *arguments], CONF, run_dir=tmp_path), tmp_path)


def test_an_agent_without_policies(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="an agent needs policy=rbf"):
        build_agent(compose_config(["experiment=cartpole", "policy=none"], CONF, run_dir=tmp_path), tmp_path)


def test_a_checkpoint_of_other_policies(tmp_path: Path) -> None:
    cfg = compose_config(SMALL, CONF, run_dir=tmp_path)
    torch.save(snapshot(build_agent(cfg, tmp_path), plain(cfg), {}, 0), tmp_path / "a.ckpt")
    other = compose_config([*SMALL, "policy.units=7", f"ckpt_path={tmp_path}/a.ckpt"], CONF, run_dir=tmp_path)
    with pytest.raises(UserError, match="has other policies"):
        build_agent(other, tmp_path)
    torch.save({"state_dict": build_agent(cfg, tmp_path).task.state_dict()}, tmp_path / "b.ckpt")
    bare = compose_config([*SMALL, f"ckpt_path={tmp_path}/b.ckpt"], CONF, run_dir=tmp_path)
    with pytest.raises(UserError, match="of a network alone"):
        build_agent(bare, tmp_path)


def test_inputs_are_not_dropped_and_keep_their_prior(tmp_path: Path) -> None:
    from concrete_dropout import dropout_probabilities, kl_divergence

    agent = build_agent(compose_config([*SMALL, "dropout=fixed"], CONF, run_dir=tmp_path), tmp_path)
    network = agent.task.network
    assert dropout_probabilities(network) == {"network.layers.3": 0.1, "network.layers.6": 0.1, "network.layers.0": 0.0}
    before = kl_divergence(network).item()
    with torch.no_grad():
        network.get_submodule("network.layers.1").weight.mul_(2.0)  # type: ignore[operator, union-attr]
    assert kl_divergence(network).item() > before
