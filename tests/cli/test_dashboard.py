"""python dashboard.py as a user types it: help, what it prints, refusals, exit codes, no torch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.report.runs import write_run

from concrete_dropout.cli.dashboard import dashboard_command

ROOT = Path(__file__).parents[2]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_run(tmp_path / "outputs" / "synthetic" / "run")
    return tmp_path / "outputs"


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(ROOT / "dashboard.py"), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )


def test_a_page_is_built_and_told(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dashboard_command([str(runs)]) == 0
    said = capsys.readouterr().out
    assert "runs         1: 1 finished" in said
    assert (runs / "dashboard" / "index.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "nothing is no folder"),
        (["--nothing"], "unrecognized arguments: --nothing. See python dashboard.py --help"),
        (["--watch", "outputs"], "'outputs' is no number of seconds"),
        (["--watch", "0"], "is not between 0.5 and 3600"),
        (["--port", "70000"], "70000 is no port"),
        (["--serve", "--host", "0.0.0.0"], "runs are shown on this machine only"),
        (["--sweep", "nothing"], "nothing is no folder: give the one of a sweep or study"),
        (["wandb", "nothing"], "nothing is no folder"),
        (["wandb", "--push"], "unrecognized arguments: --push. See python dashboard.py wandb --help"),
    ],
)
def test_mistakes_are_one_message(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outputs").mkdir()
    assert dashboard_command(arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.strip().splitlines()) <= 3
    assert "Traceback" not in said


def test_the_traceback_is_there_for_those_who_ask(capsys: pytest.CaptureFixture[str]) -> None:
    assert dashboard_command(["/nothing", "--traceback"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_bug_is_exit_code_one(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*arguments: object, **keywords: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("concrete_dropout.dashboard.build.find", broken)
    assert dashboard_command([str(runs)]) == 1
    assert "Error: ZeroDivisionError: by zero. This is a bug" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["wandb"]])
def test_help_has_examples(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        dashboard_command([*arguments, "--help"])
    assert stopped.value.code == 0
    assert "examples:\n  python dashboard.py" in capsys.readouterr().out


def test_without_runs_the_way_to_one_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OUTPUT_DIR", raising=False)
    assert dashboard_command([]) == 2
    assert "python train.py makes it" in capsys.readouterr().err
    (tmp_path / "outputs").mkdir()
    assert dashboard_command([]) == 0
    assert "runs         0 so far" in capsys.readouterr().out
    assert dashboard_command(["wandb"]) == 2
    assert "has logged anything yet" in capsys.readouterr().err


def test_it_needs_neither_torch_nor_hydra(runs: Path) -> None:
    script = (
        "import sys; from concrete_dropout.cli.dashboard import dashboard_command\n"
        f"assert dashboard_command([{str(runs)!r}]) == 0\n"
        "print(sorted({'torch', 'hydra', 'pytorch_lightning', 'wandb'} & set(sys.modules)))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.splitlines()[-1] == "[]"


def test_serve_and_watch_until_ctrl_c(runs: Path) -> None:
    with start(str(runs), "--serve", "--watch", "0.5", "--port", "0") as process:
        assert process.stdout is not None
        lines: list[str] = []
        while not any(line.startswith("until") for line in lines):
            lines.append(process.stdout.readline())
            assert lines[-1], process.stderr and process.stderr.read()
        address = next(line.split()[1] for line in lines if line.startswith("serves"))
        with urllib.request.urlopen(address, timeout=10) as answer:
            assert b"Dashboard" in answer.read()
        write_run(runs / "synthetic" / "second")
        while "2 finished" not in lines[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        assert process.stderr is not None
        assert process.stderr.read() == "\nStopped by Ctrl-C.\n"
