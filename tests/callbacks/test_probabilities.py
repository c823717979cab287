from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelCheckpoint

from concrete_dropout import dropout_probabilities
from concrete_dropout.callbacks import ProbabilityMonitor
from concrete_dropout.data import SyntheticData
from concrete_dropout.runfolder import CONVERGENCE, DROPOUT, RunFolder
from concrete_dropout.tasks import RegressionTask

from .conftest import MakeTask, MakeTrainer

LAYERS = ["network.layers.0", "network.layers.3", "network.layers.6"]


def table(folder: Path) -> list[tuple[int, str, float]]:
    return [(int(row["step"]), row["layer"], float(row["p"])) for row in RunFolder(folder).read_table(DROPOUT)]


def steps(folder: Path) -> list[int]:
    return list(dict.fromkeys(step for step, _, _ in table(folder)))


class StopAt(pl.Callback):
    def __init__(self, step: int, error: bool = False) -> None:
        self.step, self.error = step, error

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step == self.step:
            if self.error:
                raise RuntimeError("killed")
            trainer.should_stop = True


def test_rows_at_the_start_at_logging_steps_and_at_the_end(
    tmp_path: Path, make_task: MakeTask, make_trainer: MakeTrainer, data: SyntheticData
) -> None:
    task = make_task()
    make_trainer(tmp_path, max_steps=7, log_every_n_steps=3, callbacks=[ProbabilityMonitor(tmp_path)]).fit(task, data)
    rows = table(tmp_path)
    assert steps(tmp_path) == [0, 3, 6, 7]
    assert [layer for step, layer, _ in rows if step == 3] == LAYERS
    assert [p for step, _, p in rows if step == 0] == pytest.approx([0.2] * 3)
    assert {layer: p for step, layer, p in rows if step == 7} == dropout_probabilities(task)
    result = RunFolder(tmp_path).read_json(CONVERGENCE)
    assert list(result["layers"]) == LAYERS
    assert set(result["layers"][LAYERS[0]]) == {
        "initial",
        "final",
        "change_last_fifth",
        "trend_per_1000_steps",
        "converged",
        "saturated",
        "drift",
    }
    assert result["layers"][LAYERS[0]]["final"] == rows[-3][2]
    assert "last fifth" in result["criterion"]
    figures = {path.name for path in (tmp_path / "figures").iterdir()}
    assert figures == {"dropout_p_over_steps.json", "dropout_p_by_depth.json"}


def test_long_runs_have_every_second_row_then_every_fourth(
    tmp_path: Path, make_task: MakeTask, make_trainer: MakeTrainer, data: SyntheticData
) -> None:
    """Of 21 rows a layer 6 are left, the first and the last among them; a resumed run has the same."""
    checkpoint = tmp_path / "some.ckpt"

    def fit(folder: Path, max_steps: int, ckpt_path: Path | None = None) -> pl.Trainer:
        monitor = ProbabilityMonitor(folder, max_rows=6)
        trainer = make_trainer(folder, max_epochs=-1, max_steps=max_steps, log_every_n_steps=1, callbacks=[monitor])
        trainer.fit(make_task(), data, ckpt_path=ckpt_path, weights_only=True)
        return trainer

    fit(tmp_path / "whole", 20)
    assert steps(tmp_path / "whole") == [0, 4, 8, 12, 16, 20]
    fit(tmp_path / "parts", 12).save_checkpoint(checkpoint)
    assert steps(tmp_path / "parts") == [0, 4, 8, 12]
    fit(tmp_path / "parts", 20, checkpoint)
    assert steps(tmp_path / "parts") == steps(tmp_path / "whole")


def test_accumulated_gradients_give_one_row_per_step(
    tmp_path: Path, make_task: MakeTask, make_trainer: MakeTrainer, data: SyntheticData
) -> None:
    callbacks = [ProbabilityMonitor(tmp_path)]
    make_trainer(tmp_path, max_steps=4, accumulate_grad_batches=2, log_every_n_steps=1, callbacks=callbacks).fit(
        make_task(), data
    )
    assert [step for step, _, _ in table(tmp_path)] == [step for step in range(5) for _ in LAYERS]


@pytest.mark.parametrize("kind", ["fixed", "none"])
def test_other_kinds_have_nothing_to_warn_about(
    tmp_path: Path,
    make_task: MakeTask,
    make_trainer: MakeTrainer,
    data: SyntheticData,
    caplog: pytest.LogCaptureFixture,
    kind: str,
) -> None:
    make_trainer(tmp_path, max_steps=4, callbacks=[ProbabilityMonitor(tmp_path)]).fit(make_task(kind, p=0.7), data)
    result = RunFolder(tmp_path).read_json(CONVERGENCE)
    assert result["converged"]
    if kind == "fixed":
        assert [p for _, _, p in table(tmp_path)] == [0.7] * 9
        assert result["layers"][LAYERS[0]]["saturated"] is None
    else:
        assert table(tmp_path) == []
        assert result["layers"] == {}
    assert "dropout p" not in caplog.text


