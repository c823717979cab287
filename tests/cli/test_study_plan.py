"""Which runs a study has, what they are called, and how each is typed as a command of its own."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, open_dict

from concrete_dropout.cli.check import _parse, check_command
from concrete_dropout.cli.compose import compose_config, compose_with_hydra, hydra_as_before
from concrete_dropout.cli.entry import continued, from_the_start
from concrete_dropout.cli.overrides import override
from concrete_dropout.cli.study_command import as_own_command, own_overrides, processes_as_before, typed_keys
from concrete_dropout.cli.study_plan import KINDS, covering, folder_name, kind_of, planned, point
from concrete_dropout.errors import UserError
from concrete_dropout.report import study_record

CONF = Path(__file__).parents[2] / "conf"


@cache
def base() -> DictConfig:
    return compose_config([], CONF)


def composed(study: Any) -> DictConfig:
    """The default config with a study; composing it anew for each test would take most of the time."""
    cfg = base().copy()
    with open_dict(cfg):
        cfg.study = study
    return cfg


def test_runs_are_the_product_in_order() -> None:
    runs = planned(composed({"grid": {"dropout.kind": ["none", "concrete"], "seed": [0, 1]}}))
    assert [run.folder for run in runs] == [
        "dropout.kind=none,seed=0",
        "dropout.kind=none,seed=1",
        "dropout.kind=concrete,seed=0",
        "dropout.kind=concrete,seed=1",
    ]
    assert runs[2].label == "dropout.kind=concrete, seed=0"
    assert runs[2].values == {"dropout.kind": "concrete", "seed": 0}


def test_one_key_is_called_by_its_values() -> None:
    runs = planned(composed({"grid": {"model.hidden": [[64, 64], [128]]}}))
    assert [(run.label, run.folder) for run in runs] == [("[64,64]", "64x64"), ("[128]", "128")]
    assert point(base(), runs[0].values, Path("x")).model.hidden == [64, 64]


def test_settings_go_with_a_value_or_with_a_key_and_its_value() -> None:
    settings = {5: {"optim.lr": 2}, "data.num_val=0": {"optim.lr": 3}}
    runs = planned(composed({"grid": {"seed": [0, 1], "data.num_val": [0, 5]}, "settings": settings}))
    assert [run.settings for run in runs] == [{"optim.lr": 3}, {"optim.lr": 2}] * 2


def test_what_is_typed_wins_over_settings(tmp_path: Path) -> None:
    given = ["experiment=uci_table", "study.grid={data.name:[concrete]}", "task.kl_weight=2"]
    (run,) = planned(compose_config(given, CONF), ["task.kl_weight"])
    assert "task.kl_weight" not in run.settings
    assert run.settings["task.noise"] == "homoscedastic"
    with pytest.raises(UserError, match=r"data\.batch_size='ten'"):  # although naval has a number of its own
        check_command(["experiment=uci_table", "study.grid={data.name:[naval]}", "data.batch_size=ten"], CONF)
    with hydra_as_before():
        assert typed_keys() == frozenset()
        compose_with_hydra(given, CONF, tmp_path)
        assert typed_keys() == {"experiment", "study.grid", "task.kl_weight"}


def test_a_part_of_a_grid_is_replaced_on_the_command_line() -> None:
    runs = planned(compose_config(["experiment=camvid_table", "study.grid={seed:[7]}"], CONF))
    assert [run.values["dropout.kind"] for run in runs] == ["none", "fixed", "concrete"]
    assert {run.values["seed"] for run in runs} == {7}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"data.path": "/tmp/My File.csv"}, "tmp_My_File.csv"),
        ({"a": "../../etc"}, "run_.._.._etc"),
        ({"a": ""}, "run_"),
        ({"a": -1}, "run_-1"),
        ({"a": "report.html"}, "run_report.html"),
        ({"a": ".hydra"}, "run_.hydra"),
        ({"a": None, "b": True}, "a=null,b=true"),
        ({"a": [0.5, 0.25], "b": 1e-05}, "a=0.5x0.25,b=1e-05"),
        ({"a": {"x": "ä/b"}}, "x_ä_b"),
    ],
)
def test_folders_have_names_that_file_systems_take(values: dict[str, Any], expected: str) -> None:
    assert folder_name(values) == expected


def test_names_are_short_and_distinct() -> None:
    runs = planned(composed({"grid": {"name": ["a b", "a/b", "A_B", "c"]}}))
    names = [run.folder for run in runs]
    assert len({name.lower() for name in names}) == 4
    assert names[3] == "c"
    long = folder_name({"name": "x" * 300})
    assert len(long) <= 80
    assert long != folder_name({"name": "x" * 301})


@pytest.mark.parametrize(
    ("study", "message"),
    [
        (5, "study=5 must be a mapping"),
        ({}, "study.grid must be a mapping of keys to lists"),
        ({"grid": [1]}, "study.grid must be a mapping of keys to lists"),
        ({"grid": {"seed": 3}}, r"study\.grid\.seed=3 must be a list of values"),
        ({"grid": {"seed": []}}, r"study\.grid\.seed=\[\] must be a list of values"),
        ({"grid": {"seed": [1, 2, 1]}}, r"study\.grid\.seed has 1 twice"),
        ({"key": "seed", "values": [1]}, r"study\.key is unknown\. There is: grid, kind, settings"),
        ({"kind": "camvid", "grid": {"seed": [1]}}, "Did you mean 'camvid_table'"),
        ({"grid": {"seed": [1]}, "settings": {1: 5}}, "study.settings must map values to settings"),
    ],
)
def test_other_studies_are_refused(study: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        planned(composed(study))


@pytest.mark.parametrize(
    ("study", "message"),
    [
        ("{grid:{sed:[1]}}", "sed is unknown: neither replicas.grid, study.grid nor study.settings can set it"),
        ("{grid:{seed:[0,1],dropout.init_p:[0.1,0.5,2]}}", "dropout.init_p=2 must lie strictly between"),
        ("{grid:{name:[a,b]},settings:{b:{data.num_data:ten}}}", "data.num_data='ten' must be an integer"),
    ],
)
def test_every_value_is_checked_before_the_first_run(
    study: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        check_command([f"study={study}"], CONF)


def test_a_value_that_only_runs_have_is_no_gap() -> None:
    check_command(["experiment=csv", "data.target=y", "study={grid:{data.path:[a.csv,b.csv]}}"], CONF)


def test_a_key_that_an_experiment_does_not_vary_is_added_on_purpose() -> None:
    with pytest.raises(UserError, match=r"study\.grid has no 'seed', this study varies data\.name: add a key with"):
        check_command(["experiment=uci_table", "study={grid:{seed:[0,1]}}"], CONF)
    runs = planned(compose_config(["experiment=uci_table", "++study.grid={seed:[0,1]}"], CONF))
    assert [run.folder for run in runs[:2]] == ["data.name=yacht,seed=0", "data.name=yacht,seed=1"]


def test_a_few_runs_have_every_value() -> None:
    runs = planned(composed({"grid": {"seed": [0, 1, 2], "optim.lr": [1, 2, 3, 4]}}))
    some = covering(runs)
    assert len(some) == 6
    for key in ("seed", "optim.lr"):
        assert {run.values[key] for run in some} == {run.values[key] for run in runs}


def test_the_report_knows_every_kind() -> None:
    kinds = (study_record.UCI_TABLE, study_record.CAMVID_TABLE, study_record.CONTROL_STUDY)
    assert (study_record.COMPARISON, *kinds) == KINDS
    assert kind_of(composed({"grid": {"seed": [0]}})) == study_record.COMPARISON


# A run of a study as a command ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        "yacht",
        "my file, it's \\ here\\",
        "a=b,c",
        "true",
        "12",
        "",
        "${oops}"[2:],
        12,
        -0.5,
        1e-05,
        True,
        None,
        [64, 64],
        ["a b", [1, None]],
        {"x": [1, "y z"], "k.l": 0.5},
    ],
)
def test_overrides_mean_what_they_say(value: Any) -> None:
    parsed = _parse(override("key", value)).value()
    assert str(parsed) == str(value) if isinstance(value, str) else parsed == value
    assert isinstance(value, str) or type(parsed) is type(value)


def test_the_command_of_a_run_is_without_the_study() -> None:
    given = ["experiment=camvid_table", "seed=3", "+study.x=1", "~study.settings", "dropout=fixed"]
    assert own_overrides(given, {"seed": 1, "dropout.kind": "none"}) == [
        "experiment=camvid_table",
        "dropout=fixed",
        "study=null",
        "seed=1",
        "dropout.kind=none",
    ]


def test_a_run_has_a_command_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["experiment=uci_table", "study.grid={data.name:[yacht]}", f"hydra.run.dir={tmp_path}"]
    monkeypatch.setattr(sys, "argv", ["train.py", *given])
    place = tmp_path / "it's 1"
    with hydra_as_before():
        compose_with_hydra(given, CONF, tmp_path)
        with as_own_command({"seed": 1}, place, None):
            assert sys.argv == ["train.py", "experiment=uci_table", "study=null", "seed=1"]
            job = HydraConfig.get()
            assert list(job.overrides.task) == sys.argv[1:]
            # Where Lightning tells further processes to go, and where they would write.
            assert (job.run.dir, job.runtime.output_dir) == (str(place), str(place))
        assert sys.argv == ["train.py", *given]
        assert HydraConfig.get().runtime.output_dir == str(tmp_path)
        with as_own_command({"seed": 1}, place, place / "last.ckpt"):
            # run.json has the command without what makes it a continuation.
            assert from_the_start(sys.argv) == ["train.py", "experiment=uci_table", "study=null", "seed=1"]
            assert _parse(sys.argv[4]).value() == str(place / "last.ckpt")
            assert continued(sys.argv[1:]) == sys.argv[1:]
        assert sys.argv == ["train.py", *given]


def test_the_next_run_does_not_join_the_processes_of_the_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KEPT", "yes")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with processes_as_before():
        os.environ |= {"KEPT": "no", "WORLD_SIZE": "1"}
        torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    assert not torch.distributed.is_initialized()
    assert (os.environ["KEPT"], os.environ.get("WORLD_SIZE")) == ("yes", None)
