"""What a stopped run tells its user."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from concrete_dropout.cli.check import _parse
from concrete_dropout.cli.entry import continued
from concrete_dropout.cli.stopped import continue_command, how_to_continue
from concrete_dropout.runfolder import RUN, RunFolder


@pytest.mark.parametrize("name", ["run", "my run", "a=b,c", "[1]"])
def test_the_command_can_be_typed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(continue_command(tmp_path / name / "last.ckpt"))
    assert words[:2] == ["python", "train.py"]
    assert _parse(words[2]).value() == f"{name}/last.ckpt"


def test_a_study_is_taken_up_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "study.json").touch()
    assert "hydra.run.dir=study" in how_to_continue(tmp_path / "study" / "yacht")


def test_settings_that_name_code_are_in_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = RunFolder(tmp_path / "run")
    files.write_json(RUN, {"step": 5, "checkpoints": {"last": "checkpoints/last.ckpt"}})
    files.write_text("checkpoints/last.ckpt", "")
    files.write_text(
        ".hydra/overrides.yaml", "- seed=1\n- model._target_=my_package.Net\n- env.reward=my_module.reward\n"
    )
    command = next(line for line in how_to_continue(tmp_path / "run").splitlines() if "python train.py" in line)
    arguments = shlex.split(command)[2:]
    own = ["model._target_=my_package.Net", "env.reward=my_module.reward"]
    assert arguments == ["ckpt_path=run/checkpoints/last.ckpt", *own]
    assert continued(arguments)[:4] == ["seed=1", *arguments]
