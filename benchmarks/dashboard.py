"""python benchmarks/dashboard.py: the dashboard of 2,000 generated runs: first build, later builds, and the page.

The runs are files as training leaves them, of sizes like those of short real runs (metrics and p of 100 logged steps,
calibration curves, a config of about a hundred keys, pictures in every tenth). Times are wall-clock seconds of one
process. The page is opened by chromium where playwright has one, and timed from the key or click to what it shows.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import struct
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

from concrete_dropout import runfolder
from concrete_dropout.dashboard.build import build_site

RUNS = 2000
TARGET_SECONDS = 60.0
EXPERIMENTS = {"synthetic": "regression", "uci": "regression", "digits": "classification", "mnist": "classification"}
STARTS = (0.05, 0.1, 0.2, 0.3, 0.5)
STEPS = range(0, 2000, 20)


def write_runs(root: Path, count: int, seed: int = 0) -> None:
    """Write so many run folders below ``root``, some of them in sweeps; most finished, others not."""
    chance = random.Random(seed)
    for number in range(count):
        experiment = list(EXPERIMENTS)[number % len(EXPERIMENTS)]
        sweep = f"sweep_{number // 200:03d}/" if number % 200 < 20 else ""
        folder = root / experiment / f"{sweep}2026-01-{1 + number % 28:02d}_{number:05d}"
        write_one(folder, experiment, number, chance)
        if sweep and not (folder.parent / runfolder.SWEEP).is_file():
            _json(folder.parent / runfolder.SWEEP, {"arguments": ["sweep=init_p"], "swept": ["dropout.init_p"]})


def write_one(folder: Path, experiment: str, number: int, chance: random.Random) -> None:
    """The files of one run."""
    folder.mkdir(parents=True)
    start = STARTS[number % len(STARTS)]
    kind = ("concrete", "concrete", "fixed", "none")[number % 4]
    layers = [f"network.layers.{3 * i}" for i in range(4 + number % 3)] if kind != "none" else []
    ends = [start if kind == "fixed" else min(0.5, abs(chance.gauss(0.1 + 0.08 * i, 0.02))) for i in range(len(layers))]
    state = {7: "failed", 11: "interrupted", 13: "running"}.get(number % 50, "finished")
    metrics = _scores(EXPERIMENTS[experiment], chance)
    _json(
        folder / runfolder.RUN,
        {
            "experiment": experiment,
            "dropout": kind,
            "seed": number % 5,
            "state": state,
            "error": "RuntimeError: the loss is no number" if state == "failed" else None,
            "started": f"2026-01-{1 + number % 28:02d}T12:{number % 60:02d}:00+00:00",
            "ended": f"2026-01-{1 + number % 28:02d}T13:{number % 60:02d}:30+00:00",
            "command": f"python train.py experiment={experiment} dropout={kind} dropout.init_p={start}",
            "step": 2000,
            "max_steps": 2000,
            "layers": [{"name": name, "kind": kind, "initial_p": start, "owners": [], "K": 512} for name in layers],
        },
    )
    ps = {name: {"initial": start, "final": end} for name, end in zip(layers, ends, strict=True)}
    _json(folder / runfolder.SUMMARY, {"metrics": metrics, "probabilities": ps})
    verdicts = {name: {**p, "converged": number % 9 != 0, "change_last_fifth": 0.001} for name, p in ps.items()}
    _json(folder / runfolder.CONVERGENCE, {"layers": verdicts, "criterion": "p changes by less than 0.02"})
    _json(folder / runfolder.CALIBRATION, _calibration(EXPERIMENTS[experiment], chance))
    _json(folder / runfolder.CONFIG_DIFF, [{"key": "dropout.init_p", "default": 0.1, "value": start}])
    (folder / runfolder.CONFIG).write_text(_config(folder, experiment, kind, start, number))
    (folder / runfolder.REPORT).write_text("<!DOCTYPE html><title>report</title>")
    _table(folder / runfolder.METRICS, runfolder.METRICS_HEADER, _history(metrics, chance))
    rows = [
        (step, name, round(start + (end - start) * (1 - math.exp(-step / 300)), 7))
        for step in STEPS
        for name, end in zip(layers, ends, strict=True)
    ]
    _table(folder / runfolder.DROPOUT, runfolder.DROPOUT_HEADER, rows)
    if number % 10 == 2:
        _pictures(folder, chance)


def png(width: int, height: int, grey: int) -> bytes:
    """A small picture of one colour."""
    rows = b"".join(b"\x00" + bytes([grey] * width) for _ in range(height))
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _scores(task: str, chance: random.Random) -> dict[str, float]:
    regression = {
        "nll": 1.4,
        "log_likelihood": -1.4,
        "rmse": 1.0,
        "crps": 0.6,
        "calibration_rmse": 0.05,
        "epistemic_std": 0.4,
    }
    classes = {
        "nll": 0.12,
        "accuracy": 0.96,
        "ece": 0.03,
        "brier": 0.06,
        "calibration_rmse": 0.08,
        "mutual_information": 0.1,
    }
    base = regression if task == "regression" else classes
    return {
        f"{stage}/{name}": round(v * chance.uniform(0.8, 1.2), 6)
        for stage in ("val", "test")
        for name, v in base.items()
    }


def _calibration(task: str, chance: random.Random) -> dict[str, Any]:
    bend = chance.uniform(0.8, 1.25)
    if task == "regression":
        levels = [i / 100 for i in range(1, 100)]
        curve: dict[str, Any] = {"expected": levels, "observed": [level**bend for level in levels], "num_points": 500}
    else:
        levels = [0.05 + i / 10 for i in range(10)]
        curve = {"confidence": levels, "frequency": [level**bend for level in levels], "share": [0.1] * 10}
    return {"val": curve, "test": curve}


def _history(metrics: dict[str, float], chance: random.Random) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for step in STEPS:
        rows += [(step, step // 100, f"train/{name}", round(chance.gauss(1, 0.1), 6)) for name in ("nll", "kl", "loss")]
        if step % 200 == 180:
            rows += [(step, step // 100, name, value) for name, value in metrics.items() if name.startswith("val/")]
    return [*rows, *((2000, 20, name, value) for name, value in metrics.items() if name.startswith("test/"))]


def _config(folder: Path, experiment: str, kind: str, start: float, number: int) -> str:
    blocks = {
        "dropout": {"kind": kind, "init_p": start, "temperature": 0.1, "length_scale": 0.01},
        "optim": {"lr": 0.001, "p_lr": 0.02, "weight_decay": 0.0},
        "paths": {"run_dir": str(folder), "output_dir": str(folder.parent)},
        **{f"group_{i}": {f"setting_{j}": i * j for j in range(10)} for i in range(9)},
    }
    lines = [f"name: {experiment}", f"seed: {number % 5}"]
    for name, block in blocks.items():
        lines += [f"{name}:", *(f"  {key}: {json.dumps(value)}" for key, value in block.items())]
    return "\n".join(lines) + "\n"


def _pictures(folder: Path, chance: random.Random) -> None:
    (folder / runfolder.IMAGES).mkdir()
    samples = []
    for i in range(12):
        name = f"{runfolder.IMAGES}/gallery_test_{i}.png"
        (folder / name).write_bytes(png(28, 28, chance.randrange(256)))
        kind = "wrong" if i % 2 else "uncertain"
        samples.append(
            {"kind": kind, "file": name, "name": f"sample {i}", "target": "3", "predicted": "8", "confidence": 0.6}
        )
    _json(folder / runfolder.GALLERY, {"test": samples})


def _json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))


def _table(path: Path, header: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    path.write_text("\n".join(",".join(map(str, row)) for row in (header, *rows)) + "\n")


def page_seconds(index: Path) -> dict[str, float]:
    """Seconds that the page takes to open, to sort, to filter and to draw all p; empty without a browser."""
    chromium = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return {}
    if not chromium.exists():
        return {}
    found: dict[str, float] = {}

    def timed(name: str, act: Any) -> None:
        began = time.perf_counter()
        act()
        found[name] = time.perf_counter() - began

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})

        def opened() -> None:
            page.goto(index.as_uri())
            page.wait_for_selector("html[data-ready]", state="attached")

        def typed() -> None:
            page.fill("#q", "digits nll<0.11")
            page.wait_for_selector("#count:has-text(' of ')")

        def drawn() -> None:
            page.click("#tab-p")
            page.wait_for_selector("#panel-p .plot[data-drawn]", timeout=120_000)

        timed("open the page", opened)
        timed(
            "sort by NLL",
            lambda: (page.click("[data-focus='sort-nll']"), page.wait_for_selector("th[aria-sort] >> text=NLL")),
        )
        timed("filter by words and a number", typed)
        timed("draw the heat map of p (with plotly.js)", drawn)
        browser.close()
    return found


def main() -> None:
    """Print a line per measurement, and the same as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--keep", type=Path, help="folder for the runs and the page; by default they are removed")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = given.keep or Path(temporary) / "outputs"
        write_runs(root, given.runs)
        began = time.process_time()
        found = {"first build": build_site(root).seconds, "first build, CPU time": time.process_time() - began}
        found["nothing has changed"] = build_site(root).seconds
        changed = next(root.glob(f"*/*/{runfolder.METRICS}"))
        changed.write_text(changed.read_text() + "2020,20,val/nll,0.5\n")
        found["one run has changed"] = build_site(root).seconds
        found |= page_seconds(root / "dashboard" / "index.html")
    for name, seconds in found.items():
        print(f"{name:<40} {seconds:8.2f} s")
    met = found["first build"] < TARGET_SECONDS
    print(f"goal: first build of {given.runs:,} runs in under {TARGET_SECONDS:.0f} s: {'met' if met else 'missed'}")
    print(json.dumps({name: round(seconds, 3) for name, seconds in found.items()}))


if __name__ == "__main__":
    main()
