"""Every experiment x dropout composes, is built and runs one step; every choice and every sweep composes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from tests.vision_files import write_camvid, write_mnist, write_pictures, write_scene_folder

from concrete_dropout.cli.check import check_command, check_config
from concrete_dropout.cli.compose import compose_config, plain
from concrete_dropout.cli.run import run
from concrete_dropout.cli.study import planned, run_study
from concrete_dropout.data.uci_sets import SETS
from concrete_dropout.runfolder import RUN, SUMMARY, RunFolder

CONF = Path(__file__).parents[1] / "conf"
GROUPS = sorted(path.name for path in CONF.iterdir() if path.is_dir() and path.name not in ("hydra", "experiment"))
CHOICES = [(group, path.stem) for group in GROUPS for path in sorted((CONF / group).glob("*.yaml"))]
EXPERIMENTS = sorted(path.stem for path in (CONF / "experiment").glob("*.yaml"))
DROPOUT = ("none", "fixed", "concrete")
TINY = [
    "trainer=cpu",
    "trainer.max_steps=1",
    "trainer.limit_val_batches=1",
    "trainer.limit_test_batches=1",
    "task.val_samples=2",
    "task.test_samples=2",
    "data.eval_batch_size=2",
    "logger=none",
]
MLP = ["model.hidden=[8,8]"]
CROPS = ["data.crop=32", "data.batch_size=2"]
CACHE = ["data.cache_dir=cache"]
DENSENET = ["model.blocks=[1,1,1]", "model.growth=4", "model.first_filters=8", *CROPS]
CAMVID = [*DENSENET, *CACHE, "trainer.check_val_every_n_epoch=1"]
AGENT = [
    "agent.episodes=1",
    "agent.search.iterations=1",
    "agent.search.scouting=1",
    "agent.starts=2",
    "policy.size=2",
    *MLP,
]
MNIST = ["data.val_size=20", *MLP]
# experiment -> what it needs beside, and what makes it small
SPECIAL: dict[str, list[str]] = {
    "camvid": CAMVID,
    "camvid_small": CAMVID,
    "camvid_table": [*CAMVID, "study.grid.seed=[0]"],
    "cartpole": AGENT,
    "cartpole_study": [*AGENT, "study.grid.seed=[0]"],
    "control": [*AGENT, "env.steps=3"],
    "csv": ["data.path=table.csv", "data.target=y", *MLP],
    "digits": MLP,
    "image_folder": ["data.root=pictures", "data.image_size=32", "model.name=resnet18"],
    "mnist": MNIST,
    "mnist_data_size": [*MNIST, "study.grid={seed:[0],data.train_size:[10,20]}"],
    "mnist_length_scale": [*MNIST, "study.grid={seed:[0],dropout.length_scale:[0.1]}"],
    "mnist_width": [*MNIST, "study.grid={seed:[0],model.hidden:[[4],[8]]}"],
    "scenes": ["data.num_train=4", "data.num_val=2", "data.num_test=2", *DENSENET],
    "seg_folder": ["data.root=scenes", "data.classes=[road,sky]", "model.encoder_name=resnet18", *CROPS, *CACHE],
    "synthetic": MLP,
    "synthetic_study": ["replicas.grid={data.num_data:[5,10],seed:[0,1]}", *MLP],
    "uci": MLP,
    "uci_table": ["study.grid={data.name:[yacht]}", *MLP],
    "uci_rmse": ["study.grid={data.name:[energy]}", *MLP],  # a set whose settings leave the number of steps alone
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with small data sets of every kind, in the layouts of the real ones."""
    place = tmp_path_factory.mktemp("place")
    rng = np.random.default_rng(0)
    rows = ["a,b,y", *(f"{a},{'uv'[i % 2]},{a + i % 2}" for i, a in enumerate(rng.standard_normal(60)))]
    (place / "table.csv").write_text("\n".join(rows))
    write_mnist(place / "data" / "mnist", rng)
    write_camvid(place / "data" / "camvid", rng)
    write_scene_folder(place / "scenes", rng)
    write_pictures(place / "pictures", rng)
    for entry in SETS:
        write_set(place / "data" / "uci" / entry.folder / "data", num_features=len(entry.features), rng=rng)
    return place


def write_set(folder: Path, num_features: int, rng: np.random.Generator, num_rows: int = 30, splits: int = 2) -> None:
    folder.mkdir(parents=True)
    np.savetxt(folder / "data.txt", rng.standard_normal((num_rows, num_features + 1)))
    np.savetxt(folder / "index_features.txt", np.arange(num_features), fmt="%d")
    np.savetxt(folder / "index_target.txt", [num_features], fmt="%d")
    np.savetxt(folder / "n_splits.txt", [splits], fmt="%d")
    for split in range(splits):
        order = rng.permutation(num_rows)
        np.savetxt(folder / f"index_train_{split}.txt", order[3:], fmt="%d")
        np.savetxt(folder / f"index_test_{split}.txt", order[:3], fmt="%d")


