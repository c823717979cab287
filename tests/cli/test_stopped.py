"""What a stopped run tells its user."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from concrete_dropout.cli.check import _parse
from concrete_dropout.cli.stopped import continue_command, how_to_continue


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
