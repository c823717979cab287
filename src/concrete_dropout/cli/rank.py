"""One process of a run on several devices: python -m concrete_dropout.cli.rank, started by ``cli.ranks``."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path

from concrete_dropout.cli.process_end import leave_after

JOB = "CONCRETE_DROPOUT_JOB"
PR_SET_PDEATHSIG = 1


def main() -> int:
    """Make the run that the job's file describes; returns the exit code."""
    job = json.loads(Path(os.environ[JOB]).read_text())
    _end_with_the_parent(job["parent"])
    # Lightning takes seconds to import: a parent may be killed meanwhile
    from omegaconf import OmegaConf

    from concrete_dropout.cli.ranks import tell
    from concrete_dropout.cli.run import run

    sys.argv = job["argv"]  # which run.json is to name
    try:
        run(OmegaConf.create(job["config"]), Path(job["folder"]), Path(job["conf_dir"]))
    except Exception as error:
        tell(error)
        return 1
    return 0


def _end_with_the_parent(parent: int) -> None:
    """A parent that is killed can end nobody: the kernel shall do it, where it is Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was killed before
            sys.exit(1)


if __name__ == "__main__":
    leave_after(main)
