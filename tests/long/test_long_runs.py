"""Long runs need no more memory and no more open files than short ones, and their logs stay small.

``make test-long`` runs 2,000 steps with 20 evaluations; the ordinary tests a tenth of that.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import tracemalloc
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.hardening.commands import ROOT, WarmCommands
from tests.long.probe import open_files, resident

from concrete_dropout.cli.run_log import LogFile
from concrete_dropout.dashboard.build import build_site
from concrete_dropout.dashboard.serve import serving
from concrete_dropout.dashboard.watch import watch
from concrete_dropout.runfolder import METRICS, METRICS_HEADER, RUN, RunFolder

LONG = os.environ.get("TEST_LONG") == "1"
EVALUATIONS, STEPS = (20, 100) if LONG else (12, 15)  # steps of an epoch, which ends with an evaluation
WARM = 8 if LONG else 6  # evaluations after which nothing may grow: caches of torch, W&B and Python are full by then
MEGABYTE = 1 << 20
TINY = (
    "trainer=cpu trainer.log_every_n_steps=5 data.num_data=64 data.num_val=200 data.num_test=50 model.hidden=[16,16] "
    "task.val_samples=10 task.test_samples=10 callbacks.uncertainty.band_samples=5 logger.wandb.mode=offline"
).split()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What the probe saw in a run of train.py with its default callbacks and W&B."""
    folder = tmp_path_factory.mktemp("long")
    arguments = [
        *TINY,
        f"trainer.max_steps={EVALUATIONS * STEPS}",
        f"data.min_steps_per_epoch={STEPS}",
        f"callbacks.probabilities.chart_every_n_steps={5 * STEPS}",  # the first takes 50 MB: it imports plotly
        f"+callbacks.probe={{_target_:tests.long.probe.Probe,path:probe.jsonl,trace_from:{WARM}}}",
        "hydra.run.dir=run",
    ]
    with WarmCommands() as commands:
        result = commands.run("train.py", arguments, folder, seconds=1200, WANDB_MODE="offline", PYTHONPATH=str(ROOT))
    assert result.code == 0, result.out + result.err
    lines = [json.loads(line) for line in (folder / "probe.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [STEPS * number for number in range(1, EVALUATIONS + 1)]
    return lines


def test_memory_is_flat(measured: list[dict[str, Any]]) -> None:
    # What tracing itself takes comes after its start, hence the one behind it.
    before, after = measured[WARM]["resident"], measured[-1]["resident"]
    assert after - before < 12 * MEGABYTE, [line["resident"] // 1024 for line in measured]


def test_objects_do_not_pile_up(measured: list[dict[str, Any]]) -> None:
    before, after = measured[WARM]["objects"], measured[-1]["objects"]
    steps = measured[-1]["step"] - measured[WARM]["step"]
    # Histories of p grow by design, up to a bound: a few numbers every fifth step. W&B's client keeps about 0.1 MB of
    # every chart, of which there are three.
    assert after - before < 0.75 * MEGABYTE + 100 * steps, [line["objects"] for line in measured]


def test_no_file_stays_open(measured: list[dict[str, Any]]) -> None:
    counts = [line["files"] for line in measured[WARM:]]
    assert max(counts) <= counts[0], counts


def test_logs_are_rotated(tmp_path: Path) -> None:
    handler = LogFile(tmp_path / "run.log", largest=2000, kept=2)
    logger = logging.Logger("long")
    logger.addHandler(handler)
    for number in range(1000):
        logger.warning("message number %d", number)
    handler.close()
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["run.log", "run.log.1", "run.log.2"]
    assert all((tmp_path / name).stat().st_size <= 2000 for name in files)
    assert "message number 999" in (tmp_path / "run.log").read_text()


def test_a_log_on_a_full_disk_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.log").mkdir()  # cannot be opened as a file
    handler = LogFile(tmp_path / "run.log")
    logger = logging.Logger("full")
    logger.addHandler(handler)
    for _ in range(3):
        logger.warning("lost")
    handler.close()
    said = capsys.readouterr().err
    assert said.count("cannot be written") == 1
    assert "Traceback" not in said


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    for number in range(3):
        files = RunFolder(tmp_path / "toy" / str(number))
        files.write_json(RUN, {"state": "running", "experiment": "toy", "dropout": "concrete", "step": 0})
        files.append_rows(METRICS, METRICS_HEADER, [(0, 0, "train/loss", 1.0)])
    return tmp_path


def test_a_page_that_is_built_again_and_again(outputs: Path) -> None:
    """While a run writes on: the same memory, files and descriptors after many refreshes."""
    rounds, run = 200 if LONG else 24, RunFolder(outputs / "toy" / "0")
    sizes: list[tuple[int, int, int]] = []

    def grow(site: Any) -> None:
        run.append_rows(METRICS, METRICS_HEADER, [(len(sizes) % 7, 0, "train/loss", 0.5)])
        run.update_json(RUN, step=len(sizes))
        if len(sizes) == 8:
            tracemalloc.start()
        written = len([*(outputs / "dashboard").rglob("*")])
        sizes.append((tracemalloc.get_traced_memory()[0], written, open_files()))

    try:
        watch(outputs, None, 0.0, grow, trouble=lambda error: pytest.fail(str(error)), rounds=rounds)
    finally:
        tracemalloc.stop()
    assert len(sizes) == rounds
    (objects, written, files), last = sizes[12], sizes[-1]
    assert last[0] - objects < MEGABYTE / 2
    assert last[1:] == (written, files)


@pytest.fixture
def address(outputs: Path) -> Iterator[str]:
    build_site(outputs)
    with serving(outputs, outputs / "dashboard", port=0) as url:
        yield url


def test_a_page_that_is_served_many_times(address: str) -> None:
    def load(times: int) -> None:
        for _ in range(times):
            for name in ("index.html", "data/version.js"):
                with urllib.request.urlopen(address.replace("index.html", name)) as answer:
                    assert answer.read()

    idle = threading.active_count()

    def settle() -> None:
        """Wait for the threads that answered: each closes its connection a little after the reader has all of it."""
        end = time.monotonic() + 30
        while threading.active_count() > idle and time.monotonic() < end:
            time.sleep(0.01)

    load(20)
    settle()
    files, memory = open_files(), resident()
    load(400 if LONG else 100)
    settle()
    assert threading.active_count() <= idle
    assert open_files() <= files
    assert resident() - memory < 10 * MEGABYTE
