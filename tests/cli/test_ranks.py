"""What becomes of the errors of a run's processes."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from concrete_dropout.cli.ranks import _error
from concrete_dropout.cli.stopped import Stopped
from concrete_dropout.errors import RunFailedError, UserError
from concrete_dropout.runfolder import RUN, RunFolder

FINISHED = {"state": "finished", "error": None, "step": 20}


def failed(place: Path, refused: bool) -> ChildFailedError:
    """One rank has left a note, and ended with exit code 1."""
    note = {"time": time.monotonic(), "refused": refused, "message": "no such file", "traceback": "line 1"}
    (place / "error_1.json").write_text(json.dumps(note))
    failure = ProcessFailure(local_rank=1, pid=1, exitcode=1, error_file="none")
    return ChildFailedError("rank", {1: failure})


def test_a_refusal_leaves_the_record_of_an_earlier_run(tmp_path: Path) -> None:
    files = RunFolder(tmp_path)
    files.write_json(RUN, FINISHED)
    error = _error(failed(tmp_path, refused=True), tmp_path, tmp_path, before=FINISHED)
    assert isinstance(error, UserError)
    assert str(error) == "no such file"
    assert files.read_json(RUN) == FINISHED


@pytest.mark.parametrize(
    ("refused", "kind", "message"),
    [(True, UserError, "no such file"), (False, RunFailedError, "rank 1 failed: no such file")],
)
def test_a_run_that_had_begun_has_failed(tmp_path: Path, refused: bool, kind: type, message: str) -> None:
    files = RunFolder(tmp_path)
    files.write_json(RUN, {"state": "running", "error": None, "step": 0})
    error = _error(failed(tmp_path, refused), tmp_path, tmp_path, before=FINISHED)
    assert type(error) is kind
    assert str(error) == message
    record = files.read_json(RUN)
    assert record is not None
    assert (record["state"], record["error"]) == ("failed", message)


def ended(*codes: int) -> ChildFailedError:
    """Ranks without a note."""
    failures = {
        rank: ProcessFailure(local_rank=rank, pid=1, exitcode=code, error_file="none")
        for rank, code in enumerate(codes)
    }
    return ChildFailedError("rank", failures)


@pytest.mark.parametrize("stopped", [143, -signal.SIGTERM])
def test_a_killed_process_is_named_though_the_launcher_has_stopped_the_others(tmp_path: Path, stopped: int) -> None:
    """One in the middle of a test ends as if the user had stopped it."""
    error = _error(ended(stopped, -signal.SIGKILL), tmp_path, tmp_path, before=None)
    assert isinstance(error, RunFailedError)
    assert str(error) == "rank 1 failed: it was ended by SIGKILL"


def test_processes_that_have_stopped_together_were_stopped(tmp_path: Path) -> None:
    error = _error(ended(143, 143), tmp_path, tmp_path, before=None)
    assert isinstance(error, Stopped)
    assert error.signal_number == signal.SIGTERM
