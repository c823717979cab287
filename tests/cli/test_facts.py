"""What a run says about itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from concrete_dropout.cli.facts import OURS, commit, hardware, run_facts


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_the_commit_says_whether_files_were_changed(tmp_path: Path) -> None:
    assert commit(tmp_path) is None
    git(tmp_path, "init")
    (tmp_path / "code.py").touch()
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    clean = commit(tmp_path)
    assert clean is not None
    assert len(clean) == 12
    (tmp_path / "code.py").write_text("changed")
    assert commit(tmp_path) == f"{clean}+"


def test_the_command_can_be_typed_again() -> None:
    facts = run_facts(["/somewhere/train.py", "model.hidden=[8]", "name=my run"])
    assert facts["command"] == "python train.py 'model.hidden=[8]' 'name=my run'"
    assert all(facts["versions"][name] for name in ("python", OURS, "torch", "pytorch-lightning"))
    assert "cores" in hardware()


def test_without_git_or_a_commit_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init")
    assert commit(tmp_path) is None  # nothing was committed yet
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit(tmp_path) is None
    assert run_facts([str(tmp_path / "train.py")])["commit"] is None
