"""The results page is what its files make of it: no number is typed by hand."""

from __future__ import annotations

import re
import shutil
import statistics
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.docs import result_runs as runs
from tests.docs.test_results import rows_of
from tools.measured.command import add, main
from tools.measured.experiments import EXPERIMENTS
from tools.measured.findings import CLAIMS
from tools.measured.findings import FILE as FINDINGS
from tools.measured.page import BEGIN, END, PAGE, README, RESULTS, made
from tools.measured.published import FILE, read_published

from concrete_dropout.errors import UserError
from concrete_dropout.report import paper
from concrete_dropout.report.control_study import GOAL

ROOT = Path(__file__).parents[2]


def place_of(root: Path, numbers: bool = True) -> Path:
    """A project with the paper's numbers, or with none."""
    (root / RESULTS).mkdir(parents=True)
    text = (ROOT / RESULTS / FILE).read_text()
    (root / RESULTS / FILE).write_text(text if numbers else text.splitlines(keepends=True)[0])
    return root


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with rows of everything, and its page."""
    place = place_of(tmp_path_factory.mktemp("project"))
    (place / README).write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    add(place / RESULTS, runs.everything(tmp_path_factory.mktemp("runs")))
    assert main(["build"], place) == 0
    return place


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / PAGE).read_text()


def section(page: str, title: str) -> str:
    return page.split(f"\n## {title}\n")[1].split("\n## ")[0]


def cells(text: str, first: str) -> list[str]:
    """The first line of a table that begins like this."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {first}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_page_and_figures_of_this_repository_are_what_the_files_make() -> None:
    files = made(ROOT)
    assert files[ROOT / PAGE] == (ROOT / PAGE).read_text(), "run `make results`"
    assert {path for path in files if path.suffix == ".svg"} == set((ROOT / RESULTS).glob("*.svg"))
    for path, text in files.items():
        assert path.read_text() == text, f"{path.name}: run `make results`"


def test_without_rows_the_page_has_no_numbers(tmp_path: Path) -> None:
    text = made(place_of(tmp_path, numbers=False))[tmp_path / PAGE]
    # Digits of commands and links, of what the paper says in words, of places in it, and of names.
    known = r"`[^`]*`|\]\([^)]*\)|^- paper: .*$|(?:section|appendix) [\d.]+|p = 0|FC-DenseNet-103"
    text = re.sub(known, "", text, flags=re.MULTILINE)
    assert re.findall(r".*\d.*", text) == []
    assert text.lower().count("not run yet") >= 2 * len(EXPERIMENTS)


def test_every_section_has_its_command(page: str, tmp_path: Path) -> None:
    empty = made(place_of(tmp_path))[tmp_path / PAGE]
    for experiment in EXPERIMENTS:
        for text in (page, empty):
            assert f"`{experiment.command}`" in section(text, experiment.title)
        assert "To be made by" in section(empty, experiment.title)
        assert "not run yet" in section(empty, experiment.title).lower()


def test_the_papers_numbers_are_those_that_reports_have() -> None:
    numbers = read_published(ROOT / RESULTS)
    for name, row in paper.UCI.items():
        for metric in ("log_likelihood", "rmse"):
            for method, (mean, error) in getattr(row, metric).items():
                found = numbers.find("uci", metric, method, name)
                assert found is not None
                assert (float(found.value), float(found.error)) == (mean, error), (name, metric, method)
    camvid = [(n.method, n.setting == "MC", float(n.value)) for n in numbers.of("camvid")]
    assert camvid == [(row.kind, row.mc, row.miou) for row in paper.CAMVID]
    reward = numbers.find("cartpole", "reward")
    assert reward is not None
    assert float(reward.value) == GOAL
    assert all(number.place for number in numbers.numbers)


def test_means_and_errors_are_over_the_rows(root: Path, page: str) -> None:
    path = root / RESULTS / "mnist.csv"
    values = [100 * float(row["accuracy"]) for row in rows_of(root / RESULTS, "mnist") if row["dropout"] == "concrete"]
    row = cells(section(page, "MNIST: accuracy"), "Concrete")
    assert row[1] == f"{statistics.mean(values):.2f} ± {statistics.stdev(values) / len(values) ** 0.5:.2f}"
    assert path.read_text().count("\n") == 10


def test_a_number_of_a_row_is_the_number_of_the_page(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "copy")
    file = tmp_path / "copy" / RESULTS / "camvid_small.csv"
    assert "0.67432" in file.read_text()
    file.write_text(file.read_text().replace("0.67432", "0.51234"))
    title = "CamVid, a small FC-DenseNet for CPUs"
    before, after = (section(made(place)[place / PAGE], title) for place in (root, tmp_path / "copy"))
    assert before.replace("67.43 ± 0.00", "51.23 ± 0.00") == after != before


def test_uci_has_the_papers_columns_ours_controls_verdicts_and_ranks(page: str) -> None:
    text = section(page, "UCI regression").split("### Test RMSE")[0]
    yacht = cells(text, "yacht")
    assert yacht[1:4] == ["−1.37 ± 0.02", "−0.77 ± 0.06", "−0.99 ± 0.07"]
    assert re.fullmatch(r"\*\*−0\.(69|70)\d ± 0\.00\d\*\*", yacht[4])
    assert re.fullmatch(r"−0\.(69|70)\d ± 0\.00\d", yacht[5])
    assert re.fullmatch(r"fixed, p = 0\.2: −0\.(69|70)\d ± 0\.00\d", yacht[6])
    assert yacht[7] == "20 of 20"
    assert yacht[8].startswith("better (+")
    assert yacht[9] == "20 of 20"
    assert cells(text, "boston")[8].startswith("worse (−")
    assert cells(text, "energy")[8] == "not run yet"
    # Over the two sets that were run: first on yacht, last on boston.
    assert cells(text, "average rank of these four")[4:8] == ["2.50 ± 1.50", "", "", "2 sets"]
    short = cells(section(page, "In short"), "[UCI regression]")
    within = "1 of 2; 1 within one SE"  # yacht
    assert short[2:6] == ["–", f"{within}, p converged on 1 of these", within, within]


