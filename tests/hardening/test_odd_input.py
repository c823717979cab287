"""Input that is unusual and all right: batches larger than the data, constant columns, pictures of all kinds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.hardening import bad_files as bad
from tests.hardening.cases import CSV, PICTURES, SCENES, SMALL, UCI
from tests.hardening.commands import WarmCommands
from tests.hardening.tiers import some, thorough
from tests.hardening.trained import NETWORK, TINY, Runs, age, change

IN_PLACE = "hydra.run.dir=run"


def trained(commands: WarmCommands, folder: Path, arguments: list[str]) -> str:
    """A run that must come to its end; what it printed to both streams."""
    result = commands.run("train.py", [*arguments, IN_PLACE], folder)
    assert result.code == 0, result.out + result.err
    assert json.loads((folder / "run" / "run.json").read_text())["state"] == "finished"
    return result.out + result.err


def test_a_batch_larger_than_the_data(commands: WarmCommands, tmp_path: Path) -> None:
    trained(commands, tmp_path, [*SMALL, *TINY, "data.num_data=5", "data.batch_size=64"])
    assert json.loads((tmp_path / "run" / "run.json").read_text())["step"] == 4
    assert "data.batch_size=64 is more than the 5 training items" in (tmp_path / "run" / "run.log").read_text()


@thorough
def test_a_single_row_to_train_on(commands: WarmCommands, tmp_path: Path) -> None:
    trained(commands, tmp_path, [*SMALL, *TINY, "data.num_data=1"])


def test_a_constant_feature_is_warned_of_by_name(commands: WarmCommands, tmp_path: Path) -> None:
    bad.table(tmp_path, bad.constant_column("b"))
    assert "kept as columns of zeros: b" in trained(commands, tmp_path, [*CSV, *TINY])


@thorough
def test_a_constant_feature_of_a_published_set(commands: WarmCommands, tmp_path: Path) -> None:
    data = bad.uci(tmp_path) / "data.txt"
    values = np.loadtxt(data)
    values[:, 1] = 3.0
    np.savetxt(data, values)
    trained(commands, tmp_path, [*UCI, *TINY])
    assert "kept as columns of zeros: x1" in (tmp_path / "run" / "run.log").read_text()


def test_pictures_of_all_kinds_side_by_side(commands: WarmCommands, tmp_path: Path) -> None:
    pixels = bad.generator().integers(0, 256, (40, 30, 3), dtype=np.uint8)
    picture = Image.fromarray(pixels)
    folder = bad.pictures(tmp_path) / "train" / "cat"
    picture.convert("L").save(folder / "grey.png")
    picture.convert("RGBA").save(folder / "transparent.png")
    picture.convert("CMYK").save(folder / "print.jpg")
    picture.convert("P").save(folder / "palette.png")
    picture.convert("1").save(folder / "black and white.png")
    Image.fromarray(pixels[..., 0].astype(np.uint16) * 257).save(folder / "16 bit.png")
    Image.new("RGB", (1, 1)).save(folder / "one pixel.png")
    trained(commands, tmp_path, [*PICTURES, *TINY, "model.hidden=[8]"])


@thorough
def test_masks_of_all_kinds_side_by_side(commands: WarmCommands, tmp_path: Path) -> None:
    folder = bad.scenes(tmp_path) / "train" / "masks"
    labels = bad.generator().integers(0, 2, (36, 48)).astype(np.uint8)
    Image.fromarray(labels.astype(np.uint16)).save(folder / "0.png")  # 16 bits
    Image.fromarray(np.stack([labels] * 3, axis=-1)).save(folder / "1.png")  # grey as RGB
    shown = Image.fromarray(labels)
    shown.putpalette([255, 0, 0, 0, 0, 255])
    shown.save(folder / "2.png")  # with a palette
    trained(commands, tmp_path, [*SCENES, *TINY, *NETWORK])


@pytest.mark.parametrize("script", some(["predict.py", "evaluate.py"], every=2))
def test_a_checkpoint_of_an_earlier_version_is_of_use(
    script: str, commands: WarmCommands, runs: Runs, tmp_path: Path
) -> None:
    copy = runs.copy("csv", tmp_path / "run")
    data = runs.place / "csv" / "my table.csv"

    def to_earlier(content: dict) -> None:  # type: ignore[type-arg]
        age(content)
        content["config"]["data"]["path"] = str(data)

    change(copy, to_earlier)
    more = [f"input={data}"] if script == "predict.py" else ["mc_samples=2"]
    result = commands.run(script, [f"ckpt={copy}", *more], tmp_path)
    assert result.code == 0, result.out + result.err


@thorough
def test_an_earlier_run_goes_on(commands: WarmCommands, runs: Runs, tmp_path: Path) -> None:
    copy = runs.copy("toy", tmp_path / "run")
    change(copy, age)
    result = commands.run("train.py", [f"ckpt_path={copy}/checkpoints/last.ckpt", "trainer.max_steps=8"], tmp_path)
    assert result.code == 0, result.out + result.err
    assert json.loads((copy / "run.json").read_text())["step"] == 8


@thorough
def test_many_samples_take_little_memory(commands: WarmCommands, runs: Runs, tmp_path: Path) -> None:
    """A hundred thousand samples of 40 rows: side by side they would be 130 MB for one layer, ten times as much as
    the process may grow by."""
    copy = runs.copy("csv", tmp_path / "run")
    data = f"data.path={runs.place / 'csv' / 'my table.csv'}"
    few, many = (_peak(commands, copy, tmp_path / str(count), count, data) for count in (10, 20_000))
    assert many - few < 30_000, f"kB: {few} with 10 samples, {many} with 20,000"


def _peak(commands: WarmCommands, run: Path, folder: Path, samples: int, data: str) -> int:
    folder.mkdir()
    result = commands.run("evaluate.py", [f"ckpt={run}", f"mc_samples={samples}", "out=out", data], folder)
    assert result.code == 0, result.out + result.err
    return result.peak
