"""Bad input through the real commands: one message that names what is wrong, and nothing that looks finished."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.hardening.cases import CASES, Case
from tests.hardening.commands import Result, WarmCommands
from tests.hardening.more_cases import MORE
from tests.hardening.tiers import some
from tests.hardening.trained import Runs
from tests.hardening.trained_cases import TRAINED, TrainedCase, prepared

LONGEST_MESSAGE = 12  # lines: a few cases list what there is instead
MEMORY = {"AS": 24 << 30}  # a case that takes all memory shall fail, and not the machine
ALL = [*CASES, *some(MORE, every=4)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "a folder, für alle"
    place.mkdir()
    return place


def test_there_are_many_cases_and_no_two_alike() -> None:
    names = [case.name for case in [*CASES, *MORE, *TRAINED]]
    assert len(names) >= 250
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_a_mistake_is_told_in_one_message(case: Case, commands: WarmCommands, folder: Path) -> None:
    case.prepare(folder)
    result = commands.run(case.script, case.arguments, folder, limits=MEMORY, PYTHONPATH=str(folder))
    check(case, result, folder)
    left = [*folder.rglob("report.html"), *folder.rglob("summary.json")]
    assert not left, f"looks like a finished run: {left}"


@pytest.mark.parametrize("case", some(TRAINED, every=4), ids=lambda case: case.name)
def test_a_mistake_with_a_trained_network(case: TrainedCase, commands: WarmCommands, runs: Runs, folder: Path) -> None:
    arguments = prepared(case, runs, folder)
    before = {path for path in folder.rglob("*") if path.is_file()}
    result = commands.run(case.script, arguments, folder, limits=MEMORY)
    check(case, result, folder)
    left = {path.name for path in folder.rglob("*") if path.is_file() and path not in before}
    assert not left & {"report.html", "summary.json", "predictions.csv", "predictions.json", "results.csv"}, left


def check(case: Case | TrainedCase, result: Result, folder: Path) -> None:
    shown = f"exit code {result.code}\n{result.out[-2000:]}\n{result.err[-4000:]}"
    assert result.code == case.code, shown
    assert "Traceback" not in result.out + result.err, shown
    assert result.message, shown
    assert len(result.message.splitlines()) <= LONGEST_MESSAGE, shown
    for name in case.named:
        assert name in result.message, f"{name!r} is not named: {shown}"
    assert not [*folder.rglob("OWNED")], "a checkpoint's code was run"
