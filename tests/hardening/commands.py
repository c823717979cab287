"""The project's commands, many of them in little time: see ``warm_server``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Result:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """The error as the user reads it."""
        return self.err.rpartition("Error: ")[2].strip()


class WarmCommands:
    """Starts the server, and runs commands one by one. A context."""

    def __enter__(self) -> WarmCommands:
        hidden = ("WANDB", "PYTEST", "DATA_DIR", "OUTPUT_DIR")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
        self._server = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "hardening" / "warm_server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**environment, "OMP_NUM_THREADS": "1", "COLUMNS": "100", "PYTHONWARNINGS": "ignore"},
            text=True,
        )
        assert self._server.stdout is not None
        assert self._server.stdout.readline().strip() == "ready"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.stdout.close()
        self._server.kill()
        self._server.wait()

    def run(
        self, script: str, arguments: Sequence[str], folder: Path, seconds: int = 120, **environment: str
    ) -> Result:
        """One command with ``folder`` as its working directory."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        home = folder / "home"
        home.mkdir(exist_ok=True)
        task = {
            "script": str(ROOT / script),
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": {"HOME": str(home), "WANDB_MODE": "disabled", **environment},
            "out": str(folder / "stdout.txt"),
            "err": str(folder / "stderr.txt"),
            "seconds": seconds,
        }
        self._server.stdin.write(json.dumps(task) + "\n")
        self._server.stdin.flush()
        code = int(self._server.stdout.readline())
        return Result(code, (folder / "stdout.txt").read_text(), (folder / "stderr.txt").read_text())
