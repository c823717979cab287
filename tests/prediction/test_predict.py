"""python predict.py as a user types it, on runs whose training data are gone."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.prediction.conftest import Trained

from concrete_dropout.cli.predict import predict_command
from concrete_dropout.cli.saved_model import load_saved_model
from concrete_dropout.data.label_files import shrink
from concrete_dropout.data.labelled_images import planes_of
from concrete_dropout.prediction.intervals import mixture_quantile
from concrete_dropout.prediction.outcome import Outcome
from concrete_dropout.prediction.scenes import ScenePredictor
from concrete_dropout.prediction.sources import Source

ROOT = Path(__file__).parents[2]


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def numbers(rows: list[dict[str, str]], column: str) -> np.ndarray:
    return np.array([float(row[column]) for row in rows])


def picture(path: Path) -> Image.Image:
    with Image.open(path) as file:
        file.load()
        return file.copy()


# Regression ----------------------------------------------------------------------------------------------------------


def test_a_table_gets_its_predictions_in_a_process_of_its_own(trained: Trained, tmp_path: Path) -> None:
    run, table = trained("csv"), trained("csv").files / "table.csv"
    done = subprocess.run(
        [sys.executable, str(ROOT / "predict.py"), run.ckpt, f"input={table}", "interval=0.8"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "100", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "20 stochastic passes" in done.stdout
    (folder,) = (run.folder / "predictions").iterdir()
    rows = read(folder / "table_predictions.csv")
    assert list(rows[0])[:4] == ["age", "colour", "remark", "price"]
    assert [row["remark"] for row in rows] == [row["remark"] for row in read(table)]
    task, x = load_saved_model(run.folder).task, torch.from_numpy(encoded(table))
    means, variances = task.components(x, samples=20, seed=0)
    assert numbers(rows, "price_mean") == pytest.approx(means.mean(0)[:, 0].numpy(), rel=1e-8)
    assert numbers(rows, "price_epistemic_std") == pytest.approx(means.std(0, correction=0)[:, 0].numpy(), rel=1e-8)
    assert numbers(rows, "price_aleatoric_std") == pytest.approx(variances.mean(0).sqrt()[:, 0].numpy(), rel=1e-8)
    total = numbers(rows, "price_epistemic_std") ** 2 + numbers(rows, "price_aleatoric_std") ** 2
    assert numbers(rows, "price_predictive_std") ** 2 == pytest.approx(total, rel=1e-7)
    assert numbers(rows, "price_upper") == pytest.approx(
        mixture_quantile(means, variances, 0.9)[:, 0].numpy(), rel=1e-7
    )


def encoded(table: Path) -> np.ndarray:
    """Age, then the colours in alphabetical order, as the file has them."""
    rows = read(table)
    colours = ["blue", "dark green", "red"]
    return np.array([[float(row["age"]), *(float(row["colour"] == name) for name in colours)] for row in rows])


def test_rows_of_the_test_part_get_what_the_task_says_of_them(trained: Trained, tmp_path: Path) -> None:
    run = trained("csv")
    part = run.data.tables.test
    names = {(1.0, 0.0, 0.0): "blue", (0.0, 1.0, 0.0): "dark green", (0.0, 0.0, 1.0): "red"}
    lines = [f"{names[tuple(row[1:])]};{float(row[0])!r}" for row in part.x.tolist()]
    (tmp_path / "rows.csv").write_text("\n".join(["colour;age", *lines]))  # other order, other separator
    assert predict_command([run.ckpt, f"input={tmp_path}/rows.csv", f"output={tmp_path}", "mc_samples=0"]) == 0
    task = load_saved_model(run.folder).task
    with torch.no_grad():
        mean, log_var = task.network(run.data.tensors("test")[0])
    rows = read(tmp_path / "rows_predictions.csv")
    assert numbers(rows, "price_mean") == pytest.approx(task.targets.restore(mean)[:, 0].numpy(), rel=1e-6)
    std = task.targets.restore_variance(log_var.exp()).sqrt()[:, 0].numpy()
    assert numbers(rows, "price_predictive_std") == pytest.approx(std, rel=1e-6)
    assert (numbers(rows, "price_epistemic_std") == 0).all()
    half = (numbers(rows, "price_upper") - numbers(rows, "price_lower")) / 2
    assert half == pytest.approx(1.959964 * std, rel=1e-6)


def test_one_column_fixed_dropout_and_other_masks(trained: Trained, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("x\n0.5\n-1\n")
    common = [trained("fixed").ckpt, f"input={tmp_path}/x.csv", "mc_samples=30"]
    assert predict_command([*common, f"output={tmp_path}/a", "mask=bernoulli"]) == 0
    assert predict_command([*common, f"output={tmp_path}/b", "seed=1"]) == 0
    first, second = (read(tmp_path / name / "x_predictions.csv") for name in "ab")
    assert [row["x"] for row in first] == ["0.5", "-1"]
    assert (numbers(first, "y_mean") != numbers(second, "y_mean")).all()
    assert (numbers(first, "y_epistemic_std") > 0).all()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("age,paint\n1,red\n", "has no column 'colour', which the network was trained with"),
        ("age,colour\n1,red\nold,red\n", "Column 'age' of {file}, line 3: 'old' is not a number"),
        (
            "age,colour\n1,red\n,red\n",
            "misses values: age 1 (of 2 rows, the first in line 3). Fill them in, or set missing",
        ),
        ("age,colour\nnan,red\n", "misses values: age 1"),
        ("age,colour\ninf,red\n", "'inf' is not finite"),
        ("age,colour\n1,pink\n", "line 2: the training data had no category 'pink', but blue, dark green, red"),
        ("age,colour\n1e300,red\n", "Column 'age' of {file} has numbers that are too far"),
        ("age,colour,price_mean\n1,red,3\n", "has a column 'price_mean' already"),
        ("age,colour\n", "has a line of column names, but no rows"),
        ("", "is empty"),
    ],
)
def test_tables_that_do_not_fit(
    content: str, message: str, trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new.csv"
    file.write_text(content)
    assert predict_command([trained("csv").ckpt, f"input={file}", f"output={tmp_path}/out"]) == 2
    assert message.format(file=file) in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_ways_out_for_missing_values_and_unknown_categories(trained: Trained, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("age,colour\n3,red\n,red\n4,\n5,pink\n")
    common = [trained("csv").ckpt, f"input={tmp_path}/new.csv", "unknown=zeros"]
    assert predict_command([*common, "missing=skip", f"output={tmp_path}/a"]) == 0
    assert predict_command([*common, "missing=mean", f"output={tmp_path}/b"]) == 0
    skipped, filled = (read(tmp_path / name / "new_predictions.csv") for name in "ab")
    assert [bool(row["price_mean"]) for row in skipped] == [True, False, False, True]
    assert all(row["price_mean"] for row in filled)
    assert filled[1]["age"] == ""


# Classification ------------------------------------------------------------------------------------------------------


def test_pictures_are_classified_as_in_the_run(trained: Trained, tmp_path: Path) -> None:
    run = trained("pictures")
    assert predict_command([run.ckpt, f"input={run.files}", f"output={tmp_path}", "mc_samples=0"]) == 0
    rows = read(tmp_path / "predictions.csv")
    assert [row["file"] for row in rows] == [f"{name}/{index}.png" for name in ("cat", "dog") for index in range(4)]
    task = load_saved_model(run.folder).task
    (x, _) = next(iter(run.data.test_dataloader()))
    wanted = task.predict(x, samples=0).probabilities.numpy()
    found = np.stack([numbers(rows, "p_cat"), numbers(rows, "p_dog")], axis=1)
    assert found == pytest.approx(wanted, rel=1e-5)
    assert [row["class"] for row in rows] == [("cat", "dog")[index] for index in wanted.argmax(1)]
    assert numbers(rows, "confidence") == pytest.approx(wanted.max(1), rel=1e-5)
    entropy = -(wanted * np.log(wanted)).sum(1)
    assert numbers(rows, "predictive_entropy") == pytest.approx(entropy, rel=1e-4)
    assert (numbers(rows, "mutual_information") == 0).all()


def test_a_stopped_folder_goes_on_with_the_same_numbers(trained: Trained, tmp_path: Path) -> None:
    run = trained("pictures")
    common = [run.ckpt, f"input={run.files}"]
    assert predict_command([*common, f"output={tmp_path}/whole"]) == 0
    shutil.copytree(tmp_path / "whole", tmp_path / "part")
    journal = tmp_path / "part" / "finished.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:3]) + lines[3][:20])  # killed while the fourth was written
    (tmp_path / "part" / "predictions.csv").unlink()
    assert predict_command([*common, f"output={tmp_path}/part"]) == 0
    whole, part = ((tmp_path / name / "predictions.csv").read_text() for name in ("whole", "part"))
    assert whole == part
    assert len(journal.read_text().splitlines()) == 3 + 1 + 5
    assert numbers(read(tmp_path / "part" / "predictions.csv"), "mutual_information").max() > 0


def test_finished_files_are_left_alone_until_something_changes(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, files = trained("pictures"), tmp_path / "files"
    shutil.copytree(run.files, files)

    def predict(*more: str) -> str:
        assert predict_command([run.ckpt, f"input={files}/*/*.png", f"output={tmp_path}/out", *more]) == 0
        return capsys.readouterr().out.splitlines()[-1]

    assert "8 of 8 predicted:" in predict()
    assert "8 of 8 predicted, 8 of them before" in predict()
    Image.new("RGB", (5, 5)).save(files / "cat" / "0.png")
    assert "8 of 8 predicted, 7 of them before" in predict()
    assert "8 of 8 predicted:" in predict("mc_samples=3")


def test_a_network_without_dropout_and_digits_of_any_kind(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grey = (np.arange(64).reshape(8, 8) * 1000).astype(np.uint16)
    Image.fromarray(grey).save(tmp_path / "deep.png")
    Image.fromarray((grey >> 8).astype(np.uint8)).save(tmp_path / "plain.png")
    assert predict_command([trained("none").ckpt, f"input={tmp_path}", f"output={tmp_path}/out"]) == 0
    assert "no dropout" in capsys.readouterr().out
    deep, plain = read(tmp_path / "out" / "predictions.csv")
    assert numbers([deep], "p_3") == pytest.approx(numbers([plain], "p_3"), abs=0.01)
    assert float(deep["mutual_information"]) == 0


# Segmentation --------------------------------------------------------------------------------------------------------


def test_images_get_masks_and_maps_of_their_size(trained: Trained, tmp_path: Path) -> None:
    run = trained("scenes")
    assert predict_command([run.ckpt, f"input={run.files}", f"output={tmp_path}", "mc_samples=4"]) == 0
    for index in range(3):
        mask = picture(tmp_path / f"{index}_classes.png")
        assert (mask.mode, mask.size) == ("P", (48, 36))
        assert set(np.unique(mask)) <= {0, 1}
        assert tuple(mask.getpalette()[:3]) == run.data.spec.class_colours[0]
        for kind in ("overlay", "epistemic", "aleatoric"):
            assert picture(tmp_path / f"{index}_{kind}.png").size == (48, 36)
        epistemic = np.load(tmp_path / f"{index}_epistemic.npy")
        assert (epistemic.shape, epistemic.dtype) == ((36, 48), np.float32)
        assert 0 < epistemic.max() < np.log(2)
    assert (tmp_path / "classes.csv").read_text().splitlines()[1].startswith("road,0,")
    rows = read(tmp_path / "predictions.csv")
    assert numbers(rows, "share_road") + numbers(rows, "share_sky") == pytest.approx(1)


def test_maps_are_those_of_the_task(trained: Trained, tmp_path: Path) -> None:
    """At the network's own resolution, where nothing is enlarged."""
    run = trained("scenes")
    task = load_saved_model(run.folder).task
    x = torch.cat([batch[0] for batch in run.data.test_dataloader()])
    wanted = task.predict(x, samples=0)
    assert predict_command([run.ckpt, f"input={run.files}", f"output={tmp_path}", "mc_samples=0"]) == 0
    assert not list(tmp_path.glob("*epistemic*"))  # which one pass does not have
    for index in range(3):
        found = np.load(tmp_path / f"{index}_aleatoric.npy")
        small = np.asarray(Image.fromarray(wanted.aleatoric[index].numpy()).resize((48, 36), Image.Resampling.BILINEAR))
        assert found == pytest.approx(small, abs=1e-5)
        image = np.asarray(picture(run.files / f"{index}.png"))
        half = shrink(planes_of(image, np.zeros((36, 48), np.uint8)), 0.5)[:3]
        assert (half == np.rint(255 * restored(x[index], run))).all()


