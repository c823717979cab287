from __future__ import annotations

from pathlib import Path

from concrete_dropout.cli.compose import compose_config
from concrete_dropout.cli.run import run

CONF = Path(__file__).parents[2] / "conf"


def test_a_continued_run_keeps_what_was_logged_before(tmp_path: Path) -> None:
    tiny = ["trainer=cpu", "model.hidden=[8]", "task.test_samples=3", "logger=csv", "trainer.log_every_n_steps=1"]
    last = tmp_path / "checkpoints" / "last.ckpt"
    for overrides in (["trainer.max_steps=2"], ["trainer.max_steps=4", f"ckpt_path={last}"]):
        run(compose_config([*tiny, *overrides], CONF, run_dir=tmp_path), tmp_path, CONF)
    files = sorted((tmp_path / "csv").rglob("metrics.csv"))
    assert [file.parent.name for file in files] == ["version_0", "version_1"]
    assert all("train/nll" in file.read_text() for file in files)
