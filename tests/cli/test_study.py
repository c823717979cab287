"""A study of runs: all of them made, failed ones recorded, stopped ones continued; and through train.py."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig
from tests.test_train import Command, read_json, read_table

from concrete_dropout.cli.compose import compose_config, plain
from concrete_dropout.cli.run import write_config
from concrete_dropout.cli.study import RunsFailed, planned, point, run_study
from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import RUN, STUDY, RunFolder

CONF = Path(__file__).parents[2] / "conf"
Run = Callable[[DictConfig, Path], None]


def finish(cfg: DictConfig, folder: Path) -> None:
    RunFolder(folder).write_json(RUN, {"state": "finished"})


@cache
def composed(*overrides: str) -> DictConfig:
    return compose_config(overrides, CONF)


@pytest.fixture
def cfg() -> DictConfig:
    return composed("experiment=uci_table", "study.grid={data.name:[yacht,protein,wine]}").copy()


@pytest.fixture
def seeds() -> DictConfig:
    return composed("study={grid:{dropout.kind:[none,fixed],seed:[3,4]}}").copy()


def states(folder: Path) -> list[tuple[str, str | None]]:
    return [(entry["state"], entry["error"]) for entry in RunFolder(folder).read_json(STUDY)["runs"]]


def test_a_point_changes_a_copy(cfg: DictConfig, tmp_path: Path) -> None:
    other = point(cfg, {"seed": 7, "data.name": "wine"}, tmp_path / "wine")
    assert (other.data.name, other.data.seed, other.paths.run_dir) == ("wine", 7, str(tmp_path / "wine"))
    assert other.study is None
    assert (cfg.data.name, cfg.seed) == ("yacht", 0)


def test_every_value_has_a_run_with_its_settings(cfg: DictConfig, tmp_path: Path) -> None:
    seen: list[tuple[str, int, Path]] = []

    def run(own: DictConfig, folder: Path) -> None:
        seen.append((own.data.name, own.data.batch_size, folder))
        finish(own, folder)

    run_study(cfg, tmp_path, run)
    assert seen == [(name, size, tmp_path / name) for name, size in (("yacht", 64), ("protein", 512), ("wine", 64))]
    record = RunFolder(tmp_path).read_json(STUDY)
    assert (record["state"], record["kind"], record["experiment"]) == ("finished", "uci_table", "uci_table")
    assert states(tmp_path) == [("finished", None)] * 3
    assert (tmp_path / "report.html").is_file()


def test_a_grid_of_several_keys(seeds: DictConfig, tmp_path: Path) -> None:
    seen: list[tuple[Any, ...]] = []

    def run(own: DictConfig, folder: Path) -> None:
        seen.append((own.dropout.kind, own.seed, own.data.seed, folder.name, own.logger.wandb.group, own.ckpt_path))
        finish(own, folder)

    run_study(seeds, tmp_path, run)
    group = f"synthetic/{tmp_path.name}"
    assert seen == [
        (kind, seed, seed, f"dropout.kind={kind},seed={seed}", group, None)
        for kind in ("none", "fixed")
        for seed in (3, 4)
    ]
    record = RunFolder(tmp_path).read_json(STUDY)
    assert (record["kind"], record["seed"]) == ("comparison", None)
    assert record["grid"] == {"dropout.kind": ["none", "fixed"], "seed": [3, 4]}
    assert record["runs"][1]["values"] == {"dropout.kind": "none", "seed": 4}


def test_a_group_that_was_chosen_stays(tmp_path: Path) -> None:
    cfg = compose_config(["study={grid:{seed:[0]}}", "logger.wandb.group=mine"], CONF, run_dir=tmp_path)
    seen: list[str] = []
    run_study(cfg, tmp_path, lambda own, folder: (seen.append(own.logger.wandb.group), finish(own, folder)))
    assert seen == ["mine"]


def test_a_failed_run_does_not_take_the_others_with_it_and_is_the_only_one_made_again(
    cfg: DictConfig, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []

    def run(own: DictConfig, folder: Path, broken: str = "protein") -> None:
        seen.append(own.data.name)
        if own.data.name == broken:
            raise RuntimeError("the disk is full")
        finish(own, folder)

    with pytest.raises(RunsFailed, match=r"1 of 3 runs failed \(protein\).*hydra\.run\.dir=") as end:
        run_study(cfg, tmp_path, run)
    assert isinstance(end.value.code, str)  # Python prints it, and exits with 1
    assert RunFolder(tmp_path).read_json(STUDY)["state"] == "failed"
    assert states(tmp_path) == [("finished", None), ("failed", "the disk is full"), ("finished", None)]
    assert "Traceback" in capfd.readouterr().err
    assert "RuntimeError: the disk is full" in (tmp_path / "protein" / "run.log").read_text()
    seen.clear()
    run_study(cfg, tmp_path, lambda own, folder: run(own, folder, broken=""))
    assert seen == ["protein"]
    assert RunFolder(tmp_path).read_json(STUDY)["state"] == "finished"


def test_a_mistake_is_told_in_one_line_and_leaves_no_folder(
    cfg: DictConfig, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def run(own: DictConfig, folder: Path) -> None:
        folder.mkdir()
        (folder / "run.log").touch()
        raise UserError("there is no such file")

    with pytest.raises(RunsFailed, match="3 of 3 runs failed"):
        run_study(cfg, tmp_path, run)
    assert "\nwine failed: there is no such file\n" in capfd.readouterr().err
    assert not (tmp_path / "wine").exists()
    assert "there is no such file" in (tmp_path / "report.html").read_text()


def test_a_stopped_run_goes_on_from_its_checkpoint(seeds: DictConfig, tmp_path: Path) -> None:
    first, second = (tmp_path / run.folder for run in planned(seeds)[:2])
    seen: list[tuple[str, str | None]] = []

    def run(own: DictConfig, folder: Path) -> None:
        seen.append((folder.name, own.ckpt_path))
        if folder == second and len(seen) == 2:
            (folder / "checkpoints").mkdir(parents=True)
            (folder / "checkpoints" / "last.ckpt").touch()
            RunFolder(folder).write_json(RUN, {"state": "running"})
            raise KeyboardInterrupt
        finish(own, folder)

    with pytest.raises(KeyboardInterrupt):
        run_study(seeds, tmp_path, run)
    assert [state for state, _ in states(tmp_path)] == ["finished", "interrupted", "pending", "pending"]
    started = RunFolder(tmp_path).read_json(STUDY)["started"]
    run_study(seeds, tmp_path, run)
    assert first.name not in [name for name, _ in seen[2:]]
    assert seen[2] == (second.name, str(second / "checkpoints" / "last.ckpt"))
    assert [checkpoint for _, checkpoint in seen[3:]] == [None, None]
    assert RunFolder(tmp_path).read_json(STUDY)["started"] == started


def test_a_checkpoint_that_does_not_fit_says_what_to_delete(seeds: DictConfig, tmp_path: Path) -> None:
    place = tmp_path / planned(seeds)[0].folder
    (place / "checkpoints").mkdir(parents=True)
    (place / "checkpoints" / "last.ckpt").touch()
    RunFolder(place).write_json(RUN, {"state": "running"})

    def run(own: DictConfig, folder: Path) -> None:
        if own.ckpt_path is not None:
            raise UserError("it is of another network")
        finish(own, folder)

    with pytest.raises(RunsFailed, match="1 of 4"):
        run_study(seeds, tmp_path, run)
    state, error = states(tmp_path)[0]
    assert state == "failed"
    assert error is not None
    assert error.startswith("it is of another network. Delete ")
    assert place.name in error


def test_damaged_records_are_made_again(seeds: DictConfig, tmp_path: Path) -> None:
    run_study(seeds, tmp_path, finish)
    place = tmp_path / planned(seeds)[1].folder
    (place / RUN).write_text('{"state": "fini')
    (tmp_path / STUDY).write_text("[")
    seen: list[Path] = []
    run_study(seeds, tmp_path, lambda own, folder: (seen.append(folder), finish(own, folder)))
    assert seen == [place]


def test_one_checkpoint_is_not_for_a_study(seeds: DictConfig, tmp_path: Path) -> None:
    seeds.ckpt_path = "x.ckpt"
    with pytest.raises(UserError, match=r"ckpt_path=x\.ckpt is of one run, and this is a study of 4"):
        run_study(seeds, tmp_path, finish)


def test_an_unknown_key_is_refused_before_the_first_run(tmp_path: Path) -> None:
    cfg = compose_config(["study={grid:{name:[a]},settings:{a:{optim.lrr:1}}}"], CONF, run_dir=tmp_path)
    with pytest.raises(UserError, match=r"optim\.lrr is unknown"):
        run_study(cfg, tmp_path, lambda own, folder: pytest.fail("a run was made"))
    assert list(tmp_path.iterdir()) == []


# python train.py -----------------------------------------------------------------------------------------------------

STEPS, EPOCH, LOGGED = 300, 30, 15
STUDY_COMMAND = [
    "trainer=cpu",
    "data.num_data=40",
    "data.num_val=30",
    "data.num_test=20",
    "model.hidden=[8]",
    "task.val_samples=2",
    "task.test_samples=5",
    "callbacks.uncertainty.band_samples=5",
    "logger=none",
    f"trainer.max_steps={STEPS}",
    f"data.min_steps_per_epoch={EPOCH}",
    f"trainer.log_every_n_steps={LOGGED}",
    # The last run cannot be built: its pattern names no dropout.
    "study={grid:{name:[one,two,broken]},settings:{two:{seed:1},broken:{dropout.include:[nothing]}}}",
]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Command, Command]:
    """A study that was killed in its second run, and taken up again: its folder and both commands."""
    place = tmp_path_factory.mktemp("study")
    folder = place / "work" / "my_study"
    arguments = [*STUDY_COMMAND, "hydra.run.dir=my_study"]
    killed = Command(place, *arguments).stop(folder / "two", signal.SIGKILL, after=EPOCH)
    return folder, killed, Command(place, *arguments).wait()


def test_a_finished_run_of_another_config_is_not_taken_for_this_one(seeds: DictConfig, tmp_path: Path) -> None:
    def run(own: DictConfig, folder: Path) -> None:
        write_config(plain(own), folder, CONF)
        finish(own, folder)

    run_study(seeds, tmp_path, run)
    again: list[Path] = []
    seeds.threads, seeds.paths.data_dir, seeds.dropout.init_p = 1, "elsewhere", 0.3
    run_study(
        seeds, tmp_path, lambda own, folder: again.append(folder)
    )  # none changes a result without Concrete layers
    assert again == []
    seeds.optim.lr = 0.5
    with pytest.raises(
        UserError, match=r"none.*3.* is finished, but was made with optim\.lr=.* asks for optim\.lr=0\.5"
    ):
        run_study(seeds, tmp_path, run)


def test_a_killed_study_is_taken_up(study: tuple[Path, Command, Command]) -> None:
    folder, killed, resumed = study
    assert killed.code == -signal.SIGKILL
    assert resumed.code == 1, resumed.err
    assert "Error: 1 of 3 runs failed (broken)" in resumed.err
    assert "hydra.run.dir=my_study" in resumed.err
    assert "broken failed: dropout=concrete does not fit this model" in resumed.err
    assert "Traceback" not in resumed.err
    assert "=== one" not in resumed.out
    assert "=== two (2 of 3)" in resumed.out
    record = read_json(folder / "study.json")
    assert [entry["state"] for entry in record["runs"]] == ["finished", "finished", "failed"]
    assert record["command"].endswith("hydra.run.dir=my_study")


def test_the_killed_run_went_on_where_it_was(study: tuple[Path, Command, Command]) -> None:
    folder, _, _ = study
    steps = list(range(0, STEPS + 1, LOGGED))
    for name in ("one", "two"):
        rows = read_table(folder / name / "dropout.csv")
        assert [int(row["step"]) for row in rows if row["layer"] == "network.layers.0"] == steps
    run = read_json(folder / "two" / "run.json")
    assert (run["state"], run["step"], run["seed"]) == ("finished", STEPS, 1)
    log = (folder / "two" / "run.log").read_text()
    assert log.count("started: ") == 2
    assert log.count("finished") == 1
    assert (folder / "one" / "run.log").read_text().count("started: ") == 1
    assert not (folder / "broken").exists()


def test_every_run_has_a_command_of_its_own(study: tuple[Path, Command, Command]) -> None:
    folder, _, _ = study
    for name in ("one", "two"):
        command = read_json(folder / name / "run.json")["command"]
        assert command.startswith("python train.py trainer=cpu data.num_data=40")
        assert f"study=null name={name}" in command
        assert "ckpt_path" not in command
        saved = (folder / name / ".hydra" / "overrides.yaml").read_text()
        assert f"- name={name}\n" in saved
        assert "grid" not in saved


def test_the_report_of_a_study_has_its_runs(study: tuple[Path, Command, Command]) -> None:
    folder, _, resumed = study
    page = (folder / "report.html").read_text()
    assert "1 run failed." in page
    assert "does not fit this model" in page
    assert 'href="./two/report.html"' in page
    assert "could not be built" not in page
    assert "my_study/report.html" in resumed.out
    rows = read_table(folder / "table.csv")
    assert [(row["name"], row["runs"], row["expected_runs"]) for row in rows] == [
        ("one", "1", "1"),
        ("two", "1", "1"),
        ("broken", "0", "1"),
    ]
    score = read_json(folder / "two" / "summary.json")["metrics"]["test/log_likelihood"]
    assert float(rows[1]["log_likelihood"]) == pytest.approx(score)
