"""python -m tests.faults: rounds of random faults, and a table of what came of them. See make test-faults."""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tests.faults.hurt import FAKETIME
from tests.faults.processes import WarmServer
from tests.faults.rounds import Laboratory, Round
from tests.faults.scenarios import SCENARIOS, Scenario

from concrete_dropout.signals import terminable


def drawn(rounds: int, draw: random.Random, scenarios: Sequence[Scenario]) -> list[tuple[Scenario, str]]:
    """Scenarios in turn, each with its faults in a random order, so that few rounds meet many pairs."""
    faults = {
        scenario.name: [f for f in scenario.faults if f != "clock" or FAKETIME.exists()] for scenario in scenarios
    }
    waiting: dict[str, list[str]] = {name: [] for name in faults}
    order: list[Scenario] = []
    pairs = []
    for _ in range(rounds):
        order = order or draw.sample(list(scenarios), len(scenarios))
        scenario = order.pop()
        own = waiting[scenario.name]
        own += draw.sample(faults[scenario.name], len(faults[scenario.name])) if not own else []
        pairs.append((scenario, own.pop()))
    return pairs


def table_of(made: Sequence[Round]) -> Table:
    table = Table("scenario", "fault", "rounds", "ended", "went on", "broken promises", "longest end [s]")
    for pair in sorted({(entry.scenario, entry.fault) for entry in made}):
        own = [entry for entry in made if (entry.scenario, entry.fault) == pair]
        ended = Counter(entry.ended or "?" for entry in own)
        resumed = Counter(entry.resumed for entry in own if entry.resumed)
        wrong, longest = sum(bool(entry.wrong) for entry in own), max(entry.until_end for entry in own)
        cells = [", ".join(f"{count} {name}" for name, count in counter.items()) for counter in (ended, resumed)]
        table.add_row(*pair, str(len(own)), *cells, str(wrong), f"{longest:.1f}")
    return table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None, help="of an earlier run, to repeat it")
    parser.add_argument("--only", default="", help="scenarios whose name has this")
    parser.add_argument("--fault", default="", help="faults whose name has this")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no further round after these")
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background job ignores, and its children too
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    console = Console(width=120, highlight=False)
    console.print(f"FAULT_SEED={seed}, {given.rounds} rounds")
    if not FAKETIME.exists():
        console.print(f"no clock is moved: {FAKETIME} is missing (Debian's libfaketime, or FAKETIME_LIB)")
    scenarios = [scenario for scenario in SCENARIOS if given.only in scenario.name]
    pairs = drawn(given.rounds, random.Random(seed), scenarios)
    pairs = [(scenario, fault) for scenario, fault in pairs if given.fault in fault]
    place, made, began = Path(tempfile.mkdtemp(prefix="faults_")), [], time.monotonic()
    with terminable(), WarmServer() as server:  # however this ends, no command is left behind
        laboratory = Laboratory(place, server)
        for number, (scenario, fault) in enumerate(pairs):
            if time.monotonic() - began > 60 * given.minutes:
                console.print(f"{given.minutes:g} minutes are over")
                break
            entry = laboratory.round(number, scenario, fault, random.Random(f"{seed} {number}"))
            made.append(entry)
            told = f"{number:3d} {scenario.name} / {fault}: {entry.story}; {entry.ended or '?'} {entry.resumed}"
            console.print(f"{told} ({entry.seconds:.1f} s)", markup=False, soft_wrap=True)
            for text in entry.wrong:
                console.print(f"    WRONG: {text}", markup=False, soft_wrap=True)
    console.print(table_of(made))
    wrong = sum(bool(entry.wrong) for entry in made)
    console.print(
        f"FAULT_SEED={seed}: {len(made)} rounds, {wrong} with a broken promise, {time.monotonic() - began:.0f} s"
    )
    if wrong:
        console.print(f"their folders: {place}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
