from __future__ import annotations

from pathlib import Path

import pytest
import torch

from concrete_dropout.cli.compose import compose_config
from concrete_dropout.cli.replicated import run_replicas
from concrete_dropout.cli.run import run
from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import SUMMARY, RunFolder

CONF = Path(__file__).parents[2] / "conf"
TINY = ["trainer=cpu", "trainer.max_steps=30", "model.hidden=[8]", "task.test_samples=5", "logger=none"]
HOMOSCEDASTIC = ["task.noise=homoscedastic", "task.final_m_step=true", "data.num_data=20"]


def test_the_last_checkpoint_has_the_precision_of_the_final_m_step(tmp_path: Path) -> None:
    run(compose_config([*TINY, *HOMOSCEDASTIC], CONF, run_dir=tmp_path), tmp_path, CONF)
    state = torch.load(tmp_path / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
    assert state["noise.final_tau"].item() > 0
    metrics = RunFolder(tmp_path).read_json(SUMMARY)["metrics"]
    assert metrics["test/log_likelihood"] != metrics["test/log_likelihood_before_m_step"]


def test_replicas_take_it_each(tmp_path: Path) -> None:
    overrides = [*TINY, *HOMOSCEDASTIC, "replicas.grid={seed:[0,1]}"]
    run_replicas(compose_config(overrides, CONF, run_dir=tmp_path), tmp_path, CONF)
    files = [tmp_path / "replicas" / str(index) / "checkpoints" / "last.ckpt" for index in range(2)]
    taus = [torch.load(file, weights_only=True)["state_dict"]["noise.final_tau"].item() for file in files]
    assert min(taus) > 0
    assert taus[0] != taus[1]


@pytest.mark.parametrize(
    ("override", "message"),
    [("test_ckpt=best", "test_ckpt=best is not for replicas"), ("train=false", "train=false has nothing to test")],
)
def test_replicas_cannot_test_what_is_not_there(override: str, message: str, tmp_path: Path) -> None:
    cfg = compose_config([*TINY, override, "replicas.grid={seed:[0,1]}"], CONF, run_dir=tmp_path)
    with pytest.raises(UserError, match=message):
        run_replicas(cfg, tmp_path, CONF)
