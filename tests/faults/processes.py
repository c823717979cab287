"""Commands of the project as processes that can be looked at, hurt and waited for, and what they leave behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
MARK = "CONCRETE_DROPOUT_ROUND"
OUTSIDE = ("WANDB", "XDG", "PYTEST", "DATA_DIR", "OUTPUT_DIR", "MPLCONFIG", "NETRC", "FAKETIME", "LD_PRELOAD")
LONGEST = 170  # seconds that any command may take on a machine with other work


@dataclass(frozen=True)
class Ended:
    """How a command ended; ``code`` is negative after a signal, None where it had to be killed by us."""

    code: int | None
    out: str
    err: str
    seconds: float


def environment(place: Path, mark: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OUTSIDE)}
    for name in ("home", "tmp", "work"):
        (place / name).mkdir(parents=True, exist_ok=True)
    own = {"HOME": str(place / "home"), "TMPDIR": str(place / "tmp"), "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    paths = os.pathsep.join(filter(None, [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    return {**kept, **own, "PYTHONPATH": paths, "PYTHONWARNINGS": "ignore", MARK: mark}


class Command:
    """A script of the project in a session of its own, with ``place / "work"`` as its working directory."""

    def __init__(self, place: Path, script: str, arguments: Sequence[str], **more: str) -> None:
        self.mark, self.began = uuid.uuid4().hex, time.monotonic()
        self._files = {name: place / f"{name}_{self.mark[:8]}.txt" for name in ("out", "err")}
        self.environment = {**environment(place, self.mark), **more}
        self.place, self.arguments = place, list(arguments)
        self.pid = self._start(script)
        self.seconds = 0.0

    def _start(self, script: str) -> int:
        # A module is no script: its folder would come first where modules are looked for.
        module = script.removeprefix("src/").removesuffix("/__main__.py").replace("/", ".")
        program = ["-m", module] if script.endswith("/__main__.py") else [str(ROOT / script)]
        with self._files["out"].open("wb") as out, self._files["err"].open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, *program, *self.arguments],
                cwd=self.place / "work",
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        return self._process.pid

    def is_running(self) -> bool:
        return self._code(0) is None

    def _code(self, seconds: float) -> int | None:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, seconds: float = LONGEST) -> Ended:
        code = self._code(seconds)
        self.seconds = time.monotonic() - self.began
        if code is None:
            self.kill_all()
        return Ended(code, self.text("out"), self.text("err"), self.seconds)

    def text(self, name: str) -> str:
        return self._files[name].read_text(errors="replace")

    def wait_until(self, condition: Callable[[], bool], seconds: float = LONGEST) -> bool:
        """Whether something came true while the command was running."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if condition():
                return True
            if not self.is_running():
                return False
            time.sleep(0.005)
        return False

    def members(self, name: str = "") -> list[int]:
        """The living processes of this command, itself first; with ``name``, those whose command line has it."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                ours = int(fields[3]) == self.pid or f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes()
                if ours and fields[0] != "Z" and name in (folder / "cmdline").read_text(errors="replace"):
                    found.append(int(folder.name))
            except (OSError, ValueError):
                continue
        return sorted(found, key=lambda pid: (pid != self.pid, pid))

    def left_behind(self, seconds: float) -> list[str]:
        """Command lines of processes that are still there so long after the command."""
        deadline = time.monotonic() + seconds
        while (left := self.members()) and time.monotonic() < deadline:
            time.sleep(0.1)
        lines = []
        for pid in left:
            try:
                lines.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue
        return lines

    def send(self, number: signal.Signals, to_group: bool = False) -> None:
        try:
            os.killpg(self.pid, number) if to_group else os.kill(self.pid, number)
        except ProcessLookupError:  # it has come to its end
            return

    def kill_all(self) -> None:
        for pid in reversed(self.members()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._code(10)


class WarmServer:
    """Starts commands as forks; a context. What they run is the real script from its first line on."""

    def __enter__(self) -> WarmServer:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OUTSIDE)}
        paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.warm_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths, "PYTHONWARNINGS": "ignore"},
            cwd=ROOT,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == "ready"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.kill()
        self._process.wait()

    def ask(self, **request: object) -> int | None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: int | None = json.loads(self._process.stdout.readline())
        return answer


class WarmCommand(Command):
    """The same as a fork of a warm server: without the seconds of imports."""

    def __init__(self, server: WarmServer, place: Path, script: str, arguments: Sequence[str], **more: str) -> None:
        self._server, self._known = server, None
        super().__init__(place, script, arguments, **more)

    def _start(self, script: str) -> int:
        task = {
            "script": str(ROOT / script),
            "arguments": self.arguments,
            "folder": str(self.place / "work"),
            "environment": self.environment,
            "out": str(self._files["out"]),
            "err": str(self._files["err"]),
            "seconds": 3600,
            "limits": {},
        }
        for path in self._files.values():
            path.touch()
        pid = self._server.ask(start=task)
        assert pid is not None
        return pid

    def _code(self, seconds: float) -> int | None:
        if self._known is None:
            self._known = self._server.ask(**{"end of": self.pid, "seconds": seconds})
        return self._known
