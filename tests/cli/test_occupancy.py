"""Folders of commands: a new one for each, taken before anything is written, and by the first process alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf
from tests.test_folderlock import held_elsewhere

from concrete_dropout.cli.leftovers import discard
from concrete_dropout.cli.occupancy import OwnFolder, discard_unstarted, own_folder
from concrete_dropout.folderlock import LOCK


@pytest.fixture(autouse=True)
def _given_back() -> Iterator[None]:
    with OwnFolder.held:
        yield


def config(folder: Path, *overrides: str) -> DictConfig:
    """As Hydra gives it to its callbacks."""
    hydra = {"run": {"dir": str(folder)}, "sweep": {"dir": str(folder)}, "overrides": {"hydra": list(overrides)}}
    made = OmegaConf.create({"hydra": hydra, "paths": {"output_dir": str(folder.parent)}})
    OmegaConf.set_readonly(made.hydra, True)
    OmegaConf.set_struct(made, True)
    return made


@pytest.mark.parametrize("kind", ["run", "sweep"])
def test_a_clock_that_was_put_back_overwrites_nothing(tmp_path: Path, kind: str) -> None:
    (tmp_path / "outputs" / "12-00-00").mkdir(parents=True)
    given = config(tmp_path / "outputs" / "12-00-00")
    start = OwnFolder().on_run_start if kind == "run" else OwnFolder().on_multirun_start
    start(given)
    assert given.hydra[kind].dir == str(tmp_path / "outputs" / "12-00-00-2")
    assert f"hydra.{kind}.dir={tmp_path}/outputs/12-00-00-2" in given.hydra.overrides.hydra
    assert OwnFolder.folder == tmp_path / "outputs" / "12-00-00-2"
    assert (OwnFolder.folder / LOCK).is_file()
    discard_unstarted()
    assert not OwnFolder.folder.exists()


def test_a_folder_that_was_named_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    given = config(tmp_path / "mine", f"hydra.run.dir='{tmp_path}/mine'")
    OwnFolder().on_run_start(given)
    assert OwnFolder.folder == tmp_path / "mine"


def test_a_folder_of_another_process_ends_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with held_elsewhere(tmp_path / "mine") as first:
        with pytest.raises(SystemExit) as end:
            OwnFolder().on_run_start(config(tmp_path / "mine", f"hydra.run.dir={tmp_path}/mine"))
        assert end.value.code == 2
        assert f"mine is in use by process {first.pid} on " in capsys.readouterr().err
        discard(tmp_path / "mine", tmp_path)
        assert (tmp_path / "mine" / LOCK).is_file()  # nothing of the other's is taken away


def test_further_processes_of_a_run_share_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    with held_elsewhere(tmp_path):
        OwnFolder().on_run_start(config(tmp_path, f"hydra.run.dir={tmp_path}"))
        with own_folder(tmp_path):
            assert OwnFolder.folder is None
