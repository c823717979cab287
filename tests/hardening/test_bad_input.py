"""Bad input through the real commands: one message that names what is wrong, and nothing that looks finished."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.hardening.cases import CASES, Case
from tests.hardening.commands import WarmCommands

LONGEST_MESSAGE = 12  # lines: a few cases list what there is instead


def test_there_are_many_cases_and_no_two_alike() -> None:
    assert len(CASES) >= 80
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_mistake_is_told_in_one_message(case: Case, commands: WarmCommands, tmp_path: Path) -> None:
    folder = tmp_path / "a folder, für alle"
    folder.mkdir()
    case.prepare(folder)
    result = commands.run(case.script, case.arguments, folder)
    shown = f"exit code {result.code}\n{result.out[-2000:]}\n{result.err[-4000:]}"
    assert result.code == case.code, shown
    assert "Traceback" not in result.out + result.err, shown
    assert result.message, shown
    assert len(result.message.splitlines()) <= LONGEST_MESSAGE, shown
    for name in case.named:
        assert name in result.message, f"{name!r} is not named: {shown}"
    assert not (folder / "OWNED").exists(), "a checkpoint's code was run"
    left = [*folder.rglob("report.html"), *folder.rglob("summary.json")]
    assert not left, f"looks like a finished run: {left}"
