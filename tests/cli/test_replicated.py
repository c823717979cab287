from __future__ import annotations

from pathlib import Path

import pytest
import torch

from concrete_dropout import kl_divergence
from concrete_dropout.cli.compose import compose_config
from concrete_dropout.cli.replicated import build_replicas, grid_points, run_replicas
from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import REPLICA_LABELS, REPLICAS, RUN, RunFolder
from concrete_dropout.tasks.replicas import ReplicatedTask

CONF = Path(__file__).parents[2] / "conf"
TINY = ["trainer=cpu", "trainer.max_steps=4", "model.hidden=[8]", "task.test_samples=3", "logger=none"]


def test_the_grid_is_every_combination() -> None:
    cfg = compose_config(["replicas.grid={data.num_data:[5,10],seed:[0,1,2]}"], CONF)
    points = grid_points(cfg)
    assert len(points) == 6
    assert points[0] == {"data.num_data": 5, "seed": 0}
    assert points[-1] == {"data.num_data": 10, "seed": 2}


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ("{optim.lr:[1,2]}", "replicas.grid cannot vary optim.lr"),
        ("{seed:3}", "replicas.grid.seed=3 must be a list"),
        ("{seed:[]}", "must be a list"),
        ("{data.split:everything}", "must be a list of values or all"),
        ("{}", "must be a mapping of keys to lists"),
    ],
)
def test_other_grids_are_refused(grid: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        grid_points(compose_config([f"replicas.grid={grid}"], CONF))


def test_an_unknown_key_is_refused(tmp_path: Path) -> None:
    cfg = compose_config(["replicas.grid={data.nmu_data:[5,10]}", *TINY], CONF, run_dir=tmp_path)
    with pytest.raises(UserError, match=r"data\.nmu_data is unknown"):
        run_replicas(cfg, tmp_path, CONF)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sizes and two initial p."""
    path = tmp_path_factory.mktemp("replicas")
    grid = "replicas.grid={data.num_data:[6,20],dropout.init_p:[0.1,0.4]}"
    run_replicas(compose_config([grid, *TINY, "data.num_test=7", "data.num_val=0"], CONF, run_dir=path), path, CONF)
    return path


def test_what_a_run_of_replicas_leaves(folder: Path) -> None:
    files = RunFolder(folder)
    record = files.read_json(RUN)
    assert (record["state"], record["replicas"], record["num_train"]) == ("finished", 4, [6, 20])
    assert files.read_json(REPLICA_LABELS)["keys"] == ["data.num_data", "dropout.init_p"]
    rows = files.read_table(REPLICAS)
    assert [(row["data.num_data"], row["num_train"], row["dropout.init_p"]) for row in rows] == [
        ("6", "6", "0.1"),
        ("6", "6", "0.4"),
        ("20", "20", "0.1"),
        ("20", "20", "0.4"),
    ]
    assert len({row["test/log_likelihood"] for row in rows}) == 4
    assert "replica" in (folder / "report.html").read_text()


def test_initial_p_are_recorded_for_each_replica(folder: Path) -> None:
    for row in RunFolder(folder).read_table(REPLICAS):
        starts = [float(value) for name, value in row.items() if name.startswith("initial_p/")]
        assert starts == pytest.approx([float(row["dropout.init_p"])] * 2, rel=1e-6)


def test_every_replica_has_a_checkpoint_of_its_own(folder: Path) -> None:
    states = [
        torch.load(folder / "replicas" / str(index) / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
        for index in range(4)
    ]
    weights = [state["network.network.layers.1.weight"] for state in states]
    assert not torch.equal(weights[0], weights[1])


@pytest.mark.parametrize(
    ("grid", "overrides"),
    [
        ("{dropout.length_scale:[0.1,3.0]}", []),
        ("{dropout.p:[0.05,0.6],dropout.length_scale:[1.0]}", ["dropout=fixed"]),
    ],
)
def test_each_replica_has_its_own_prior(grid: str, overrides: list[str], tmp_path: Path) -> None:
    cfg = compose_config([f"replicas.grid={grid}", *TINY, *overrides], CONF, run_dir=tmp_path)
    tasks = [task for _, task in build_replicas(cfg, tmp_path)[1]]
    alone = [kl_divergence(task.network).item() for task in tasks]
    assert ReplicatedTask(tasks).stacked.kl().tolist() == pytest.approx(alone, rel=1e-5)
    assert alone[0] != pytest.approx(alone[1], rel=0.01)
