"""One round: a command is hurt at a random moment, looked at, and goes on to its end."""

from __future__ import annotations

import random
import re
import shutil
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.hurt import clock_environment, hurt, ready_for
from tests.faults.invariants import broken_files, held_locks, unfinished_files
from tests.faults.processes import Command, Ended, WarmCommand, WarmServer
from tests.faults.scenarios import CSV, TRAIN, Prints, Scenario, with_table

WITHIN = 30  # seconds in which a job ends when one of its processes was killed
AFTER = 12  # seconds after the end in which all its processes are gone
STOPPED = {"term": (143, -signal.SIGTERM), "int": (130, -signal.SIGINT), "kill": (-signal.SIGKILL,)}
GOES_ON = ("second", "clock", "wandb")  # faults that a command survives


@dataclass
class Round:
    """What was done and what came of it; ``wrong`` has every broken promise."""

    number: int
    scenario: str
    fault: str
    story: str = ""
    ended: str = ""
    resumed: str = ""
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0
    until_end: float = 0.0


class Laboratory:
    """Makes rounds in folders below ``place``.

    Args:
        place: an empty folder.
        server: that forks commands.
        has_clock: whether there is a library that moves clocks.
    """

    def __init__(self, place: Path, server: WarmServer) -> None:
        self.place, self.server = place, server
        self._expected: dict[str, tuple[Prints, float]] = {}
        work = place / "base" / "work"
        work.mkdir(parents=True)
        with_table(work, work)
        ended = self.start(place / "base", TRAIN, [*CSV, "hydra.run.dir=run"], cold=False).wait()
        assert ended.code == 0, ended.err
        self.base = work / "run"

    def start(
        self, place: Path, script: str, arguments: list[str], cold: bool, environment: dict[str, str] | None = None
    ) -> Command:
        if cold or environment:
            return Command(place, script, arguments, **(environment or {}))
        return WarmCommand(self.server, place, script, arguments)

    def expected(self, scenario: Scenario) -> tuple[Prints, float]:
        """What an undisturbed command makes, and the seconds that it takes."""
        if scenario.name not in self._expected:
            place = self.place / f"whole {scenario.name}"
            (place / "work").mkdir(parents=True)
            scenario.prepare(place / "work", self.base)
            command = self.start(place, scenario.script, list(scenario.arguments), cold=scenario.only_cold)
            try:
                ended = command.wait()
            finally:
                command.kill_all()
            assert ended.code == 0, f"{scenario.name}: {ended.err}"
            self._expected[scenario.name] = scenario.prints(place / "work"), ended.seconds
            shutil.rmtree(place)
        return self._expected[scenario.name]

    def round(self, number: int, scenario: Scenario, fault: str, draw: random.Random) -> Round:
        """Make one; the folder stays where something was wrong."""
        prints, duration = self.expected(scenario)
        began, made = time.monotonic(), Round(number, scenario.name, fault)
        place = self.place / f"round {number}"
        (place / "work").mkdir(parents=True)
        scenario.prepare(place / "work", self.base)
        cold = scenario.only_cold or fault == "clock" or draw.random() < 0.2
        environment = clock_environment(place) if fault == "clock" else None
        command = self.start(place, scenario.script, list(scenario.arguments), cold, environment)
        try:
            self._disturb(made, command, scenario, fault, draw, duration)
            ended = command.wait()
            made.until_end = command.seconds - made.until_end
            self._look(made, command, ended, scenario, fault)
            if made.ended != "finished" and not made.wrong:
                ended = self._resume(made, ended, scenario, place)
            if made.ended == "finished" or made.resumed == "yes":
                self._compare(made, scenario, prints, place)
        except AssertionError as error:
            made.wrong.append(str(error)[:2000])
        finally:
            command.kill_all()
        made.seconds = time.monotonic() - began
        if not made.wrong:
            shutil.rmtree(place, ignore_errors=True)
        return made

    def _disturb(
        self, made: Round, command: Command, scenario: Scenario, fault: str, draw: random.Random, duration: float
    ) -> None:
        """Wait for a moment, and let it happen."""
        work, seconds = command.place / "work", draw.uniform(0, duration)
        focused = bool(scenario.begins) and draw.random() < 0.7
        if focused:
            command.wait_until(lambda: any(work.glob(scenario.begins)))
            seconds = draw.uniform(0, 1.0)
        elif fault.split()[0] in ("rank", "worker", "wandb"):
            command.wait_until(ready_for(command, fault))
            seconds = draw.uniform(0, 0.7 * duration)
        command.wait_until(lambda: False, seconds)
        moment = f"{seconds:.2f} s after {scenario.begins if focused else 'the start'}"
        made.until_end = time.monotonic() - command.began
        if fault == "second":
            made.story = f"a second process {moment}"
            self._second(made, command, scenario)
            return
        done = hurt(command, scenario, fault, draw) if command.is_running() else ""
        made.story = f"{done or 'too late'}, {moment}"

    def _second(self, made: Round, command: Command, scenario: Scenario) -> None:
        """The same command at the same time, in the same folder."""
        work = command.place / "work"
        arguments = [*scenario.arguments, *scenario.beside]
        if scenario.beside:  # Hydra takes no key twice
            keys = {entry.partition("=")[0] for entry in scenario.beside}
            arguments = [*(a for a in scenario.arguments if a.partition("=")[0] not in keys), *scenario.beside]
        locked = bool(scenario.folder) and (work / scenario.folder / ".lock").is_file()
        second = self.start(command.place, scenario.script, arguments, cold=False)
        ended, first_runs = second.wait(), command.is_running()
        if not scenario.folder or scenario.beside:
            if ended.code != 0:
                made.wrong.append(f"the second process ended with {ended.code}: {ended.err[-800:]}")
        elif locked and first_runs:
            message = ended.err.rpartition("Error: ")[2]
            named = f"in use by process {command.pid}" in message and scenario.folder in message
            if ended.code != 2 or not named or "Traceback" in ended.err:
                made.wrong.append(f"the second process was not refused: {ended.code}, {ended.err[-800:]}")
            made.resumed = "refused"
        elif ended.code not in (0, 2):
            made.wrong.append(f"the second process ended with {ended.code}: {ended.err[-800:]}")
        elif ended.code == 0 and first_runs:
            made.wrong.append("both processes worked in one folder")
        elif ended.code == 0:
            made.story += ", when the first had ended"

    def _look(self, made: Round, command: Command, ended: Ended, scenario: Scenario, fault: str) -> None:
        """How it ended, and what it left."""
        kind = fault.split()[-1]
        told = f"exit code {ended.code}: {ended.err[-1500:]}"
        too_late = made.story.startswith("too late")
        if ended.code is None:
            made.wrong.append(f"it hangs: {told}")
        elif ended.code == 0:
            made.ended = "finished"
        elif fault in GOES_ON or too_late:
            made.wrong.append(told)
        elif fault.startswith(("rank", "worker")):
            self._look_at_failure(made, ended, fault, told)
        elif ended.code not in STOPPED[kind]:
            made.wrong.append(told)
        else:
            made.ended = "killed" if ended.code < 0 else "stopped"
            if ended.code > 0 and "Stopped" not in ended.err:
                made.wrong.append(f"no word about it: {told}")
        if "Traceback" in ended.err and not _is_before_anything(ended):
            made.wrong.append(f"a traceback: {told}")
        left = command.left_behind(AFTER)
        made.wrong += [f"left behind: {line}" for line in left]
        made.wrong += [f"not whole: {entry}" for entry in broken_files(command.place / "work")]
        made.wrong += [f"locked: {entry}" for entry in held_locks(command.place / "work")]
        made.wrong += [f"lost: {entry}" for entry in _promised(ended, command.place / "work")]

    def _look_at_failure(self, made: Round, ended: Ended, fault: str, told: str) -> None:
        """A job of which a process was killed names it, in time."""
        kind = fault.split()[-1]
        made.ended = "failed"
        if made.until_end > WITHIN:
            made.wrong.append(f"it took {made.until_end:.0f} s to end")
        if fault == "rank kill" and (ended.code != 1 or "it was ended by SIGKILL" not in ended.err):
            made.wrong.append(f"the cause is not named: {told}")
        if fault == "rank term" and ended.code not in (1, 143):
            made.wrong.append(f"the cause is not named: {told}")
        if fault == "worker kill" and (ended.code != 1 or not re.search("process (is|was) gone", ended.err)):
            made.wrong.append(f"the cause is not named: {told}")
        made.ended = "stopped" if kind == "term" and ended.code == 143 else made.ended

    def _resume(self, made: Round, ended: Ended, scenario: Scenario, place: Path) -> Ended:
        arguments = scenario.next_command(ended, place / "work")
        again = self.start(place, scenario.script, arguments, cold=scenario.only_cold)
        done = again.wait()
        made.resumed = "yes" if done.code == 0 else "no"
        if done.code != 0:
            made.wrong.append(f"{' '.join(arguments)} ended with {done.code}: {done.err[-1500:]}")
        made.wrong += [f"left behind: {line}" for line in again.left_behind(AFTER)]
        return done

    def _compare(self, made: Round, scenario: Scenario, expected: Prints, place: Path) -> None:
        """All is there, whole, and the same as without a fault."""
        work = place / "work"
        made.wrong += [f"not whole: {entry}" for entry in broken_files(work)]
        # A second process may leave its own behind the first one's back only where it is refused.
        made.wrong += [f"not finished: {entry}" for entry in unfinished_files(work)]
        found = scenario.prints(work)
        differing = differences(found, expected)
        if differing:
            made.wrong.append(f"not as without a fault: {', '.join(differing)}")


def differences(found: Any, expected: Any, name: str = "") -> list[str]:
    """The keys under which two values differ."""
    if isinstance(found, dict) and isinstance(expected, dict):
        pairs = [(f"{name}/{key}", found.get(key), expected.get(key)) for key in {**found, **expected}]
        return [entry for key, ours, other in pairs for entry in differences(ours, other, key)]
    return [] if found == expected else [name]


def _is_before_anything(ended: Ended) -> bool:
    """Ctrl-C while Python still imports: there is no program yet that could say something."""
    return ended.code == -signal.SIGINT and "KeyboardInterrupt" in ended.err and not ended.out


def _promised(ended: Ended, work: Path) -> list[str]:
    """Files that the command has said were written, and that are not there."""
    text = ended.out + ended.err
    named = re.findall(r"^(?:checkpoint|report|results|page|dashboard) +(\S+)$", text, flags=re.MULTILINE)
    named += re.findall(r"What it has so far: (\S+)", text)
    named += [path.strip("'\"") for path in re.findall(r"ckpt_path=(\S+)", text)]
    return [name for name in named if not (work / name).exists()]
