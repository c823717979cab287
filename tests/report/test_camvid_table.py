"""The paper's CamVid table with ours beside it."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

import pytest
from tests.report.comparison_runs import KINDS, change_run, names_of_runs, write_comparison
from tests.report.test_run import read

from concrete_dropout import runfolder
from concrete_dropout.report import paper
from concrete_dropout.report.camvid_table import MIOU, camvid_lead, difference, network_note, rows_of
from concrete_dropout.report.study_record import CAMVID_TABLE, read_study
from concrete_dropout.runfolder import RunFolder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_comparison(tmp_path / "study", KINDS, segmentation=True, kind=CAMVID_TABLE, moving={5: (1,)})


def scores(path: Path, kind: str, name: str) -> list[float]:
    folders = [folder for folder in names_of_runs(path) if f"kind={kind}," in folder]
    return [
        100 * RunFolder(path / folder).read_json(runfolder.SUMMARY)["metrics"][f"test/{name}"] for folder in folders
    ]


def test_the_paper() -> None:
    assert [row.miou for row in paper.CAMVID] == [65.8, 67.1, 67.2, 67.2, 67.4]


def test_five_rows_with_and_without_mc(path: Path) -> None:
    rows = rows_of(read_study(path))
    expected = [
        ("none", "miou"),
        ("fixed", "miou_no_mc"),
        ("fixed", "miou"),
        ("concrete", "miou_no_mc"),
        ("concrete", "miou"),
    ]
    for row, (kind, name) in zip(rows, expected, strict=True):
        ours = row.ours(MIOU)
        one, two = scores(path, kind, name)
        assert ours is not None
        assert (ours.count, ours.mean) == (2, pytest.approx((one + two) / 2))
        assert ours.se == pytest.approx(abs(one - two) / 2)


def test_differences_are_taken_seed_by_seed(path: Path) -> None:
    rows = rows_of(read_study(path))
    gaps = [a - b for a, b in zip(scores(path, "concrete", "miou"), scores(path, "fixed", "miou"), strict=True)]
    found = difference(rows[4], rows[2])
    assert found is not None
    assert found.mean == pytest.approx(sum(gaps) / 2)
    assert found.se == pytest.approx(abs(gaps[0] - gaps[1]) / 2)


def test_the_page(path: Path) -> None:
    text = read(path)
    table = text.split('<h2 id="results">')[1].split("</section>")[0]
    plain = [" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in re.findall(r"<tr>(.*?)</tr>", table)]
    assert [row.split(" 5")[0] for row in plain[1:]] == [row.name for row in paper.CAMVID]
    assert plain[5].endswith("2 1 of 2")
    assert "FCDenseNet (247,391 parameters) on images at 50 % of their size, trained on crops of 128 pixels" in text
    assert "not with the paper&#x27;s column" in text
    assert "Their fixed p is 0.1." in text
    assert "In 1 run some dropout probability had not converged." in text
    for key in ("probabilities", "calibration", "selective", "classes", "runs"):
        assert f'<h2 id="{key}">' in text
    assert "could not be built" not in text


def test_tables_for_other_programs(path: Path) -> None:
    read(path)
    with (path / "table.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["dropout"], row["mc"], row["paper_miou_percent"]) for row in rows] == [
        (row.kind, str(int(row.mc)), str(row.miou)) for row in paper.CAMVID
    ]
    assert float(rows[4]["miou_percent"]) == pytest.approx(sum(scores(path, "concrete", "miou")) / 2)
    assert (rows[4]["seeds"], rows[4]["expected_seeds"], rows[4]["runs_with_converged_p"]) == ("2", "2", "1")
    text = (path / "table.md").read_text(encoding="utf-8")
    assert len({line.count("|") for line in text.splitlines() if line.startswith("|")}) == 1
    assert "| 67.4 |" in text


def test_half_way(tmp_path: Path) -> None:
    states = {2: "running", 3: "pending", 4: "failed", 5: "pending"}
    path = write_comparison(tmp_path / "study", KINDS, states, segmentation=True, kind=CAMVID_TABLE)
    text = read(path)
    assert "1 of 5 rows of the paper&#x27;s table have results." in text
    assert "0 of 2" in text
    assert "could not be built" not in text
    assert difference(*(rows_of(read_study(path))[i] for i in (4, 2))) is None


def test_nothing_has_begun(tmp_path: Path) -> None:
    path = write_comparison(tmp_path / "study", KINDS, dict.fromkeys(range(6), "pending"), kind=CAMVID_TABLE)
    study = read_study(path)
    assert "No run has come to its end yet" in camvid_lead(study)
    assert "will be known" in network_note(study)
    assert "67.4" in read(path)


def test_the_papers_network_may_be_compared(path: Path) -> None:
    for name in names_of_runs(path):
        change_run(path, name, num_parameters=paper.CAMVID_PARAMETERS + 120)
        config = RunFolder(path / name).path / runfolder.CONFIG
        config.write_text(config.read_text().replace("scale: 0.5", "scale: 1.0"))
    note = network_note(read_study(path))
    assert "full images" in note
    assert "not with the paper" not in note


def test_a_study_without_mc_has_no_mc_rows(path: Path) -> None:
    for name in names_of_runs(path):
        config = RunFolder(path / name).path / runfolder.CONFIG
        config.write_text(config.read_text().replace("test_samples: 20", "test_samples: 0"))
    rows = rows_of(read_study(path))
    assert [row.ours(MIOU) is not None for row in rows] == [True, True, False, True, False]
    assert math.isclose(rows[1].ours(MIOU).mean, sum(scores(path, "fixed", "miou")) / 2)  # type: ignore[union-attr]
