"""Reports on classification and segmentation: complete, damaged, hostile."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.report.runs import truncate
from tests.report.test_run import HOSTILE, JSON, count_figures, read, write_hostile
from tests.report.vision_runs import write_classification, write_segmentation

from concrete_dropout import runfolder
from concrete_dropout.report import build_run_report, run
from concrete_dropout.report.pictures import Picture
from concrete_dropout.report.record import Record, read_record
from concrete_dropout.report.vision_sections import selective_in_words
from concrete_dropout.runfolder import RunFolder

WRITERS = {"classification": write_classification, "segmentation": write_segmentation}
SPACE = "\N{NO-BREAK SPACE}"


@pytest.fixture(params=WRITERS)
def vision_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return WRITERS[request.param](tmp_path / "run")


def headings(text: str) -> list[str]:
    return re.findall(r"<h2[^>]*>([^<]*)<", text)


def test_classification(tmp_path: Path) -> None:
    path = write_classification(tmp_path / "run")
    text = read(path)
    assert "could not be built" not in text
    assert headings(text)[:3] == ["Results", "Gallery", "Learned dropout probabilities"]
    assert "Measured on 10,000 test samples, with Monte Carlo samples" in text
    assert "on 50,000 training samples." in text
    assert '<span class="value">98.64</span> <span class="unit">%</span>' in text
    assert f"whose most probable class is the true one. Without MC: 100.62{SPACE}%." in text
    assert '<th scope="row">Accuracy</th><td class="number">0.9864</td><td class="number">0.9864</td>' in text
    assert (
        f"Leaving out the 20{SPACE}% of test samples that the model is least sure of raises accuracy from 98.6" in text
    )
    assert "This one is 2.2 percentage points more confident than right: overconfident." in text
    assert text.count("<img ") == 12
    assert "<strong>1</strong> taken for <strong>2</strong>" in text
    assert 'alt="test 0: 0, predicted 1"' in text
    assert "val 10" not in text
    assert count_figures(path) >= 9
    assert "target&#x27;s original units" not in text


def test_segmentation(tmp_path: Path) -> None:
    path = write_segmentation(tmp_path / "run")
    text = read(path)
    assert "could not be built" not in text
    assert headings(text)[:3] == ["Results", "Maps of prediction and uncertainty", "Classes"]
    assert '<span class="value">67.43</span>' in text
    assert "63,417,600 training pixels" in text
    assert "Share of labelled pixels whose most probable class" in text
    # Two images with three steps, and one with one: two pictures each, and four per step.
    assert text.count("<img ") == 2 * (2 + 3 * 4) + (2 + 4)
    assert 'alt="Epistemic of val image 3 at step 200"' in text
    assert "Error: 12.3" in text
    assert re.findall(r'name="step-val" value="(\d)"( checked)?', text) == [("0", ""), ("1", ""), ("2", " checked")]
    assert "step-test" not in text
    assert "Gain by MC" in text
    assert "+0.010" in text
    # Classes have a section, and no rows in the table of metrics.
    assert "IoU of Sky" not in text
    assert "IoU of every class" in (path / runfolder.REPORT).read_text()


def test_pictures_are_in_the_page_as_they_are(tmp_path: Path) -> None:
    path = write_classification(tmp_path / "run")
    found = re.findall(
        r'<img src="data:image/png;base64,([^"]+)" alt="[^"]+" width="8" height="8" class="small">', read(path)
    )
    files = [entry["file"] for entry in RunFolder(path).read_json(runfolder.GALLERY)["test"]]
    assert [base64.b64decode(text) for text in found] == [(path / file).read_bytes() for file in files]


def test_runs_without_samples_say_so(tmp_path: Path) -> None:
    path = write_segmentation(tmp_path / "run")
    folder = RunFolder(path)
    summary = folder.read_json(runfolder.SUMMARY)
    summary["metrics"]["test/mutual_information"] = 0.0
    folder.write_json(runfolder.SUMMARY, summary)
    maps = folder.read_json(runfolder.MAPS)
    for at in maps["test"]["images"][0]["steps"]:
        at["mutual_information"] = 0.0
    folder.write_json(runfolder.MAPS, maps)
    text = read(path)
    assert "by one pass without dropout masks." in text
    assert text.count("these predictions had no Monte Carlo samples (task.test_samples=0)") == 1
    assert "task.val_samples" not in text


@pytest.mark.parametrize("share", [0.0, 0.9])
def test_truncated_files(vision_dir: Path, share: float) -> None:
    truncate(vision_dir, share)
    text = read(vision_dir)
    assert "Some files of this run are damaged." in text
    assert "could not be built" not in text


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("classification", name) for name in (runfolder.GALLERY, runfolder.SUMMARY, runfolder.METRICS)),
        *(("segmentation", name) for name in (runfolder.MAPS, runfolder.CLASSES, runfolder.SELECTIVE)),
    ],
)
def test_any_file_may_be_missing(tmp_path: Path, kind: str, name: str) -> None:
    path = WRITERS[kind](tmp_path / "run")
    (path / name).unlink()
    text = run.render(read_record(path, with_pictures=True))
    assert "could not be built" not in text
    assert "damaged" not in text


def test_pictures_that_are_cut_or_gone(vision_dir: Path) -> None:
    cut, gone, *_ = sorted((vision_dir / "images").glob("*_test_*"))
    cut.write_bytes(cut.read_bytes()[:-5])
    gone.unlink()
    text = read(vision_dir)
    assert f"images/{cut.name} is no whole PNG picture; it was left out." in text
    assert text.count(">no picture</div>") == 2


@pytest.mark.parametrize("kind", WRITERS)
def test_hostile_text_everywhere(tmp_path: Path, kind: str) -> None:
    names = tuple(f"{HOSTILE}{i}" for i in range(11))
    path = WRITERS[kind](tmp_path / "run", names=names)  # type: ignore[operator]
    write_hostile(path)
    folder = RunFolder(path)
    for file in (runfolder.GALLERY, runfolder.MAPS):
        text = (path / file).read_text() if (path / file).is_file() else ""
        if text:
            folder.write_text(file, re.sub(r'"name": "[^"]*"', f'"name": "{HOSTILE[:-5]}"', text))
    page = build_run_report(path).read_text(encoding="utf-8")
    assert "could not be built" not in page
    assert page.count("<script") == page.count("</script>") == page.count('type="application/json"') + 2
    assert "<img src=x" not in page
    assert "alert('x')</script>" not in page


def test_paths_outside_of_the_pictures_are_not_read(tmp_path: Path) -> None:
    path = write_classification(tmp_path / "run")
    picture = next((path / "images").iterdir())
    (tmp_path / "secret.png").write_bytes(picture.read_bytes())
    gallery = RunFolder(path).read_json(runfolder.GALLERY)
    outside = ["../secret.png", "images/../../secret.png", str(tmp_path / "secret.png"), "images/a/b.png", 7, None]
    for sample, file in zip(gallery["test"], outside, strict=False):
        sample["file"] = file
    RunFolder(path).write_json(runfolder.GALLERY, gallery)
    assert read(path).count("<img ") == 12 - len(outside)


def test_only_the_report_of_a_run_reads_pictures(vision_dir: Path) -> None:
    assert read_record(vision_dir).pictures == {}
    assert read_record(vision_dir, with_pictures=True).pictures


def test_many_steps_are_thinned_to_the_buttons_there_are(tmp_path: Path) -> None:
    path = write_segmentation(tmp_path / "run", steps=tuple(range(20, 320, 20)))
    text = read(path)
    assert len(re.findall('name="step-val"', text)) == 12
    assert "<span>300</span>" in text


def test_the_kind_is_known_by_the_scores(tmp_path: Path) -> None:
    assert read_record(write_classification(tmp_path / "a")).kind == "classification"
    assert read_record(write_segmentation(tmp_path / "b")).kind == "segmentation"
    assert Record("c").kind == "regression"
    assert Record("d", calibration={"val": {"confidence": [0.5]}}).kind == "classification"


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        ([0.9, 0.95], f"raises accuracy from 90.0{SPACE}% to 95.0{SPACE}%."),
        ([0.9, 0.85], f"lowers accuracy from 90.0{SPACE}% to 85.0{SPACE}%."),
        ([0.9, 0.90001], f"leaves accuracy at 90.0{SPACE}%."),
    ],
)
def test_selective_prediction_in_words(kept: list[float], words: str) -> None:
    assert selective_in_words({"left_out": [0.0, 0.2], "accuracy_kept": kept}, "val", "pixel").endswith(words)
    assert selective_in_words({"left_out": [0.1], "accuracy_kept": [0.9]}, "val", "pixel") == ""


def test_scores_without_mc_come_from_the_calibration_too() -> None:
    record = Record("a", calibration={"test_no_mc": {"rmse": 0.1, "ece": 0.2}})
    assert record.metric("test", "calibration_rmse_no_mc") == 0.1
    assert record.metric("test", "ece_no_mc") == 0.2
    assert record.metric("test", "ece") is None


ENTRY = st.dictionaries(
    st.sampled_from(
        "names iou iou_no_mc colours images scales left_out accuracy_kept miou_kept confidence frequency share".split()
    ),
    JSON | st.lists(st.dictionaries(st.sampled_from(["steps", "step", "name", "input", "wrong"]), JSON), max_size=3),
)
SHAPES = st.dictionaries(st.sampled_from(["val", "test", "test_no_mc"]), JSON | ENTRY | st.lists(ENTRY, max_size=3))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.fixed_dictionaries(dict.fromkeys(("calibration", "selective", "classes", "gallery", "maps"), SHAPES)))
def test_json_of_any_shape_gives_a_page(entries: dict[str, dict[str, Any]]) -> None:
    picture = {"images/a.png": Picture("data:image/png;base64,", 1, 1)}
    run.render(Record("run", pictures=picture, **entries)).encode("utf-8")
