"""Evaluations become rows and sections: masks at test time, data from elsewhere, calibration under corruption."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.docs import evaluation_folders as folders
from tests.docs import result_runs as runs
from tests.docs.test_results import rows_of
from tests.docs.test_results_page import cells, place_of, section
from tools.measured.command import add, main
from tools.measured.figures import COLOURS
from tools.measured.masks_section import TITLE as MASKS
from tools.measured.masks_section import difference
from tools.measured.page import PAGE, RESULTS, made
from tools.measured.shift_sections import CORRUPTED, ELSEWHERE, blocks
from tools.measured.tables import Group

from concrete_dropout.runfolder import EVALUATION, RunFolder


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with all evaluations, and its page."""
    place, work = place_of(tmp_path_factory.mktemp("project")), tmp_path_factory.mktemp("work")
    made = [folders.of_masks(work / f"masks{seed}", seed) for seed in (0, 1)]
    for kind, base in (("concrete", 0.1), ("fixed", 0.15), ("none", 0.2)):
        made += [folders.of_shifts(work / f"{kind}{seed}", kind, (seed,), base) for seed in (0, 1)]
    made.append(folders.of_shifts(work / "ensemble", "none", (0, 1, 2), 0.05, ("blur",)))
    add(place / RESULTS, made)
    assert main(["build"], place) == 0
    return place


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / PAGE).read_text()


def test_masks_are_rows_with_means_over_repeats(root: Path) -> None:
    rows = rows_of(root / RESULTS, "masks")
    assert [(row["mask"], row["samples"]) for row in rows if row["seed"] == "0"] == [
        ("bernoulli", "10"),
        ("bernoulli", "100"),
        ("concrete", "10"),
        ("concrete", "100"),
        ("none", "0"),
    ]
    row = next(row for row in rows if (row["seed"], row["mask"], row["samples"]) == ("1", "concrete", "10"))
    assert float(row["nll"]) == pytest.approx(0.2 + 0.01 + 0.1 + 0.001)
    assert float(row["nll_std"]) == pytest.approx(0.002 / 2**0.5, rel=1e-4)
    assert (row["experiment"], row["dropout"], row["repeats"], row["settings"]) == ("mnist", "concrete", "2", "")


def test_shifts_are_rows_with_the_samples_of_the_subject(root: Path) -> None:
    rows = rows_of(root / RESULTS, "shift")
    assert len(rows) == 6 * (1 + 2 * 3 + 2) + (1 + 3 + 2)
    # The pass without dropout that comes beside sampled ones is no row.
    assert all(row["mask"] == {"none": "none", "fixed": "bernoulli"}.get(row["dropout"], "concrete") for row in rows)
    assert max(float(row["nll"]) for row in rows if row["nll"]) < 9
    ensemble = [row for row in rows if row["members"] == "3"]
    assert {(row["dropout"], row["seed"], row["p"]) for row in ensemble} == {("none", "0-2", "0")}
    fixed = next(row for row in rows if (row["dropout"], row["shift"]) == ("fixed", "noise"))
    assert (fixed["p"], fixed["severity"], fixed["auroc_predictive"], fixed["nll"]) == ("0.2", "0", "0.85", "")
    single = next(row for row in rows if (row["dropout"], row["members"], row["shift"]) == ("none", "1", "noise"))
    assert single["auroc_epistemic"] == ""


def test_no_row_names_a_place_and_adding_again_changes_nothing(root: Path, tmp_path: Path) -> None:
    folder = folders.of_masks(tmp_path / "masks")
    texts = []
    for _ in range(2):
        add(tmp_path / "results", [folder])
        texts.append((tmp_path / "results" / "masks.csv").read_text())
    assert texts[0] == texts[1]
    assert str(tmp_path) not in texts[0]
    assert "out=" not in texts[0]


def test_a_newer_evaluation_replaces_an_older_one(tmp_path: Path) -> None:
    old = folders.of_shifts(tmp_path / "old", "none", base=0.3)
    new = folders.of_shifts(tmp_path / "new", "none", base=0.1, started="2026-04-01T12:00:00+00:00")
    for order in ((old, new), (new, old)):
        add(tmp_path / "results", order)
        clean = next(row for row in rows_of(tmp_path / "results", "shift") if row["shift"] == "")
        assert clean["nll"] == "0.1"


def test_a_folder_of_evaluations_is_searched(tmp_path: Path) -> None:
    folders.of_masks(tmp_path / "evaluations" / "a", 0)
    folders.of_masks(tmp_path / "evaluations" / "b", 1)
    add(tmp_path / "results", [tmp_path / "evaluations"])
    assert {row["seed"] for row in rows_of(tmp_path / "results", "masks")} == {"0", "1"}


