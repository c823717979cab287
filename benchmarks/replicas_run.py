"""python benchmarks/replicas_run.py: all splits of a UCI set as one batched run, against a loop of runs.

Both go the whole way through train.py, in processes of their own: start-up, training, test, report. What is compared is
their CPU time. The loop's runs and the batched run take turns, so that a busy machine slows both alike; with
--loop 5 only five splits are run one by one, and their time is scaled to all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess  # nosec B404 # train.py with fixed words, and no shell
import sys
import tempfile
from pathlib import Path

from timing import setting

ROOT = Path(__file__).parents[1]


def cpu_seconds(arguments: list[str]) -> float:
    """User and system time of one command of train.py, its children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, str(ROOT / "train.py"), *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # nosec B603 # as above
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure both ways, print a table and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="yacht", help="the UCI set (default yacht)")
    parser.add_argument("--splits", type=int, default=20, help="splits of the batched run (default 20)")
    parser.add_argument("--loop", type=int, default=None, help="splits to run one by one (default: all of them)")
    parser.add_argument("overrides", nargs="*", help="settings for both, as for train.py: trainer.max_steps=1000")
    options = parser.parse_args()
    loop = options.splits if options.loop is None else options.loop
    with tempfile.TemporaryDirectory() as folder:
        common = ["experiment=uci", f"data.name={options.name}", f"paths.output_dir={folder}", *options.overrides]
        grid = f"replicas.grid={{data.split:[{','.join(map(str, range(options.splits)))}]}}"
        singles: list[float] = []
        batched: list[float] = []
        for split in range(loop):
            singles.append(cpu_seconds([*common, f"data.split={split}"]))
            if split in (loop // 3, 2 * loop // 3):  # twice, in between
                batched.append(cpu_seconds([*common, grid]))
            print(
                f"split {split}: {singles[-1]:.1f} CPU s; batched so far: {[round(b, 1) for b in batched]}", flush=True
            )
    all_singles = sum(singles) / loop * options.splits
    ratio = all_singles / (sum(batched) / len(batched))
    result = {
        "name": options.name,
        "splits": options.splits,
        "splits_in_the_loop": loop,
        "cpu_seconds_loop": all_singles,
        "cpu_seconds_batched": batched,
        "times_less_cpu": ratio,
        "threads": os.environ.get("OMP_NUM_THREADS"),
    }
    print(f"\n{setting()}\n{options.splits} splits of {options.name}: {ratio:.1f}x less CPU time as one batched run")
    print(json.dumps({"benchmark": "replicas_run", "results": [result]}))


if __name__ == "__main__":
    main()
