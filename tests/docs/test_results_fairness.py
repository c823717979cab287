"""What is compared on the results page is comparable: splits once each, sets once each, one setting, whole commands."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from tests.docs import result_runs as runs
from tests.docs.test_results_page import cells, place_of, section
from tools.measured.command import add
from tools.measured.controls_section import Pair, control_lines, control_short, pairs
from tools.measured.experiments import EXPERIMENTS, LONG, Experiment, experiment_of
from tools.measured.page import PAGE, RESULTS, made
from tools.measured.parts import made_by, was_run
from tools.measured.published import Published, read_published
from tools.measured.study_sections import study_part
from tools.measured.tables import Group, differences, groups, score_words
from tools.measured.uci_section import uci_part

from concrete_dropout.report.statistics import summarise
from concrete_dropout.report.uci import METRICS

ROOT = Path(__file__).parents[2]
LIKELIHOOD, RMSE = METRICS
Row = dict[str, str]


def experiment(name: str) -> Experiment:
    found = experiment_of(name)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def published() -> Published:
    return read_published(ROOT / RESULTS)


def uci(split: int, likelihood: float, kind: str = "concrete", **more: str) -> Row:
    known = dict.fromkeys(experiment("uci").columns, "")
    known |= {"set": "yacht", "dropout": kind, "split": str(split), "seed": "0", "state": "finished"}
    known |= {"log_likelihood": str(likelihood), "rmse": str(-likelihood), "converged": "true"}
    known |= {"learned_p": "layers.0=0.1", "command": "python train.py experiment=uci_table"}
    return {**known, **more}


def mnist(axis: str, value: str, p: float, settings: str = "", likelihood: float = -0.1) -> Row:
    name = "mnist_data_size" if axis == "train_size" else "mnist_length_scale"
    known = dict.fromkeys(experiment(name).columns, "")
    known |= {axis: value, "dropout": "concrete", "seed": "0", "state": "finished", "settings": settings}
    return {**known, "log_likelihood": str(likelihood), "learned_p": f"layers.0={p}", "converged": "true"}


def test_seeds_of_a_split_are_one_repeat(published: Published) -> None:
    rows = [uci(split, -1.0 - split + 0.5 * seed, seed=str(seed)) for split in (0, 1) for seed in (0, 1, 2)]
    rows.append(uci(2, -3.0))
    (group,) = groups(experiment("uci"), rows)
    assert (len(group.repeats), group.size) == (3, "3, 1 to 3 seeds each")
    found, wanted = group.score("log_likelihood"), [-0.5, -1.5, -3.0]
    assert found is not None
    assert (found.mean, found.count) == (pytest.approx(statistics.mean(wanted)), 3)
    assert found.se == pytest.approx(statistics.stdev(wanted) / 3**0.5)
    assert group.learned["layers.0"].count == 3
    page = "\n".join(uci_part(experiment("uci"), rows, published).lines)
    yacht = cells(page, "yacht")
    assert yacht[4] == "−1.67 ± 0.73"
    assert yacht[5] == "3 of 20, 1 to 3 seeds each"


def test_a_fixed_p_of_earlier_settings_gives_way_to_one_of_the_present(published: Published) -> None:
    own = [uci(split, -1.0, min_noise="0.1") for split in range(2)]
    before = [uci(split, -5.0, "fixed", p="0.1", min_noise="0") for split in range(2)]
    now = [uci(split, -2.0, "fixed", p="0.3", min_noise="0.1") for split in range(2)]

    def controls(rows: list[Row]) -> list[str]:
        page = "\n".join(uci_part(experiment("uci"), rows, published).lines)
        return [cell for cell in cells(page, "yacht") if cell.startswith("fixed")]

    assert controls([*own, *before]) == ["fixed, p = 0.1: −5.00 ± 0.00"]
    assert controls([*own, *before, *now]) == ["fixed, p = 0.3: −2.00 ± 0.00"]


def test_a_set_counts_once_by_its_first_settings(published: Published) -> None:
    good = [uci(split, -0.1 + 0.01 * split, converged=str(split == 0).lower()) for split in range(4)]
    bad = [uci(split, -9.0 + 0.01 * split, settings="optim.lr=1") for split in range(4)]
    boston = [uci(split, -2.0 + 0.01 * split, set="boston") for split in range(4)]
    part = uci_part(experiment("uci"), [*good, *bad, *boston], published)
    for short, name in zip((part.short, part.also[0]), ("log-likelihood", "RMSE"), strict=True):
        assert short[0].startswith(f"{name}: ")
        assert short[2] == "2 of 2; 2 within one SE, p converged on 1 of these"
        assert short[5:] == ("4", "5 of 8")  # p of yacht has converged on one split of four


def test_a_little_worse_is_within_a_standard_error(published: Published) -> None:
    # The paper's better dropout has -0.77 on yacht, -2.34 on boston: 0.02 worse by 0.3 errors, 0.66 worse by many.
    close = [uci(split, -0.79 + 0.02 * (-1) ** split) for split in range(4)]
    far = [uci(split, -3.0 + 0.02 * (-1) ** split, set="boston") for split in range(4)]
    part = uci_part(experiment("uci"), [*close, *far], published)
    assert part.short[2] == "0 of 2; 1 within one SE, p converged on 1 of these"


def test_settings_that_only_a_control_has_are_shown_and_not_compared(published: Published) -> None:
    learned = [uci(split, -1.0) for split in range(3)]
    control = [uci(split, -0.5, "fixed", p="0.1", settings="optim.lr=1") for split in range(3)]
    part = uci_part(experiment("uci"), [*learned, *control], published)
    row = cells("\n".join(part.lines), "yacht | `optim.lr=1`")
    assert row[5:] == ["–", "fixed, p = 0.1: −0.50 ± 0.00", "", "–", "–"]
    assert part.short[2].startswith("0 of 1;")


def test_concrete_less_its_controls_is_of_the_same_splits() -> None:
    learned = [uci(split, -1.0 - 5 * split) for split in range(5)]
    control = [uci(split, -1.3 - 5 * split - 0.01 * split, "none", p="0") for split in range(5)]
    control[4]["log_likelihood"] = "-900"  # one bad split
    other = [uci(split, -0.9 - 5 * split - 0.001 * split, "fixed", p="0.1") for split in range(5)]
    foreign = [uci(split, 7.0, "none", p="0", settings="optim.lr=1") for split in range(5)]
    found = pairs(groups(experiment("uci"), [*learned, *control, *other, *foreign]))
    assert [pair.control.values["dropout"] for pair in found] == ["none", "fixed"]
    none, fixed = found
    assert none.gaps(RMSE) == pytest.approx([-0.3, -0.31, -0.32, -0.33, -0.34])
    assert none.gaps(LIKELIHOOD)[4] == pytest.approx(879)
    # The mean is spoilt, the number of splits is not.
    assert (none.by_mean(LIKELIHOOD), none.by_splits(LIKELIHOOD), none.by_mean(RMSE)) == (0, 1, 1)
    assert (fixed.by_mean(LIKELIHOOD), fixed.by_splits(LIKELIHOOD)) == (-1, -1)
    text = "\n".join(control_lines(found))
    row = cells(text, "yacht | none (p = 0)")
    assert row[2:5] == ["176.052 ± 175.737", "0.320", "5 of 5"]
    assert row[5] == "−0.320 ± 0.007"
    assert "Against p = 0: the mean log-likelihood is better by two standard errors on 0, worse on 0 of 1 sets" in text
    assert [line[3:5] for line in control_short(found)] == [
        ("better on 0, worse on 0 of 1", "better on 0, worse on 1 of 1"),
        ("better on 1, worse on 0 of 1", "better on 0, worse on 1 of 1"),
    ]
    assert control_short([]) == ()


def test_a_control_with_other_settings_of_its_set_is_left_out() -> None:
    learned = [uci(split, -1.0, kl_weight="6") for split in range(3)]
    control = [uci(split, -2.0, "none", p="0", kl_weight="4") for split in range(3)]
    found = pairs(groups(experiment("uci"), [*learned, *control]))
    text = "\n".join(control_lines(found))
    assert "Left out, as the control had other settings of the set: yacht (none (p = 0))." in text
    assert "| yacht" not in text
    assert control_short(found) == ()


def test_one_split_and_a_tie_tell_nothing() -> None:
    learned, control = (
        Group({"dropout": kind}, (uci(0, value, kind),)) for kind, value in (("concrete", 1), ("none", 2))
    )
    assert Pair(learned, control).by_mean(LIKELIHOOD) == 0
    rows = [
        [uci(split, value * (-1) ** split, kind) for split in (0, 1)] for kind, value in (("concrete", 1), ("none", 2))
    ]
    tied = Pair(*(Group({}, tuple(own)) for own in rows))
    assert sorted(tied.signs(LIKELIHOOD)) == [-1, 1]
    assert tied.by_splits(LIKELIHOOD) == 0


def test_pairs_need_the_same_seed() -> None:
    ours = Group({}, (uci(0, 1.0), uci(1, 5.0, seed="1")))
    other = Group({}, (uci(0, 0.5), uci(1, 4.0)))
    assert differences(ours, other, "log_likelihood") == [0.5]


def test_fewest_to_most_is_of_one_setting(published: Published) -> None:
    rows = [mnist("train_size", "1000", 0.9, "optim.lr=1")]
    rows += [mnist("train_size", size, p) for size, p in (("5000", 0.4), ("50000", 0.1))]
    short = study_part(experiment("mnist_data_size"), rows, published).short
    assert short[2] == "0.400 → 0.100"
    assert short[6] == "2 of 2"
    # Of equally many sizes the setting with more runs counts; fewer changes come first in tables and figures.
    short_runs = [mnist("train_size", size, 0.9, "a=1 task.test_samples=20") for size in ("5000", "50000")]
    seeds = [{**row, "settings": "task.test_samples=20", "seed": seed} for row in rows[1:] for seed in "012"]
    assert study_part(experiment("mnist_data_size"), [*short_runs, *seeds], published).short[2] == "0.400 → 0.100"
    found = groups(experiment("mnist_data_size"), [*short_runs, *seeds])
    assert [group.values["settings"].split()[0] for group in found] == ["task.test_samples=20"] * 2 + ["a=1"] * 2


def test_the_best_length_scale_is_of_one_setting(published: Published) -> None:
    rows = [mnist("length_scale", "1", 0.1, "trainer.max_epochs=99", likelihood=-0.01)]
    rows += [mnist("length_scale", scale, 0.1, likelihood=value) for scale, value in (("0.1", -0.2), ("0.01", -0.3))]
    assert study_part(experiment("mnist_length_scale"), rows, published).short[2] == "0.1"


def test_large_numbers_have_a_power_of_ten() -> None:
    assert score_words(summarise([-6.3e9, -2e3])) == "(−3.2 ± 3.1) × 10⁹"
    assert score_words(summarise([12345.0, 12347.0])) == "(1.2346 ± 0.0001) × 10⁴"
    assert score_words(summarise([9999.0])) == "9,999.00"


@pytest.mark.parametrize(
    ("command", "is_it"),
    [
        ("python train.py experiment=mnist seed=1", True),
        ("python train.py experiment=mnist logger=none seed=2 threads=1 hydra.run.dir=/somewhere", True),
        ("python train.py experiment=mnist seed=1 trainer.max_epochs=3", False),
        ("python train.py experiment=mnist seed=1 dropout=none", False),
    ],
)
def test_a_command_made_rows_if_it_is_the_same_but_for_its_traces(command: str, is_it: bool) -> None:
    assert was_run("python train.py experiment=mnist seed=SEED", [{"command": command, "study": ""}]) is is_it
    text = made_by(["python train.py experiment=mnist seed=SEED"], [{"command": command, "study": ""}])
    assert text.startswith("Made by" if is_it else "The whole experiment is")
    assert ("shorter runs" in text) is not is_it


def test_a_set_has_the_settings_of_the_table() -> None:
    template = "python train.py -m experiment=uci sweep=grid_vs_concrete data.name=SET"
    own = {"command": "", "study": f"{template.replace('SET', 'yacht')} dropout.length_scale=0.3 logger=none"}
    assert was_run(template, [own])
    assert not was_run(template, [{**own, "study": template.replace("SET", "yacht")}])


def test_of_several_commands_those_that_were_run_are_told() -> None:
    whole, control = "python train.py experiment=x", "python train.py experiment=x dropout=none"
    row = {"command": whole, "study": ""}
    assert made_by([whole, control], [row]) == f"Made by `{whole}`. To the whole experiment belongs `{control}` too."
    more = made_by([whole], [row, {"command": f"{whole} trainer.max_epochs=1", "study": ""}])
    assert more.startswith(f"Made by `{whole}`. Other rows are of parts of it, of shorter runs")
    assert made_by([whole, control], []) == f"To be made by `{whole}` and `{control}`."


def test_no_section_claims_a_command_that_it_has_no_rows_of(tmp_path: Path) -> None:
    root = place_of(tmp_path / "project")
    add(root / RESULTS, [runs.mnist(tmp_path / "run", more="trainer.max_epochs=1")])
    text = made(root)[root / PAGE]
    assert "The whole experiment is `python train.py experiment=mnist seed=SEED`," in section(text, "MNIST: accuracy")
    assert "Made by" not in text
    assert "`make reproduce` runs the whole experiments" in text
    assert all("To be made by" in section(text, e.title) for e in EXPERIMENTS if e.name != "mnist")


def test_the_long_schedule_has_a_line_of_its_own(tmp_path: Path) -> None:
    root = place_of(tmp_path / "project")
    add(root / RESULTS, [runs.mnist(tmp_path / "short")])
    name = f"[{experiment('mnist').title}]"
    lines = [line for line in section(made(root)[root / PAGE], "In short").splitlines() if name in line]
    assert len(lines) == 1
    add(root / RESULTS, [runs.mnist(tmp_path / kind, kind=kind, more=LONG) for kind in ("none", "concrete")])
    _, line = [line for line in section(made(root)[root / PAGE], "In short").splitlines() if name in line]
    shown = [cell.strip() for cell in line.strip("|").split("|")]
    assert shown[1].endswith("`task.kl_weight=5 task.train_samples=1 trainer.max_epochs=500`")
    assert shown[2:] == ["98.6", "98.64", "98.64", "not run yet", "1", "1 of 1"]


def test_settings_that_a_command_names_stand_beside_p(published: Published) -> None:
    rows = [uci(split, -1.0, command="python train.py optim.lr=0.003 data.batch_size=256") for split in range(2)]
    text = "\n".join(uci_part(experiment("uci"), rows, published).lines).split("### Learned p")[1]
    header, first = cells(text, "set"), cells(text, "yacht")
    assert first[header.index("learning rate")] == "0.003"
    assert first[header.index("batch size")] == "256"
    assert "hold" not in header