def test_runs_beside_an_evaluation_are_taken_too(tmp_path: Path) -> None:
    both = tmp_path / "both"
    for seed in (0, 1):
        runs.mnist(both / f"run{seed}", seed)
    folders.of_masks(both / "masks", 2)
    add(tmp_path / "results", [both])
    # Whose runs are inside of it is the evaluation's own affair.
    assert [row["seed"] for row in rows_of(tmp_path / "results", "mnist")] == ["0", "1"]
    assert {row["seed"] for row in rows_of(tmp_path / "results", "masks")} == {"2"}


def test_a_run_with_an_evaluation_inside_is_still_a_run(tmp_path: Path) -> None:
    run = runs.mnist(tmp_path / "run", 3)
    for place in (run, run / "evaluation"):
        folders.of_masks(place, 3)
        runs.mnist(run, 3)
        add(tmp_path / place.name, [run])
        assert [row["seed"] for row in rows_of(tmp_path / place.name, "mnist")] == ["3"]
        assert {row["seed"] for row in rows_of(tmp_path / place.name, "masks")} == {"3"}
        (place / EVALUATION).unlink()


def test_evaluations_with_other_numbers_of_samples_are_other_rows(tmp_path: Path) -> None:
    few = folders.of_shifts(tmp_path / "few", "concrete")
    many = folders.of_shifts(tmp_path / "many", "concrete", started="2026-04-01T12:00:00+00:00")
    results = RunFolder(few).read_json(EVALUATION)
    for entry in results["passes"]:
        entry["rows"] = [{**row, "samples": 10} for row in entry["rows"]]
    RunFolder(few).update_json(EVALUATION, passes=results["passes"], plan={**results["plan"], "shift_samples": 10})
    add(tmp_path / "results", [few, many])
    rows = rows_of(tmp_path / "results", "shift")
    assert sorted(row["samples"] for row in rows if not row["shift"]) == ["10", "50"]


def test_evaluations_that_cannot_count_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = folders.write(tmp_path / "plain", [runs.mnist(tmp_path / "run")], [], {})
    running = folders.of_masks(tmp_path / "running", state="running")
    foreign = folders.of_masks(tmp_path / "foreign", subject={"experiment": "digits"})
    damaged = folders.of_masks(tmp_path / "damaged")
    (damaged / EVALUATION).write_text("{")
    add(tmp_path / "results", [plain, running, foreign, damaged])
    said = capsys.readouterr().err
    assert "plain: left out, it compares no masks and has no shifted data" in said
    assert "running: left out, it is running" in said
    assert "foreign: left out, its runs are of none of the paper's experiments" in said
    assert "damaged: left out, results.json cannot be read" in said
    assert not (tmp_path / "results").exists()


def test_an_evaluation_whose_runs_are_gone_keeps_what_it_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folders.of_shifts(tmp_path / "shifts", "fixed")
    (tmp_path / "shifts" / "run0").rename(tmp_path / "moved")
    add(tmp_path / "results", [folder])
    row = rows_of(tmp_path / "results", "shift")[0]
    assert (row["dropout"], row["seed"], row["p"]) == ("fixed", "0", "")
    assert "shifts: the runs are not where they were, so that their settings are unknown" in capsys.readouterr().err


def test_a_relative_path_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = folders.of_shifts(Path("work") / "shifts", "fixed", (0, 1))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    add(tmp_path / "results", [tmp_path / folder])
    assert {(row["p"], row["seed"]) for row in rows_of(tmp_path / "results", "shift")} == {("0.2", "0-1")}


def test_settings_are_those_of_the_run(tmp_path: Path) -> None:
    folder = folders.of_shifts(tmp_path / "shifts", "none")
    runs.mnist(tmp_path / "shifts" / "run0", kind="none", more="trainer.max_epochs=3 test=false")
    add(tmp_path / "results", [folder])
    assert {row["settings"] for row in rows_of(tmp_path / "results", "shift")} == {"trainer.max_epochs=3"}


def test_the_page_compares_masks_of_the_same_run(page: str) -> None:
    text = section(page, MASKS)
    row = cells(text, "mnist | test | 100")
    # Both seeds have the same difference; what is left is the chance of two repeats of each of four evaluations.
    assert row[3:7] == ["0.2160 ± 0.0050", "0.2260 ± 0.0050", "0.01000 ± 0.00100", "2"]
    short = cells(section(page, "In short"), f"[{MASKS}]")
    assert short[2:] == ["0.2160 ± 0.0050, 0.2260 ± 0.0050; 0.01000 ± 0.00100", "2"]


def masks(mask: str, nlls: list[float], spread: str, repeats: int) -> Group:
    more = {"split": "", "mask": mask, "nll_std": spread, "repeats": str(repeats)}
    return Group({}, tuple({"seed": str(seed), "nll": str(nll), **more} for seed, nll in enumerate(nlls)))


