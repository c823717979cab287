"""Any character that a file system allows, in every path: it works, and printed commands can be pasted into a shell."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
from pathlib import Path

import pytest
from tests.hardening import bad_files as bad
from tests.hardening.cases import CSV, PICTURES, SCENES, SMALL
from tests.hardening.commands import WarmCommands
from tests.hardening.tiers import some, thorough
from tests.hardening.trained import NETWORK, TINY

NAMES = {
    "everything": 'it\'s, a=b [c] {d} "e" 100% #1 $HOME größe 🚀',
    "spaces": "my  runs of May",
    "unicode": "größe 数据 é",
    "emoji": "✨🚀",
    "grammar": "a=b, c [d] {e}:f",
    "quotes": 'it\'s "mine"',
    "shell": "100% #1 $HOME & (x) `y`;*?!~",
    "backslash": "a\\b\\",
}

# The system's own signal at a certain step, once.
INTERRUPTION = """
import os, pathlib, signal
import pytorch_lightning as pl

class Interruption(pl.Callback):
    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.global_step == 3 and not pathlib.Path("was stopped").exists():
            pathlib.Path("was stopped").touch()
            os.kill(os.getpid(), signal.SIGTERM)
"""


def run(commands: WarmCommands, script: str, arguments: list[str], folder: Path) -> str:
    result = commands.run(script, arguments, folder)
    assert result.code == 0, f"{arguments}\n{result.out}{result.err}"
    return result.out + result.err


@pytest.mark.parametrize("name", some([*NAMES], every=len(NAMES)))
def test_a_table_from_training_to_prediction(name: str, commands: WarmCommands, tmp_path: Path) -> None:
    name = NAMES[name]
    place = tmp_path / name
    place.mkdir()
    bad.table(tmp_path, bad.good_table())
    shutil.move(tmp_path / "my table.csv", place / f"{name}.csv")
    table, output = f"{name}/{name}.csv", f"{name}/runs"
    settings = [a for a in CSV if not a.startswith("data.path=")]
    said = run(commands, "train.py", [*settings, *TINY, f"data.path={table}", f"hydra.run.dir={output}"], tmp_path)
    assert (place / "runs" / "report.html").is_file(), said
    record = json.loads((place / "runs" / "run.json").read_text())
    assert record["state"] == "finished"
    again = shlex.split(record["command"])  # the command in the record, pasted into a shell
    shutil.rmtree(place / "runs")
    run(commands, "train.py", again[2:], tmp_path)
    assert (place / "runs" / "report.html").is_file()
    checkpoint = f"{name}/runs/checkpoints/last.ckpt"
    run(commands, "train.py", [f"ckpt_path={checkpoint}", "trainer.max_steps=4"], tmp_path)  # in its own folder
    assert json.loads((place / "runs" / "run.json").read_text())["step"] == 4
    run(
        commands,
        "evaluate.py",
        [f"ckpt={output}", "mc_samples=2", f"data.path={table}", f"out={name}/scores"],
        tmp_path,
    )
    assert (place / "scores" / "results.csv").is_file()
    run(commands, "predict.py", [f"ckpt={checkpoint}", f"input={table}", f"output={name}/out"], tmp_path)
    assert (place / "out" / f"{name}_predictions.csv").is_file()
    run(commands, "dashboard.py", [f"{name}/runs", "--out", f"{name}/page"], tmp_path)
    assert (place / "page" / "index.html").is_file()
    (place / "runs" / "report.html").unlink()
    run(commands, "concrete_dropout.report", [f"{name}/runs"], tmp_path)
    assert (place / "runs" / "report.html").is_file()


@thorough
@pytest.mark.parametrize("name", ["grammar", "quotes"])
def test_pictures_scenes_and_caches(name: str, commands: WarmCommands, tmp_path: Path) -> None:
    odd = NAMES[name]
    for source in (bad.pictures(tmp_path), bad.scenes(tmp_path)):
        shutil.move(source, tmp_path / f"{odd} {source.name}")
    cats = tmp_path / f"{odd} pictures" / "train" / "cat"
    (cats / "1.png").rename(cats / f"{odd}.png")
    for kind in ("images", "masks"):
        folder = tmp_path / f"{odd} scenes" / "train" / kind
        (folder / "1.png").rename(folder / f"{odd}.png")
    pictures = [a for a in PICTURES if not a.startswith("data.root=")]
    place = f"data.root={odd} pictures"
    run(commands, "train.py", [*pictures, *TINY, "model.hidden=[8]", place, "hydra.run.dir=one"], tmp_path)
    out = ["input", f"{odd} pictures/train", "output", f"{odd} out"]
    run(commands, "predict.py", ["ckpt=one", f"{out[0]}={out[1]}", f"{out[2]}={out[3]}"], tmp_path)
    assert f"cat/{odd}.png".replace('"', '""') in (tmp_path / out[3] / "predictions.csv").read_text()
    scenes = [a for a in SCENES if not a.startswith(("data.root=", "data.cache_dir="))]
    places = [f"data.root={odd} scenes", f"data.cache_dir={odd} cache"]
    run(commands, "train.py", [*scenes, *TINY, *NETWORK, *places, "hydra.run.dir=two"], tmp_path)
    assert [*(tmp_path / f"{odd} cache").rglob("pixels.bin")]
    run(commands, "predict.py", ["ckpt=two", f"input={odd} scenes/train/images", f"output={odd} maps"], tmp_path)
    assert (tmp_path / f"{odd} maps" / f"{odd}_classes.png").is_file()


@pytest.mark.parametrize("name", some([*NAMES], every=len(NAMES)))
def test_the_command_that_goes_on_can_be_pasted(name: str, commands: WarmCommands, tmp_path: Path) -> None:
    """A run that is stopped tells how to go on; what it prints is what a shell is given."""
    name = NAMES[name]
    (tmp_path / "interruption.py").write_text(INTERRUPTION)
    first = [*SMALL, *TINY, "+callbacks.stop._target_=interruption.Interruption", f"hydra.run.dir={name}"]
    stopped = commands.run("train.py", [*first, "trainer.max_steps=200"], tmp_path, PYTHONPATH=str(tmp_path))
    assert stopped.code == 128 + signal.SIGTERM, stopped.out + stopped.err
    found = re.search(r"^  (python train\.py .*)$", stopped.err, re.MULTILINE)
    assert found, stopped.err
    words = shlex.split(found.group(1))
    assert words[:2] == ["python", "train.py"]
    arguments = [*words[2:], "trainer.max_steps=6"]
    result = commands.run("train.py", arguments, tmp_path, PYTHONPATH=str(tmp_path))
    assert result.code == 0, result.out + result.err
    assert json.loads((tmp_path / name / "run.json").read_text())["step"] == 6
