from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import DictConfig

from concrete_dropout.cli.compose import compose_config
from concrete_dropout.cli.study import point, run_study
from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import RUN, STUDY, RunFolder

CONF = Path(__file__).parents[2] / "conf"


@pytest.fixture
def cfg(tmp_path: Path) -> DictConfig:
    return compose_config(["experiment=uci_table", "study.values=[yacht,protein,wine]"], CONF, run_dir=tmp_path)


def test_a_point_changes_a_copy(cfg: DictConfig, tmp_path: Path) -> None:
    other = point(cfg, {"seed": 7, "data.name": "wine"}, tmp_path / "wine")
    assert (other.data.name, other.data.seed, other.paths.run_dir) == ("wine", 7, str(tmp_path / "wine"))
    assert other.study is None
    assert (cfg.data.name, cfg.seed) == ("yacht", 0)


def test_every_value_has_a_run_with_its_settings(cfg: DictConfig, tmp_path: Path) -> None:
    seen: list[tuple[str, int, Path]] = []

    def run(own: DictConfig, folder: Path) -> None:
        seen.append((own.data.name, own.data.batch_size, folder))
        RunFolder(folder).write_json(RUN, {"state": "finished"})

    run_study(cfg, tmp_path, run)
    assert seen == [(name, size, tmp_path / name) for name, size in (("yacht", 64), ("protein", 256), ("wine", 64))]
    record = RunFolder(tmp_path).read_json(STUDY)
    assert record["state"] == "finished"
    assert [entry["state"] for entry in record["runs"]] == ["finished"] * 3
    assert (tmp_path / "report.html").is_file()


def test_a_failed_run_does_not_take_the_others_with_it_and_is_the_only_one_made_again(
    cfg: DictConfig, tmp_path: Path
) -> None:
    seen: list[str] = []

    def run(own: DictConfig, folder: Path, broken: str = "protein") -> None:
        seen.append(own.data.name)
        if own.data.name == broken:
            raise RuntimeError("the disk is full")
        RunFolder(folder).write_json(RUN, {"state": "finished"})

    with pytest.raises(UserError, match=r"1 of 3 runs failed \(protein\).*hydra\.run\.dir="):
        run_study(cfg, tmp_path, run)
    record = RunFolder(tmp_path).read_json(STUDY)
    assert record["state"] == "failed"
    assert [(entry["state"], entry["error"]) for entry in record["runs"]] == [
        ("finished", None),
        ("failed", "the disk is full"),
        ("finished", None),
    ]
    seen.clear()
    run_study(cfg, tmp_path, lambda own, folder: run(own, folder, broken=""))
    assert seen == ["protein"]
    assert RunFolder(tmp_path).read_json(STUDY)["state"] == "finished"