def test_the_error_of_a_difference_is_that_of_seeds_or_of_repeats() -> None:
    one = difference(masks("concrete", [0.1], "0.003", 3), masks("bernoulli", [0.2], "0.004", 3))
    assert one is not None
    assert (one.mean, one.se) == (pytest.approx(0.1), pytest.approx(0.005 / 3**0.5))
    two = difference(masks("concrete", [0.1, 0.3], "0.003", 3), masks("bernoulli", [0.2, 0.5], "0.004", 3))
    assert two is not None
    assert (two.mean, two.se) == (pytest.approx(0.15), pytest.approx(0.05))
    unknown = difference(masks("concrete", [0.1], "", 1), masks("bernoulli", [0.2], "", 1))
    assert unknown is not None
    assert unknown.se is None


def test_the_page_tells_how_well_foreign_data_are_told(page: str) -> None:
    text = section(page, ELSEWHERE)
    assert cells(text, "noise | Concrete")[2:] == [
        "50",
        "0.900 ± 0.000",
        "0.890 ± 0.000",
        "0.100 ± 0.000",
        *["0.900 ± 0.000", "0.890 ± 0.000", "0.100 ± 0.000"],
        "2",
    ]
    assert cells(text, "digits | none (p = 0)")[2:7:4] == ["0", "–"]
    assert cells(text, "digits | ensemble of 3")[3] == "0.950"
    short = cells(section(page, "In short"), f"[{ELSEWHERE}]")
    assert short[1].endswith(", 50 samples")
    assert short[3:7] == [
        "0.900 ± 0.000",
        "0.800 ± 0.000; ensemble of 3: 0.950",
        "fixed, p = 0.2: 0.850 ± 0.000",
        "2",
    ]


def test_means_under_corruption_are_over_what_all_have(root: Path, page: str) -> None:
    text = section(page, CORRUPTED)
    assert "Corruptions: blur." in text  # the ensemble knows no other
    assert cells(text, "5 | Concrete")[4] == "0.600 ± 0.000"
    assert cells(text, "0 | ensemble of 3")[2:5] == ["0", "98.75", "0.050"]
    assert cells(text, "blur | none (p = 0)")[4] == "0.800 ± 0.000"
    assert cells(section(page, "In short"), f"[{CORRUPTED}]")[4] == "0.800 ± 0.000; ensemble of 3: 0.200"
    for metric in ("accuracy", "nll", "ece"):
        picture = ElementTree.parse(root / RESULTS / f"shift_mnist_{metric}.svg").getroot()
        lines = [line.attrib["points"].split() for line in picture.iter() if line.tag.endswith("polyline")]
        assert [len(points) for points in lines] == [4] * 4  # four subjects, clean data and three severities


def shifted(kind: str, samples: str, members: str = "1") -> dict[str, str]:
    known = {"experiment": "mnist", "set": "", "dropout": kind, "members": members, "p": "", "settings": ""}
    return {**known, "samples": samples, "seed": "0", "split": "", "shift": "blur", "severity": "1", "nll": "0.5"}


def test_models_are_compared_with_as_many_samples() -> None:
    rows = [shifted("none", "0"), shifted("concrete", "10"), shifted("concrete", "50"), shifted("fixed", "50")]
    found = [(block.name, [s.values["dropout"] for s in block.subjects]) for block in blocks(rows)]
    assert found == [
        ("mnist, 10 samples", ["none", "concrete"]),
        ("mnist, 50 samples", ["none", "fixed", "concrete"]),
    ]
    assert [block.file for block in blocks(rows)] == ["shift_mnist_10", "shift_mnist_50"]
    assert [(block.name, block.file) for block in blocks(rows[:2])] == [("mnist", "shift_mnist")]
    assert [block.samples for block in blocks(rows[:1])] == ["0"]


def test_a_kind_has_its_colour_whichever_others_there_are(tmp_path: Path) -> None:
    root = place_of(tmp_path / "project")
    add(root / RESULTS, [folders.of_shifts(tmp_path / "concrete", "concrete")])
    svg = made(root)[root / RESULTS / "shift_mnist_nll.svg"]
    strokes = [line.get("stroke") for line in ElementTree.fromstring(svg).iter() if line.tag.endswith("polyline")]
    assert strokes == [COLOURS[2]]


def test_without_rows_the_sections_have_their_commands(tmp_path: Path) -> None:
    text = made(place_of(tmp_path))[tmp_path / PAGE]
    for title, word in ((MASKS, "mask=concrete,bernoulli"), (ELSEWHERE, "ood="), (CORRUPTED, "corruptions=true")):
        assert "**Not run yet.**" in section(text, title)
        assert word in section(text, title)
        assert "not run yet" in cells(section(text, "In short"), f"[{title}]")


def test_a_note_is_read_from_the_evaluation_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folders.of_masks(tmp_path / "masks")
    RunFolder(folder).update_json(EVALUATION, state=None)
    add(tmp_path / "results", [folder])
    assert "masks: left out, it is not recorded as finished" in capsys.readouterr().err