@pytest.fixture
def in_place(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(place)
    monkeypatch.setenv("DATA_DIR", str(place / "data"))
    return place


def test_there_are_experiments_and_choices() -> None:
    assert {"synthetic", "uci", "csv"} <= set(EXPERIMENTS)
    assert set(SPECIAL) == set(EXPERIMENTS)
    assert {"data", "model", "task", "dropout", "optim", "trainer", "callbacks", "logger", "sweep", "paths"} <= {
        *GROUPS
    }


@pytest.mark.parametrize("dropout", DROPOUT)
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_runs_one_step(
    experiment: str, dropout: str, in_place: Path, tmp_path: Path, dispatch: Callable[..., None]
) -> None:
    overrides = [f"experiment={experiment}", f"dropout={dropout}", *TINY, *SPECIAL[experiment]]
    cfg = compose_config(overrides, CONF, run_dir=tmp_path)
    check_config(plain(cfg))
    dispatch(cfg, tmp_path)
    runs = {tmp_path: dropout}
    if cfg.study is not None:
        runs = {tmp_path / item.folder: item.values.get("dropout.kind", dropout) for item in planned(cfg)}
    for folder, kind in runs.items():
        record = RunFolder(folder).read_json(RUN)
        assert (record["state"], record["step"], record["dropout"]) == ("finished", 1, kind)
        assert (folder / "report.html").is_file()
        assert (folder / "checkpoints" / "last.ckpt").is_file()
        if cfg.replicas.grid is None:
            summary = RunFolder(folder).read_json(SUMMARY)
            assert np.isfinite(summary["metrics"]["test/nll" if cfg.agent._target_ is None else "test/reward"])
            assert bool(summary["probabilities"]) is (kind != "none")


@pytest.fixture
def dispatch() -> Callable[..., None]:
    """As train.py chooses between one run, replicas, an agent and a study."""
    from concrete_dropout.cli.agent_run import run_agent
    from concrete_dropout.cli.replicated import run_replicas

    def one(cfg, folder):  # type: ignore[no-untyped-def]
        if cfg.agent._target_ is not None:
            run_agent(cfg, folder, CONF)
        else:
            run(cfg, folder, CONF) if cfg.replicas.grid is None else run_replicas(cfg, folder, CONF)

    def choose(cfg, folder):  # type: ignore[no-untyped-def]
        one(cfg, folder) if cfg.study is None else run_study(cfg, folder, one)

    return choose


@pytest.mark.parametrize(("group", "choice"), CHOICES, ids=lambda value: value)
def test_every_choice_composes(group: str, choice: str, in_place: Path) -> None:
    if group == "sweep":
        check_command([f"{group}={choice}"], CONF, multirun=True)
        return
    more = {
        ("data", "csv"): ["data.path=table.csv", "data.target=y"],
        ("data", "image_folder"): ["data.root=pictures"],
        ("data", "seg_folder"): ["data.root=scenes", "data.classes=[road,sky]"],
    }.get((group, choice), [])
    if group in ("env", "policy", "agent") or choice in ("transitions", "dynamics"):
        more = ["experiment=cartpole"]
    if group == "model" and choice != "mlp":
        more = ["experiment=scenes"]  # the default one sets widths of an MLP
    check_config(plain(compose_config([*more, f"{group}={choice}"], CONF)))


@pytest.mark.parametrize("kind", DROPOUT)
def test_kinds_of_dropout_have_the_same_keys(kind: str) -> None:
    """A flag that is flipped must not make another key unknown."""
    files = {name: OmegaConf.load(CONF / "dropout" / f"{name}.yaml") for name in DROPOUT}
    assert {**files[kind], "kind": None} == {**files["concrete"], "kind": None}


@pytest.mark.parametrize("group", ["optim", "trainer"])
def test_choices_of_a_group_have_the_same_keys(group: str) -> None:
    keys = {tuple(OmegaConf.load(path)) for path in (CONF / group).glob("*.yaml")}
    assert len(keys) == 1


@pytest.mark.parametrize("path", sorted((CONF / "experiment").glob("*.yaml")), ids=lambda path: path.stem)
def test_an_experiment_begins_with_its_command(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert lines[0] == "# @package _global_"
    assert lines[1].startswith(f"# python train.py experiment={path.stem}")


def test_an_experiment_wins_over_groups_and_the_command_line_over_it() -> None:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        assert compose("train").model.hidden == [1024, 1024, 1024]
        assert compose("train", ["experiment=uci"]).model.hidden == [50, 50]
        assert compose("train", ["experiment=uci", "model.hidden=[3]"]).model.hidden == [3]
        assert compose("train", ["experiment=uci", "optim=sgd"]).optim.lr == 1e-2