def test_cart_pole_tells_when_the_papers_reward_was_reached(page: str) -> None:
    text = section(page, "Cart-pole swing-up, Deep PILCO")
    assert cells(text, "Concrete")[1:7] == ["2", "2", "1 of 2", "2, –", "13.00 ± 4.00", "13.00 ± 4.00"]
    assert cells(text, "none (p = 0)")[3] == "0 of 1"
    short = cells(section(page, "In short"), "[Cart-pole")
    assert short[2:6] == ["16.5", "13.00 ± 4.00; 1 of 2", "5.00; 0 of 1", "16.00; 0 of 1"]
    commands = re.findall(r"\| `(python train.py experiment=cartpole_study [^`]+)` \|", text)
    assert commands == [f"python train.py experiment=cartpole_study 'study.grid={{seed:[{seed}]}}'" for seed in (0, 1)]


def test_provenance_counts_runs_and_their_time_once(page: str) -> None:
    text = section(page, "UCI regression")
    row = cells(text, "`python train.py experiment=uci_table dropout=none`")
    assert row[1:] == ["2", "`3dbc73f0a1b2`", runs.HARDWARE, "2026-03-01", "20 min"]
    digits = cells(section(page, "MNIST: accuracy"), "`python train.py experiment=mnist seed=SEED dropout=fixed")
    assert digits[1] == "3"


def test_what_is_missing_is_said(page: str) -> None:
    assert "No finished run yet of: p = 0, fixed p." in section(page, "MNIST: p and training-set size")
    assert "**Not run yet.**" in section(page, "MNIST: p and width")


def test_figures_are_drawings_and_old_ones_go(root: Path) -> None:
    names = {path.name for path in (root / RESULTS).glob("*.svg")}
    assert names >= {"synthetic_p.svg", "synthetic_aleatoric.svg", "mnist_data_size_p.svg", "cartpole_reward.svg"}
    for name in names:
        assert ElementTree.parse(root / RESULTS / name).getroot().tag.endswith("svg")
        assert f"](results/{name})" in (root / PAGE).read_text()
    (root / RESULTS / "old.svg").write_text("<svg/>")
    main(["build"], root)
    assert {path.name for path in (root / RESULTS).glob("*.svg")} == names


def test_the_readme_gets_the_short_version_where_it_has_a_place_for_it(root: Path) -> None:
    text = (root / README).read_text()
    assert text.startswith(f"before\n{BEGIN}\n| experiment | what | paper | Concrete | p = 0 | fixed p |")
    assert text.endswith(f"{END}\nafter\n")
    assert "| [MNIST: accuracy](docs/results.md#mnist-accuracy) | accuracy (%) | 98.6 | 98.64 ± 0.00 |" in text
    # What is no comparison of kinds has a table of its own.
    first, second = text.split("\n\nBeyond the paper, on other questions than the kind of dropout:\n\n")
    assert "not run yet" not in first
    assert second.startswith("| experiment | what | found |")
    titles = ("The cost of a grid search", "several masks in training", "Concrete or Bernoulli masks at test time")
    assert [title in second for title in titles] == [True] * 3
    assert not any(title in first for title in titles)


def test_a_damaged_file_of_the_paper_is_refused_by_its_line(tmp_path: Path) -> None:
    folder = place_of(tmp_path) / RESULTS
    (folder / FILE).write_text((folder / FILE).read_text().replace("98.6", "many"))
    with pytest.raises(UserError, match=r"paper\.csv, line \d+"):
        read_published(folder)
    (folder / FILE).unlink()
    with pytest.raises(UserError, match=r"paper\.csv is missing"):
        read_published(folder)


def test_findings_stand_in_their_section(tmp_path: Path) -> None:
    place = place_of(tmp_path / "project")
    (place / FINDINGS).parent.mkdir(parents=True)
    (place / FINDINGS).write_text("Why.\n\n## MNIST: accuracy\n\nNo better than `dropout.p=0.1`, with 3 seeds.\n")
    text = section(made(place)[place / PAGE], "MNIST: accuracy")
    assert "### What we found\n\nNo better than `dropout.p=0.1`, with 3 seeds.\n" in text
    assert "Why." not in made(place)[place / PAGE]
    (place / FINDINGS).write_text(f"## {CLAIMS}\n\nAll hold.\n")
    assert section(made(place)[place / PAGE], CLAIMS).strip() == "All hold."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("## MNIST\n\nGood.\n", "'MNIST', which is no section of the page"),
        ("## MNIST: accuracy\n\nIt has 98.7 now.\n", "'8.7' looks like a measured number"),
        ("## MNIST: accuracy\n\nIt has 98 %.\n", "'8 %' looks like a measured number"),
    ],
)
def test_findings_without_a_section_or_with_a_number_are_refused(text: str, message: str, tmp_path: Path) -> None:
    place = place_of(tmp_path / "project")
    (place / FINDINGS).parent.mkdir(parents=True)
    (place / FINDINGS).write_text(text)
    with pytest.raises(UserError, match=message):
        made(place)


def test_a_weight_of_the_kl_is_shown_beside_learned_p(page: str) -> None:
    text = section(page, "UCI regression").split("### Learned p")[1]
    header, first = cells(text, "set"), cells(text, "boston")
    assert first[header.index("KL weight")] == "5"
