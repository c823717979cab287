"""python benchmarks/replicas.py: 20 networks that train as one, against a loop that trains them one after the other.

The shape is that of the UCI experiments: 50-50 units, batches of 64, heteroscedastic, a data set of Boston's size.
Both sides go through Lightning's Trainer in one process; CPU time is taken from the first training step to the
last, in interleaved rounds. Starting Python, Hydra and the loggers, which every separate run pays, is left out.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
import torch
from timing import median_ratio, print_table, setting

from concrete_dropout.data import RegressionData, Table, Tables
from concrete_dropout.data.replicas import ReplicatedData
from concrete_dropout.models import MLP, GaussianHead
from concrete_dropout.settings import DropoutSettings, OptimSettings
from concrete_dropout.tasks import RegressionTask
from concrete_dropout.tasks.replicas import ReplicatedTask

NUM_TRAIN, NUM_INPUTS = 455, 13
TARGET = 8.0
KINDS = ("concrete", "fixed", "none")


class Split(RegressionData):
    """Rows of the size of one split of Boston housing."""

    def load(self) -> Tables:
        """Draw the rows from the seed."""
        generator = torch.Generator().manual_seed(self.seed)
        x = torch.randn(NUM_TRAIN, NUM_INPUTS, dtype=torch.float64, generator=generator)
        y = x[:, :1].sin() + 0.3 * torch.randn(NUM_TRAIN, 1, dtype=torch.float64, generator=generator)
        names = tuple(f"x{i}" for i in range(NUM_INPUTS))
        return Tables(Table(x.numpy(), y.numpy()), None, None, names, ("y",))


class CPUTime(pl.Callback):
    """CPU seconds between the start and the end of training."""

    seconds = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        self._start = time.process_time()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop it."""
        self.seconds = time.process_time() - self._start


def make_task(data: Split, kind: Any) -> RegressionTask:
    """An ordinary task, as train.py builds it."""
    torch.manual_seed(data.seed)
    network = DropoutSettings(kind, length_scale_mode="sqrt_fan_in").apply(
        GaussianHead(MLP(NUM_INPUTS, 2)), data.example_input
    )
    spec = data.spec
    optim = OptimSettings(lr=1e-2)
    return RegressionTask(network, num_train=spec.num_train, inputs=spec.inputs, targets=spec.targets, optim=optim)


def fit(task: pl.LightningModule, data: pl.LightningDataModule, steps: int) -> float:
    """Train for some steps; CPU seconds."""
    clock = CPUTime()
    trainer = pl.Trainer(
        max_steps=steps,
        accelerator="cpu",
        callbacks=[clock],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(task, data)
    return clock.seconds


def measure(kind: str, replicas: int, steps: int, rounds: int, batch_size: int) -> dict[str, Any]:
    """Both sides of one kind of dropout; the first round is a warm-up."""
    splits = [Split(batch_size=batch_size, min_steps_per_epoch=50, seed=seed) for seed in range(replicas)]

    def together() -> float:
        return fit(ReplicatedTask([make_task(data, kind) for data in splits]), ReplicatedData(splits), steps)

    def loop() -> float:
        return sum(fit(make_task(data, kind), data, steps) for data in splits)

    sides: dict[str, Callable[[], float]] = {"together": together, "loop": loop}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, side in sides.items():
            elapsed = side()
            if number > 0:
                seconds[name].append(elapsed)
    ratio = median_ratio(seconds["loop"], seconds["together"])
    return {
        "dropout": kind,
        "replicas": replicas,
        "ms_per_step_together": 1e3 * statistics.median(seconds["together"]) / steps,
        "ms_per_step_single": 1e3 * statistics.median(seconds["loop"]) / steps / replicas,
        "times_less_cpu": ratio,
        "in_single_runs": replicas / ratio,
    }


def main() -> None:
    """Measure all kinds of dropout, print a table, and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, default=20, help="networks (default 20)")
    parser.add_argument("--steps", type=int, default=100, help="of each training (default 100)")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (default 3)")
    parser.add_argument("--batch-size", type=int, default=64, help="rows per network and step (default 64)")
    parser.add_argument("--dropout", choices=KINDS, nargs="*", default=list(KINDS))
    options = parser.parse_args()
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=UserWarning)
    warnings.filterwarnings("ignore", category=FutureWarning)
    print(f"{setting()}, {options.replicas} networks 13-50-50-2, batches of {options.batch_size}\n")
    results = [
        measure(kind, options.replicas, options.steps, options.rounds, options.batch_size) for kind in options.dropout
    ]
    rows = [
        (
            result["dropout"],
            f"{result['ms_per_step_single']:.2f} ms",
            f"{result['ms_per_step_together']:.2f} ms",
            f"{result['times_less_cpu']:.1f}x (>= {TARGET:g})",
            f"{result['in_single_runs']:.2f}",
        )
        for result in results
    ]
    header = ("dropout", "step of one", "step of all", "less CPU than a loop", "cost in single runs")
    print_table(header, rows)
    print(json.dumps({"benchmark": "replicas", "results": results}))


if __name__ == "__main__":
    main()
