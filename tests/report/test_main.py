from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from concrete_dropout.report.__main__ import main


def test_the_command_builds_the_report(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(run_dir)]) == 0
    assert capsys.readouterr().out.strip() == str(run_dir / "report.html")
    assert (run_dir / "report.html").stat().st_size > 1_000_000


def test_a_folder_without_a_run_is_one_line_and_code_2(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "concrete_dropout.report", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1
    assert f"Error: {tmp_path} holds no run" in result.stderr


def test_one_bad_folder_does_not_stop_the_others(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(run_dir / "absent"), str(run_dir)]) == 2
    captured = capsys.readouterr()
    assert "is no folder" in captured.err
    assert captured.out.strip().endswith("report.html")
