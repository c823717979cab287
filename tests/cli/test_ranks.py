"""What becomes of the errors of a run's processes."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from concrete_dropout.cli.ranks import _error
from concrete_dropout.errors import RunFailedError, UserError
from concrete_dropout.runfolder import RUN, RunFolder

FINISHED = {"state": "finished", "error": None, "step": 20}


def failed(place: Path, refused: bool) -> ChildFailedError:
    """One rank has left a note, and ended with exit code 1."""
    note = {"time": time.time_ns(), "refused": refused, "message": "no such file", "traceback": "line 1"}
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