def restored(x: torch.Tensor, run: object) -> np.ndarray:
    standardise = run.data.standardise  # type: ignore[attr-defined]
    return x.numpy() * standardise.std + standardise.mean


def test_images_of_all_kinds_and_files_that_are_refused(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, rng = tmp_path / "files", np.random.default_rng(0)
    files.mkdir()
    photo = Image.fromarray(rng.integers(0, 256, (40, 61, 3), dtype=np.uint8))
    for mode in ("RGBA", "L", "LA", "P", "1"):
        photo.convert(mode).save(files / f"{mode}.png")
    photo.save(files / "same.jpg")
    photo.save(files / "same.png")
    exif = photo.getexif()
    exif[0x0112] = 6  # lies on its side
    photo.save(files / "turned.jpg", exif=exif)
    photo.save(files / "film.gif", save_all=True, append_images=[photo.rotate(90)])
    Image.new("1", (10_000, 10_000)).save(files / "huge.png")
    (files / "cut.jpg").write_bytes((files / "same.jpg").read_bytes()[:1500])
    (files / "empty.png").touch()
    (files / "text.png").write_text("not a picture")
    Image.new("F", (9, 9)).save(files / "float.tif")
    Image.new("RGB", (1, 1)).save(files / "dot.png")
    (files / "nowhere.png").symlink_to(files / "gone.png")
    (files / "notes.txt").write_text("not looked at")
    command = [trained("scenes").ckpt, f"input={files}", f"output={files}/out", "mc_samples=2", "raw=false"]
    assert predict_command(command) == 1
    err = capsys.readouterr().err
    rows = read(files / "out" / "predictions.csv")
    assert [row["file"] for row in rows] == sorted(
        ["1.png", "L.png", "LA.png", "P.png", "RGBA.png", "same.jpg", "same.png", "turned.jpg"]
    )
    assert {"same.jpg_overlay.png", "same.png_overlay.png"} <= {path.name for path in (files / "out").iterdir()}
    assert picture(files / "out" / "turned_classes.png").size == (40, 61)
    assert not list((files / "out").glob("*.npy"))
    summary = json.loads((files / "out" / "predictions.json").read_text())
    reasons = {
        "film.gif": "animated or has several pages (2)",
        "huge.png": "10000 x 10000 pixels, 100 million; 80 are the most",
        "cut.jpg": "truncated",
        "empty.png": "is empty (0 bytes)",
        "text.png": "no picture of a known format",
        "float.tif": "floating-point numbers",
        "dot.png": "cannot take 1 x 1 pixels",
        "nowhere.png": "No such file",
    }
    assert set(summary["refused"]) == set(reasons)
    for name, reason in reasons.items():
        assert reason in summary["refused"][name]
        assert f"  {name}: " in err
    assert predict_command([*command[:2], f"output={tmp_path}/strict", "strict=true", "mc_samples=0"]) == 1
    assert "1 refused:\n  cut.jpg" in capsys.readouterr().err
    assert [row["file"] for row in read(tmp_path / "strict" / "predictions.csv")] == [
        "1.png",
        "L.png",
        "LA.png",
        "P.png",
        "RGBA.png",
    ]


def test_ctrl_c_says_how_to_go_on(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained("scenes")
    monkeypatch.chdir(tmp_path)
    command = [run.ckpt, f"input={run.files}", "mc_samples=2"]
    whole = ScenePredictor.one

    def interrupted(self: ScenePredictor, source: Source) -> Outcome:
        if source.name == "1.png":
            raise KeyboardInterrupt
        return whole(self, source)

    with monkeypatch.context() as patch:
        patch.setattr(ScenePredictor, "one", interrupted)
        assert predict_command([*command, "output=maps"]) == 130
    assert "Stopped by Ctrl-C. The same command with output=maps goes on" in capsys.readouterr().err
    assert not Path("maps/predictions.csv").exists()
    assert predict_command([*command, "output=maps"]) == 0
    assert "3 of 3 predicted, 1 of them before" in capsys.readouterr().out
    assert predict_command([*command, "output=again"]) == 0
    for path in Path("again").glob("*.*"):
        if path.name != "finished.jsonl":
            assert path.read_bytes() == (Path("maps") / path.name).read_bytes()


def test_an_image_that_takes_too_much_memory(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.new("RGB", (400, 300)).save(tmp_path / "large.png")
    command = [trained("scenes").ckpt, f"input={tmp_path}/large.png", f"output={tmp_path}/out", "mc_samples=2"]
    assert predict_command([*command, "memory=0.002"]) == 2
    message = capsys.readouterr().err
    assert "large.png has 400 x 300 pixels, for which this network takes about" in message
    limit = message.partition("Set ")[2].partition(" to")[0]
    assert limit.startswith("max_size=")
    assert predict_command([*command, "memory=0.002", limit]) == 0
    assert picture(tmp_path / "out" / "large_overlay.png").size == (400, 300)


# Commands that are refused -------------------------------------------------------------------------------------------


def test_help_names_every_key_and_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert predict_command(["--help"]) == 0
    text = capsys.readouterr().out
    keys = "ckpt input output mc_samples mask seed device strict interval missing unknown raw max_size memory".split()
    assert all(f"\n  {key}=" in text for key in keys)
    assert text.count("python predict.py ckpt=") >= 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["input=a"], "ckpt=... is missing"),
        (["ckpt=a"], "input=... is missing"),
        (["ckpt=a", "input=b", "sample=3"], "sample is unknown"),
        (["ckpt=a", "input=b", "mc_sample=3"], "Did you mean 'mc_samples'?"),
        (["ckpt=a", "input=b", "mc_samples=-1"], "mc_samples=-1 must be an integer of at least 0"),
        (["ckpt=a", "input=b", "mask=soft"], "mask=soft must be concrete | bernoulli"),
        (["ckpt=a", "input=b", "interval=95"], "interval=95 must be a number between 0 and 1"),
        (["ckpt=a", "input=b", "device=tpu"], "device=tpu must be auto | cpu"),
        (["ckpt=a", "input=b", "seed=1", "seed=2"], "seed is given twice"),
        (["ckpt=a", "input=b", "--verbose"], "--verbose is no option"),
        (["ckpt=a", "b"], "settings are written key=value"),
        (["ckpt=a", "input=b"], "there is no checkpoint a"),
    ],
)
def test_commands_that_are_not_understood(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert predict_command(arguments) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("run", "given", "message"),
    [
        ("scenes", "table.csv", "is a table, but ckpt is of a segmentation network: give it pictures"),
        ("csv", "photo.png", "is a picture, but ckpt is of a regression network: give it a CSV file"),
        ("csv", "folder", "has no files ending in .csv, .tsv, .txt, which a regression network takes. It has .png"),
        ("scenes", "folder/*.jpg", "fits no files ending in .bmp"),
        ("scenes", "nowhere", "there is no such file or folder"),
        ("scenes", "photo.png device=cuda:9", "device=cuda:9 is not here"),
    ],
)
def test_inputs_that_do_not_fit_the_checkpoint(
    run: str,
    given: str,
    message: str,
    trained: Trained,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Image.new("RGB", (9, 9)).save("photo.png")
    Image.new("RGB", (9, 9)).save("folder/photo.png")
    Path("table.csv").write_text("a,b\n1,2\n")
    assert predict_command([trained(run).ckpt, *f"input={given}".split()]) == 2
    assert message in capsys.readouterr().err
    assert not (trained(run).folder / "predictions").exists() or run == "csv"


def test_a_traceback_for_those_who_ask(trained: Trained, capsys: pytest.CaptureFixture[str]) -> None:
    assert predict_command([trained("csv").ckpt, "input=nowhere", "--traceback"]) == 2
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("Error: input=nowhere")


def test_checkpoints_of_other_things(trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = torch.load(trained("csv").folder / "checkpoints" / "last.ckpt", weights_only=True)
    assert "recipe" in saved
    cases = {
        "agent": ({"agent": {}}, "is of an agent, which acts in its world and predicts no files"),
        "replicas": ({"config": {**saved["config"], "replicas": {"grid": {"seed": [0, 1]}}}}, "holds several replicas"),
        "foreign": ({"config": None}, "has no config"),
        "later": ({"recipe": {"kind": "sounds"}}, "in a way that this version does not know"),
        "older": ({"recipe": None}, "is of an earlier version, which did not keep how files become inputs, and"),
        "changed": (
            {"config": {**saved["config"], "model": {**saved["config"]["model"], "hidden": [3]}}},
            "does not fit",
        ),
    }
    for name, (change, message) in cases.items():
        made = {key: value for key, value in {**saved, **change}.items() if value is not None}
        torch.save(made, tmp_path / f"{name}.ckpt")
        assert predict_command([f"ckpt={tmp_path}/{name}.ckpt", f"input={tmp_path}"]) == 2
        assert message in capsys.readouterr().err


def test_an_older_checkpoint_whose_data_are_there(trained: Trained, tmp_path: Path) -> None:
    saved = torch.load(trained("none").folder / "checkpoints" / "last.ckpt", weights_only=True)
    del saved["recipe"]
    torch.save(saved, tmp_path / "old.ckpt")
    old, new = load_saved_model(tmp_path / "old.ckpt"), load_saved_model(trained("none").folder)
    assert old.recipe == new.recipe
