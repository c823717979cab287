"""The project's commands, many of them in little time: see ``warm_server``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Result:
    """How a command ended, what it printed, and the most memory that it had, in kB."""

    code: int
    out: str
    err: str
    peak: int

    @property
    def message(self) -> str:
        """The error as the user reads it."""
        return self.err.rpartition("\nError: ")[2].strip()


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
        self,
        script: str,
        arguments: Sequence[str],
        folder: Path,
        seconds: int = 120,
        limits: Mapping[str, int] | None = None,
        **environment: str,
    ) -> Result:
        """One command.

        Args:
            script: of the project's folder, or the name of a module.
            arguments: behind it.
            folder: the working directory.
            seconds: after which it is killed.
            limits: of the system, as in {"FSIZE": 1000} for the size of files.
            **environment: variables.
        """
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        home = folder / "home"
        home.mkdir(exist_ok=True)
        task = {
            "script": str(ROOT / script) if script.endswith(".py") else script,
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": {"HOME": str(home), "WANDB_MODE": "disabled", **environment},
            "out": str(folder / "stdout.txt"),
            "err": str(folder / "stderr.txt"),
            "seconds": seconds,
            "limits": dict(limits or {}),
        }
        self._server.stdin.write(json.dumps(task) + "\n")
        self._server.stdin.flush()
        code, peak = map(int, self._server.stdout.readline().split())
        return Result(code, (folder / "stdout.txt").read_text(), (folder / "stderr.txt").read_text(), peak)