@pytest.mark.parametrize(("init_p", "text"), [(5e-4, "0.0005 is below 0.001"), (0.7, "0.7 is above 0.6")])
def test_saturation_is_warned_about_once_per_layer(
    tmp_path: Path,
    make_task: MakeTask,
    make_trainer: MakeTrainer,
    data: SyntheticData,
    caplog: pytest.LogCaptureFixture,
    init_p: float,
    text: str,
) -> None:
    task = make_task(init_p=init_p, p_lr=0.0)
    make_trainer(tmp_path, max_steps=6, callbacks=[ProbabilityMonitor(tmp_path)]).fit(task, data)
    saturated = [record.message for record in caplog.records if "saturated" in record.message]
    assert len(saturated) == 3
    assert text in saturated[0]
    assert LAYERS[0] in saturated[0]
    assert RunFolder(tmp_path).read_json(CONVERGENCE)["layers"][LAYERS[0]]["saturated"] in ("low", "high")


def test_thresholds_are_arguments(
    tmp_path: Path,
    make_task: MakeTask,
    make_trainer: MakeTrainer,
    data: SyntheticData,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monitor = ProbabilityMonitor(tmp_path, high=0.15, tolerance=1e-9)
    make_trainer(tmp_path, max_steps=6, callbacks=[monitor]).fit(make_task(), data)
    assert "is above 0.15" in caplog.text
    assert "has not converged" in caplog.text
    assert "optim.p_lr" in caplog.text
    assert RunFolder(tmp_path).read_json(CONVERGENCE)["converged"] is False
    with pytest.raises(ValueError, match="chart_every_n_steps=-1"):
        ProbabilityMonitor(tmp_path, chart_every_n_steps=-1)


def test_a_p_that_rests_gives_no_warning(
    tmp_path: Path,
    make_task: MakeTask,
    make_trainer: MakeTrainer,
    data: SyntheticData,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, logger="concrete_dropout"):
        make_trainer(tmp_path, max_steps=6, callbacks=[ProbabilityMonitor(tmp_path)]).fit(make_task(p_lr=0.0), data)
    assert "dropout p" not in caplog.text
    assert RunFolder(tmp_path).read_json(CONVERGENCE)["converged"] is True


def test_a_fit_that_ends_early_is_concluded(
    tmp_path: Path, make_task: MakeTask, make_trainer: MakeTrainer, data: SyntheticData
) -> None:
    make_trainer(tmp_path, max_steps=20, callbacks=[ProbabilityMonitor(tmp_path), StopAt(5)]).fit(make_task(), data)
    assert steps(tmp_path) == [0, 2, 4, 5]
    assert (tmp_path / CONVERGENCE).is_file()


def test_a_killed_and_resumed_run_has_one_history(
    tmp_path: Path, make_task: MakeTask, make_trainer: MakeTrainer, data: SyntheticData
) -> None:
    """4 steps are an epoch: the checkpoint is of step 4, the kill comes after step 7."""

    def fit(resume: Path | None, *others: pl.Callback) -> RegressionTask:
        task = make_task()
        checkpoint = ModelCheckpoint(tmp_path / "checkpoints", save_last=True, save_on_train_epoch_end=True)
        trainer = make_trainer(
            tmp_path,
            max_epochs=3,
            enable_checkpointing=True,
            callbacks=[checkpoint, ProbabilityMonitor(tmp_path), *others],
        )
        trainer.fit(task, data, ckpt_path=resume)
        return task

    with pytest.raises(RuntimeError, match="killed"):
        fit(None, StopAt(7, error=True))
    before = table(tmp_path)
    assert steps(tmp_path) == [0, 2, 4, 6]
    with (tmp_path / DROPOUT).open("a") as file:
        file.write("7,network.lay")  # cut short by the kill
    task = fit(tmp_path / "checkpoints" / "last.ckpt")
    assert steps(tmp_path) == [0, 2, 4, 6, 8, 10, 12]
    after = table(tmp_path)
    assert after[:9] == before[:9]
    assert len(after) == 7 * 3
    result = RunFolder(tmp_path).read_json(CONVERGENCE)["layers"][LAYERS[2]]
    assert result["initial"] == pytest.approx(0.2)
    assert result["final"] == dropout_probabilities(task)[LAYERS[2]]


def test_a_run_resumed_in_a_new_folder_knows_its_initial_p(
    tmp_path: Path, make_task: MakeTask, make_trainer: MakeTrainer, data: SyntheticData
) -> None:
    first = make_trainer(tmp_path, max_epochs=1)
    first.fit(make_task(), data)
    first.save_checkpoint(tmp_path / "a.ckpt")
    second = make_trainer(tmp_path, max_epochs=2, callbacks=[ProbabilityMonitor(tmp_path / "new")])
    second.fit(make_task(), data, ckpt_path=tmp_path / "a.ckpt")
    assert steps(tmp_path / "new") == [4, 6, 8]
    layer = RunFolder(tmp_path / "new").read_json(CONVERGENCE)["layers"][LAYERS[0]]
    assert layer["initial"] == pytest.approx(0.2)


def test_a_new_run_in_an_old_folder_starts_its_own_table(
    tmp_path: Path, make_task: MakeTask, make_trainer: MakeTrainer, data: SyntheticData
) -> None:
    for init_p in (0.2, 0.4):
        make_trainer(tmp_path, max_steps=2, callbacks=[ProbabilityMonitor(tmp_path)]).fit(
            make_task(init_p=init_p), data
        )
    assert steps(tmp_path) == [0, 2]
    assert table(tmp_path)[0][2] == pytest.approx(0.4)
