from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint

from concrete_dropout.callbacks import AtomicCheckpointIO, ProbabilityMonitor, RandomState, RunRecord
from concrete_dropout.data import SyntheticData
from concrete_dropout.errors import UserError

from .conftest import MakeTask, MakeTrainer


def content(size: int) -> dict[str, Any]:
    return {"state_dict": {"weight": torch.full((size,), 1.5)}, "epoch": 3}


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint(content(10), path)
    loaded = AtomicCheckpointIO().load_checkpoint(path)
    assert loaded["epoch"] == 3
    assert torch.equal(loaded["state_dict"]["weight"], torch.full((10,), 1.5))
    assert [file.name for file in path.parent.iterdir()] == ["last.ckpt"]


def test_file_rights_follow_the_umask(tmp_path: Path) -> None:
    AtomicCheckpointIO().save_checkpoint(content(1), tmp_path / "a.ckpt")
    (tmp_path / "b").touch()
    assert (tmp_path / "a.ckpt").stat().st_mode == (tmp_path / "b").stat().st_mode


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.999])
def test_a_truncated_file_is_named(tmp_path: Path, kept: float) -> None:
    path = tmp_path / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint(content(1000), path)
    os.truncate(path, int(kept * path.stat().st_size))
    with pytest.raises(UserError, match=r"cannot read the checkpoint .*last\.ckpt .*truncated"):
        AtomicCheckpointIO().load_checkpoint(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    load = AtomicCheckpointIO().load_checkpoint
    with pytest.raises(UserError, match=r"there is no checkpoint .*none\.ckpt"):
        load(tmp_path / "none.ckpt")
    (tmp_path / "text.ckpt").write_text("seed: 1\n")
    with pytest.raises(UserError, match=r"text\.ckpt"):
        load(tmp_path / "text.ckpt")
    torch.save([1, 2], tmp_path / "list.ckpt")
    with pytest.raises(UserError, match=r"list\.ckpt is no checkpoint"):
        load(tmp_path / "list.ckpt")


def test_no_code_runs_on_loading(tmp_path: Path) -> None:
    torch.save({"state_dict": {}, "hyper": torch.nn.Linear(1, 1)}, tmp_path / "a.ckpt")
    with pytest.raises(UserError, match=r"a\.ckpt"):
        AtomicCheckpointIO().load_checkpoint(tmp_path / "a.ckpt")
    with pytest.raises(UserError, match="it holds more than tensors and plain containers"):
        AtomicCheckpointIO().load_checkpoint(tmp_path / "a.ckpt", weights_only=False)


def test_a_full_disk_leaves_the_previous_checkpoint(tmp_path: Path) -> None:
    """The kernel refuses to write past a limit, in the middle of the file, as a full disk does."""
    path = tmp_path / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint(content(100), path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        with pytest.raises(UserError) as caught:
            AtomicCheckpointIO().save_checkpoint(content(1_000_000), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    message = f"cannot write the checkpoint {path}: File too large. The previous checkpoint is intact."
    assert str(caught.value).startswith(message)
    assert [file.name for file in tmp_path.iterdir()] == ["last.ckpt"]
    assert len(AtomicCheckpointIO().load_checkpoint(path)["state_dict"]["weight"]) == 100


def test_a_real_run_saves_and_resumes_with_weights_only(
    tmp_path: Path, make_task: MakeTask, make_trainer: MakeTrainer, data: SyntheticData
) -> None:
    def fit(epochs: int, resume: Path | None) -> pl.Trainer:
        trainer = make_trainer(
            tmp_path,
            max_epochs=epochs,
            enable_checkpointing=True,
            callbacks=[
                ModelCheckpoint(tmp_path / "checkpoints", save_last=True),
                ProbabilityMonitor(tmp_path),
                RandomState(),
                RunRecord(tmp_path),
            ],
            plugins=[AtomicCheckpointIO()],
        )
        trainer.fit(make_task(), data, ckpt_path=resume)
        return trainer

    fit(1, None)
    assert fit(2, tmp_path / "checkpoints" / "last.ckpt").global_step == 8
