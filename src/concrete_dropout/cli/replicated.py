"""A run of replicas: the same network for several splits, seeds, N or initial p, trained as one batched model."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from concrete_dropout.callbacks import RunRecord
from concrete_dropout.callbacks.replicas import ReplicaRecord
from concrete_dropout.cli import build
from concrete_dropout.cli.compose import plain
from concrete_dropout.cli.networks import build_task
from concrete_dropout.cli.replicas_summary import print_replicas_summary
from concrete_dropout.cli.run import carry_out, check_parts, facts
from concrete_dropout.cli.run_log import logging_to
from concrete_dropout.cli.study import point
from concrete_dropout.data import RegressionData, num_splits
from concrete_dropout.data.replicas import ReplicatedData
from concrete_dropout.errors import UserError
from concrete_dropout.tasks import RegressionTask
from concrete_dropout.tasks.replicas import ReplicatedTask

ALL = "all"
SPLIT = "data.split"
# What may differ between replicas: nothing that changes the network.
VARIABLE = ("seed", "dropout.init_p", "dropout.p", "dropout.length_scale", "task.kl_weight", "task.min_noise", "data.")


def run_replicas(cfg: DictConfig, folder: Path, conf_dir: Path) -> None:
    """Train and test all replicas of ``cfg.replicas.grid`` in ``folder``."""
    labels = grid_points(cfg)
    if cfg.test_ckpt == build.BEST:
        raise UserError("test_ckpt=best is not for replicas, whose best steps differ: use test_ckpt=last")
    check_parts(cfg, validates=False)
    with logging_to(folder):
        _, replicas = build_replicas(cfg, folder)
        data = ReplicatedData([data for data, _ in replicas])
        # Their own seeds made the networks; this one is for batches and masks, which are drawn for all at once.
        build.set_out(cfg)
        task = ReplicatedTask([task for _, task in replicas])
        sizes = sorted(set(data.num_train))
        more = {
            "replicas": len(labels),
            "num_train": sizes[0] if len(sizes) == 1 else sizes,
            "kl_weight": cfg.task.kl_weight,
        }
        callbacks = [
            *build.build_callbacks(cfg, only={"progress"}),
            *build.keepers(plain(cfg), folder, selection=None),
            ReplicaRecord(folder, labels),
        ]
        record = RunRecord(folder, {**facts(cfg), **more})
        tests = all("test" in own.parts for own, _ in replicas)
        carry_out(cfg, folder, conf_dir, task, data, record, callbacks, tests)
    print_replicas_summary(folder)


def build_replicas(
    cfg: DictConfig, folder: Path
) -> tuple[list[dict[str, Any]], list[tuple[RegressionData, RegressionTask]]]:
    """What sets the replicas of ``cfg.replicas.grid`` apart, and their data and tasks."""
    labels = grid_points(cfg)
    return labels, [_replica(cfg, label, folder) for label in labels]


def grid_points(cfg: DictConfig) -> list[dict[str, Any]]:
    """Every combination of the values in ``cfg.replicas.grid``, as {key: value}."""
    grid = OmegaConf.to_container(cfg.replicas.grid, resolve=True)
    if not isinstance(grid, dict) or not grid:
        raise UserError("replicas.grid must be a mapping of keys to lists, as in replicas.grid={seed:[0,1,2]}")
    values = {str(key): _values(cfg, str(key), options) for key, options in grid.items()}
    return [dict(zip(values, combination, strict=True)) for combination in product(*values.values())]


def _values(cfg: DictConfig, key: str, options: Any) -> list[Any]:
    if not any(key == name or (name.endswith(".") and key.startswith(name)) for name in VARIABLE):
        raise UserError(
            f"replicas.grid cannot vary {key}: replicas share everything but "
            f"{', '.join(name + '*' * name.endswith('.') for name in VARIABLE)}; for other keys make a sweep: "
            f"python train.py -m {key}=..."
        )
    if options == ALL and key == SPLIT:
        return list(range(num_splits(cfg.data.data_dir, cfg.data.name)))
    if not isinstance(options, list) or not options:
        raise UserError(f"replicas.grid.{key}={options} must be a list of values" + (" or all" if key == SPLIT else ""))
    return options


def _replica(cfg: DictConfig, label: dict[str, Any], folder: Path) -> tuple[RegressionData, RegressionTask]:
    """Data and task as a run of its own would have them."""
    own = point(cfg, label, folder)
    build.set_out(own)
    data = build.build_data(own)
    task = build_task(own, data)
    if not isinstance(data, RegressionData) or not isinstance(task, RegressionTask):
        raise UserError("replicas are for regression: for this task make a study or a sweep, as in -m seed=0,1,2")
    return data, task
