"""Configs and settings that come with checkpoints and run folders, made by somebody who means harm."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from concrete_dropout.cli.compose import compose_config, plain
from concrete_dropout.cli.entry import continued
from concrete_dropout.cli.trust import NOTHING_ELSE, Trust, trusted_config
from concrete_dropout.errors import UserError

CONF = Path(__file__).parents[2] / "conf"


def config(**changes: Any) -> dict[str, Any]:
    return {"data": {"_target_": "concrete_dropout.data.SyntheticData"}, "seed": 0, **changes}


@pytest.mark.parametrize(
    "target",
    [
        "os.system",
        "subprocess.run",
        "builtins.eval",
        "builtins.exec",
        "antigravity.fly",
        "torch.load",
        "torch.hub.load",
        "torch.nn.functional.relu",
        "torch.nn.modules.module.warnings.warn",
        "concrete_dropout.cli.facts.subprocess.run",
        "concrete_dropout.data.downloads.fetch",
        "concrete_dropout.data.resuming.ResumingDownloader",
        "concrete_dropout.data.image_cache.os.system",
        "concrete_dropout.data.camvid_download.shutil.rmtree",
        "concrete_dropout.control.gym_world.importlib.import_module",
        "concrete_dropoutx.evil",
        "timm.models.load_checkpoint",
        "timm.models._helpers.torch.load",
        "torchvision.models._api.importlib.import_module",
        "segmentation_models_pytorch.Unet.from_pretrained",
        "hydra.utils.instantiate",
        "pytorch_lightning.Trainer",
        "",
        7,
        ["os.system"],
    ],
)
def test_code_of_others_is_refused(target: Any) -> None:
    for changes in (
        {"model": {"_target_": target}},
        {"data": {"_target_": "concrete_dropout.data.SyntheticData", "noise": {"_target_": target}}},
        {"dropout": {"owners": [{"a": {"_target_": target}}]}},
    ):
        with pytest.raises(UserError, match=r"^ckpt=x is refused: its config says .*_target_.*add trust="):
            trusted_config(config(**changes), "ckpt=x", NOTHING_ELSE)


@pytest.mark.parametrize(
    "target",
    [
        "concrete_dropout.models.MLP",
        "concrete_dropout.models.vision.timm_model",
        "concrete_dropout.control.SearchSettings",
        "segmentation_models_pytorch.Unet",
        "timm.create_model",
        "torchvision.models.resnet18",
        "torch.nn.Linear",
    ],
)
def test_networks_of_known_libraries_are_not(target: str) -> None:
    assert trusted_config(config(model={"_target_": target}), "ckpt=x", NOTHING_ELSE)["model"] == {"_target_": target}


@pytest.mark.parametrize("experiment", ["csv", "image_folder", "camvid", "cartpole", "control", "uci"])
def test_the_configs_of_our_experiments_pass(experiment: str) -> None:
    needed = {"csv": ["data.path=a", "data.target=b"], "image_folder": ["data.root=a"]}
    whole = plain(compose_config([f"experiment={experiment}", *needed.get(experiment, [])], CONF))
    assert trusted_config(whole, "ckpt=x", NOTHING_ELSE) == whole


@pytest.mark.parametrize(
    "changes",
    [
        {"env": {"_target_": "concrete_dropout.control.GymWorld", "id": "Pendulum-v1", "reward": "os.system"}},
        {"env": {"_target_": "concrete_dropout.control.GymWorld", "id": "evil:Name-v0"}},
    ],
)
def test_a_world_imports_nothing_by_other_keys(changes: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"env\.(reward=os\.system|id=evil:Name-v0).*add trust=(os|evil)$"):
        trusted_config(config(**changes), "ckpt=x", NOTHING_ELSE)
    trusted_config(config(**changes), "ckpt=x", Trust(("evil", "os")))


@pytest.mark.parametrize("value", ["${oc.env:HOME}", "a ${seed}", ["${oc.env:WANDB_API_KEY}"], {"${seed}": 1}])
def test_interpolations_of_others_are_refused(value: Any) -> None:
    with pytest.raises(UserError, match=r"name.* of its config refers to something outside"):
        trusted_config(config(name=value), "ckpt=x", NOTHING_ELSE)


@pytest.mark.parametrize("grid", [{"data._target_": ["os.system"]}, {"data.noise": [{"_target_": "os.system"}]}])
def test_replicas_name_no_code(grid: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"replicas\.grid of its config names code"):
        trusted_config(config(replicas={"grid": grid}), "ckpt=x", NOTHING_ELSE)


def test_what_is_no_config() -> None:
    with pytest.raises(UserError, match="has no config"):
        trusted_config(["os.system"], "ckpt=x", NOTHING_ELSE)


def test_the_user_may_trust_his_own(tmp_path: Path) -> None:
    own = config(model={"_target_": "my_package.nets.Net"})
    for module in ("my_package", "my_package.nets"):
        assert trusted_config(own, "ckpt=x", Trust((module,))) == own
    for module in ("my_pack", "nets", "my_package.nets.Ne"):
        with pytest.raises(UserError, match=r"trust=my_package$"):
            trusted_config(own, "ckpt=x", Trust((module,)))
    # What his own config files name needs no more words, in its own group.
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text("# mine\n_target_: my_package.nets.Net\n_partial_: true\n")
    assert trusted_config(own, "ckpt=x", Trust(conf_dir=tmp_path)) == own
    with pytest.raises(UserError, match=r"trust=my_package$"):
        trusted_config(config(task={"_target_": "my_package.nets.Net"}), "ckpt=x", Trust(conf_dir=tmp_path))


@pytest.mark.parametrize("text", ["a: 1", "7", "[", "!!python/object/apply:os.system [x]", "\0"])
def test_a_damaged_list_of_settings_is_one_message(tmp_path: Path, text: str) -> None:
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "overrides.yaml").write_text(text)
    with pytest.raises(UserError, match=r"overrides\.yaml cannot be read"):
        continued([f"ckpt_path={tmp_path}/checkpoints/last.ckpt"])


@pytest.mark.parametrize(
    "entry",
    [
        "model._target_=os.system",
        "+callbacks.evil._target_=os.system",
        "+callbacks.evil={_target_: os.system}",
        "env.reward=evil.reward",
        "env.id=evil:Name-v0",
        "data.path=${oc.env:WANDB_API_KEY}",
        "hydra.run.dir=/elsewhere",
        "+hydra.callbacks.evil._target_=os.system",
        "hydra/launcher=evil",
        "--config-dir=/evil",
        "-m",
    ],
)
def test_settings_of_a_run_folder_cannot_name_code(tmp_path: Path, entry: str) -> None:
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "overrides.yaml").write_text(f"- seed=1\n- '{entry}'\n")
    own = f"ckpt_path={tmp_path}/checkpoints/last.ckpt"
    with pytest.raises(UserError, match=re.escape(repr(entry))):
        continued([own])
    key, _, value = entry.partition("=")
    if not key.startswith(("-", "hydra", "+hydra")):  # the user may say it himself
        assert f"{key}={value}" in continued([own, entry])
