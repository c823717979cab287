"""The same seed on the same device gives the same numbers, bit for bit, whatever was drawn before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from concrete_dropout.cli.agent_run import run_agent
from concrete_dropout.cli.compose import compose_config
from concrete_dropout.cli.run import run
from concrete_dropout.runfolder import DROPOUT, METRICS

CONF = Path(__file__).parents[1] / "conf"
TINY = ["trainer=cpu", "trainer.max_steps=5", "logger=none", "callbacks={}", "seed=3"]
SAMPLES = ["task.val_samples=2", "task.test_samples=2"]
SCENES = [
    "experiment=scenes",
    "data.num_train=6",
    "data.num_val=2",
    "data.num_test=2",
    "data.crop=32",
    "data.batch_size=2",
    "data.eval_batch_size=2",
    "model.blocks=[1,1,1]",
    "model.growth=4",
    "model.first_filters=8",
    *SAMPLES,
]
RUNS = {
    "regression": [
        "experiment=synthetic",
        "data.num_data=30",
        "model.hidden=[8]",
        "data.min_steps_per_epoch=3",
        *SAMPLES,
    ],
    "classification": ["experiment=digits", "model.hidden=[8]", *SAMPLES],
    "two threads": ["experiment=digits", "model.hidden=[64]", "threads=2", *SAMPLES],
    "segmentation": SCENES,
    "segmentation by workers": [*SCENES, "data.num_workers=2"],
    "agent": [
        "experiment=cartpole",
        "agent.episodes=1",
        "agent.search.iterations=2",
        "agent.search.scouting=1",
        "agent.starts=2",
        "policy.size=2",
        "model.hidden=[8,8]",
        "task.test_samples=2",
    ],
}


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def made(overrides: list[str], folder: Path) -> dict[str, Any]:
    """A run's weights, optimiser state and tables."""
    cfg = compose_config([*TINY, *overrides], CONF, run_dir=folder)
    (run_agent if cfg.agent._target_ is not None else run)(cfg, folder, CONF)
    checkpoint = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
    kept = {key: checkpoint[key] for key in ("state_dict", "optimizer_states", "agent") if key in checkpoint}
    tables = {name: (folder / name).read_text() for name in (METRICS, DROPOUT) if (folder / name).is_file()}
    return {"tables": tables, **kept}


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from leaves(entry, f"{path}/{key}")
    elif isinstance(value, (list, tuple)):
        for index, entry in enumerate(value):
            yield from leaves(entry, f"{path}/{index}")
    else:
        yield path, value


def differing(first: Any, second: Any) -> list[str]:
    ours, theirs = dict(leaves(first)), dict(leaves(second))
    assert ours.keys() == theirs.keys()
    return [path for path, value in ours.items() if not _same(value, theirs[path])]


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor):
        return first.dtype == second.dtype and torch.equal(first, second)
    return bool(first == second) or (first != first and second != second)


@pytest.mark.parametrize("kind", RUNS)
def test_the_same_seed_gives_the_same_bits(kind: str, tmp_path: Path) -> None:
    first = made(RUNS[kind], tmp_path / "first")
    # What else a process has drawn by then must not matter.
    torch.manual_seed(99), torch.rand(7), np.random.default_rng().random(), random.random()
    np.random.seed(5)
    second = made(RUNS[kind], tmp_path / "second")
    assert differing(first, second) == []
    assert len(first["tables"][METRICS].splitlines()) > 3
    assert any(isinstance(value, torch.Tensor) and value.numel() for _, value in leaves(first))
    if kind == "regression":
        others = differing(first, made([*RUNS[kind], "seed=4"], tmp_path / "third"))
        assert f"/tables/{METRICS}" in others
        assert any(path.startswith("/state_dict/") and path.endswith("weight") for path in others)
