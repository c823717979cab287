"""States of runs: what run.json says, and what it cannot say."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from concrete_dropout.dashboard.find import find
from concrete_dropout.dashboard.state import judge
from concrete_dropout.heartbeat import beating
from concrete_dropout.runfolder import HEARTBEAT, METRICS, RUN


def judged(folder: Path, **options: Any) -> tuple[str, str]:
    place = find(folder)[0]
    return judge(folder, json.loads((folder / RUN).read_text()), place.files, **options)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"state": "finished", "error": None}, ("finished", "")),
        ({"state": "failed", "error": "ValueError: bad\nmore"}, ("crashed", "ValueError: bad")),
        ({"state": "failed"}, ("crashed", "no message was recorded")),
        ({"state": "interrupted", "error": "Stopped: by SIGTERM"}, ("stopped", "Stopped: by SIGTERM")),
    ],
)
def test_a_recorded_end_counts(tmp_path: Path, record: dict[str, Any], expected: tuple[str, str]) -> None:
    (tmp_path / RUN).write_text(json.dumps(record))
    (tmp_path / HEARTBEAT).write_text("{}")
    assert judged(tmp_path) == expected


def test_a_run_with_a_heart_is_running_however_old_its_files_are(tmp_path: Path) -> None:
    (tmp_path / RUN).write_text('{"state": "running"}')
    with beating(tmp_path):
        assert judged(tmp_path, now=time.time() + 1e6) == ("running", "")


def test_a_run_whose_process_is_gone_has_crashed(tmp_path: Path) -> None:
    (tmp_path / RUN).write_text('{"state": "running"}')
    with beating(tmp_path):
        heart = json.loads((tmp_path / HEARTBEAT).read_text())
    (tmp_path / HEARTBEAT).write_text(json.dumps({**heart, "born": "1"}))
    state, reason = judged(tmp_path)
    assert state == "crashed"
    assert "its process is gone" in reason


def test_without_a_heart_silence_decides(tmp_path: Path) -> None:
    (tmp_path / RUN).write_text('{"state": "running"}')
    (tmp_path / METRICS).write_text("step,epoch,metric,value\n")
    assert judged(tmp_path) == ("running", "")
    state, reason = judged(tmp_path, now=time.time() + 3600)
    assert state == "crashed"
    assert reason.startswith("no sign of life since 2")


def test_files_from_the_future_are_no_sign_of_life(tmp_path: Path) -> None:
    """Those of before the clock was put back by a day."""
    (tmp_path / RUN).write_text('{"state": "running"}')
    assert judged(tmp_path, now=time.time() - 60)[0] == "running"
    assert judged(tmp_path, now=time.time() - 86_400)[0] == "crashed"


def test_a_run_that_says_nothing_is_damaged(tmp_path: Path) -> None:
    (tmp_path / RUN).write_text("{}")
    assert judged(tmp_path, now=time.time() + 3600) == ("damaged", "run.json does not say how the run ended")
    assert judged(tmp_path, problem="run.json cannot be read")[0] == "damaged"
