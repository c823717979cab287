"""Figures of the results page: what they need is kept beside the rows, and they show what was kept."""

from __future__ import annotations

import csv
import itertools
import json
import re
import statistics
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.docs import result_runs as runs
from tests.docs.start_runs import starts_study
from tests.docs.test_results import rows_of
from tests.docs.test_results_page import place_of, section
from tools.measured.axes import Axis, across, upwards, width_of
from tools.measured.command import add
from tools.measured.experiments import EXPERIMENTS
from tools.measured.figures import Line, Panel, chart, figure
from tools.measured.kept import MAX_BYTES, MAX_STEPS, calibration_table, history_table, maps_table, sources_table
from tools.measured.kept_section import curves
from tools.measured.page import PAGE, RESULTS, made
from tools.measured.store import read_rows, write_rows

from concrete_dropout.runfolder import CALIBRATION, MAPS, RunFolder

ROOT = Path(__file__).parents[2]
SMALL_CAMVID = "CamVid, a small FC-DenseNet for CPUs"
SVG = "{http://www.w3.org/2000/svg}"


def page_of(root: Path) -> str:
    return made(root)[root / PAGE]


def texts(svg: str) -> list[str]:
    return [str(node.text) for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_error_bars_end_where_they_should_and_dashes_are_drawn() -> None:
    line = Line("a", ((0.0, 4.0), (1.0, 8.0)), errors=(0.0, 2.0), dots=True, dashed=True)
    svg = ElementTree.fromstring(chart("title", "x", "y", [line]))
    bars = [path.get("d") or "" for path in svg.iter(f"{SVG}path") if path.get("stroke-width") == "1.3"]
    # The axis goes from 0 to 10 over 245 pixels: 10 is at the top, 6 at 98.
    assert [re.match(r"M[\d.]+ ([\d.]+)V([\d.]+)", bar).groups() for bar in bars] == [("0.0", "98.0")]  # type: ignore[union-attr]
    assert len(list(svg.iter(f"{SVG}circle"))) == 2 + 1  # with the legend's
    assert next(svg.iter(f"{SVG}polyline")).get("stroke-dasharray") is not None


def test_a_ratio_axis_leaves_out_what_it_cannot_show() -> None:
    line = Line("a", ((1.0, 0.0), (2.0, 0.1), (3.0, 10.0)))
    svg = figure("title", [Panel("", Axis("x"), Axis("y", log=True), [line])])
    assert next(ElementTree.fromstring(svg).iter(f"{SVG}polyline")).get("points") == "205.0,245.0 410.0,0.0"
    assert {"0.1", "1", "10"} <= set(texts(svg))


@pytest.mark.parametrize("width", [120, 215, 410])
@pytest.mark.parametrize("high", [7.0, 2208.0, 0.013, 123456.0])
def test_labels_do_not_touch(width: int, high: float) -> None:
    for axis in (Axis("x"), Axis("x", log=True)):
        scale = across(axis, [high * (i + 1) / 30 for i in range(30)], width)
        ends = [
            (width * scale.share(v) - width_of(t) / 2, width * scale.share(v) + width_of(t) / 2) for v, t in scale.ticks
        ]
        assert all(left[1] < right[0] for left, right in itertools.pairwise(ends))
    levels = upwards(Axis("y"), [0.1 * high, high], 130).ticks
    assert 3 <= len(levels) <= 8
    assert levels[-1][0] >= high


def test_panels_share_one_legend_and_nothing_is_cut() -> None:
    long = "Concrete, task.train_samples=4, and some more words"
    lines = [Line(long, ((0.0, 1.0), (1.0, 2.0))), Line("b", ((0.0, 1.0), (1.0, 2.0)), 1)]
    panels = [Panel(f"panel {i}", Axis("x"), Axis("y"), lines) for i in range(5)]
    svg = ElementTree.fromstring(figure("title", panels, columns=3))
    entries = [node for node in svg.iter(f"{SVG}text") if node.text == long]
    assert len(entries) == 1
    assert float(entries[0].get("x") or 0) + width_of(long) <= float(svg.get("width") or 0)
    assert [text for text in texts(ElementTree.tostring(svg, "unicode")) if text.startswith("panel")] == [
        f"panel {i}" for i in range(5)
    ]


def test_runs_without_a_test_give_their_course_and_no_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study, root = starts_study(tmp_path / "study"), place_of(tmp_path / "project")
    add(root / RESULTS, [study])
    said = capsys.readouterr()
    assert "dropout.init_p=0.05: no row, only what figures need (history, sources), it has no scores" in said.err
    assert "camvid_small_history.csv: 900 rows read, 900 in the file (0 before)" in said.out
    assert "nothing was written" not in said.err
    assert not (root / RESULTS / "camvid_small.csv").exists()
    rows = rows_of(root / RESULTS, "camvid_small_history")
    assert {row["place"]: row["depth"] for row in rows} == {
        "first": "0",
        "second": "1",
        "middle": "3",
        "second last": "5",
        "last": "6",
    }
    one = [row for row in rows if (row["place"], row["init_p"]) == ("last", "0.5")]
    assert len(one) == MAX_STEPS
    assert [(one[i]["step"], one[i]["value"]) for i in (0, -1)] == [("0", "0.5"), ("2000", "0.30135")]
    assert one[0]["settings"] == "dropout.init_p=0.5 test=false trainer.max_epochs=4"


def test_convergence_shows_every_start_in_every_layer(tmp_path: Path) -> None:
    root = place_of(tmp_path / "project")
    add(root / RESULTS, [starts_study(tmp_path / "study")])
    files = made(root)
    svg = files[root / RESULTS / "camvid_small_convergence.svg"]
    assert len(list(ElementTree.fromstring(svg).iter(f"{SVG}polyline"))) == 5 * 3
    assert [text for text in texts(svg) if text.startswith("from")] == ["from p = 0.05", "from p = 0.2", "from p = 0.5"]
    text = section(files[root / PAGE], SMALL_CAMVID)
    assert "| last | `layers.6.dropout` | 0.298 | 0.299 | 0.301 | 0.003 | 2 of 3 |" in text
    assert re.search(r"\| first \| `layers\.0\.dropout` \|.*\| 3 of 3 \|", text)
    assert "| `python train.py experiment=camvid_small test=false trainer.max_epochs=4` | 3 |" in text


def test_one_start_makes_no_figure_of_convergence(tmp_path: Path) -> None:
    root = place_of(tmp_path / "project")
    add(root / RESULTS, [starts_study(tmp_path / "study", starts=(0.1,))])
    text = section(page_of(root), SMALL_CAMVID).split("### Convergence of p")[1].split("###")[0]
    assert "**Not made yet.** It needs runs with several initial values of p" in text
    assert not any(path.name.endswith("convergence.svg") for path in made(root))


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    text = section(page_of(place_of(tmp_path)), SMALL_CAMVID)
    for title in ("Calibration", "Convergence of p", "Uncertainty maps"):
        assert f"### {title}\n\n**Not made yet.**" in text


def test_a_run_that_is_added_again_replaces_itself(tmp_path: Path) -> None:
    root, study = place_of(tmp_path / "project"), starts_study(tmp_path / "study")
    folders = [study, runs.camvid(tmp_path / "run")]
    add(root / RESULTS, folders)
    before = {path.name: path.read_bytes() for path in (root / RESULTS).iterdir()}
    add(root / RESULTS, [folders[1], study / "dropout.init_p=0.2", study])
    assert {path.name: path.read_bytes() for path in (root / RESULTS).iterdir()} == before
    add(root / RESULTS, [runs.camvid(tmp_path / "newer", started="2026-04-01T12:00:00+00:00", commit="bbbbbbb")])
    rows = rows_of(root / RESULTS, "camvid_small_sources")
    assert [row["commit"] for row in rows if not row["settings"]] == ["bbbbbbb"]
    assert len(rows) == 4


def test_reliability_is_pooled_by_counts(tmp_path: Path) -> None:
    folders = [runs.camvid(tmp_path / f"run{seed}", seed) for seed in (0, 1)]
    for folder, frequency, points in zip(folders, (0.5, 0.9), (3000, 1000), strict=True):
        entry = {"confidence": [0.62, 1.0], "frequency": [frequency, 1.0], "share": [0.5, 0.5], "num_points": points}
        RunFolder(folder).write_json(CALIBRATION, {"test": entry, "test_no_mc": entry, "val": {}})
    add(tmp_path / "results", folders)
    rows = rows_of(tmp_path / "results", "camvid_small_calibration")
    assert [(row["mc"], row["bin"], row["count"]) for row in rows[:2]] == [
        ("false", "12", "1500"),
        ("false", "19", "1500"),
    ]
    found = curves(rows)
    assert [curve.name for curve in found] == ["Concrete, no MC", "Concrete, MC"]
    assert found[0].bins[0] == pytest.approx((0.62, 0.6, 2000))  # (0.5 * 1500 + 0.9 * 500) / 2000
    assert found[0].rmse == pytest.approx((0.5 * 0.02**2) ** 0.5)


def test_without_dropout_there_is_one_curve(tmp_path: Path) -> None:
    add(tmp_path / "results", [runs.camvid(tmp_path / "run", kind="none")])
    found = curves(rows_of(tmp_path / "results", "camvid_small_calibration"))
    assert [(curve.name, curve.mc, len(curve.bins)) for curve in found] == [("none (p = 0)", False, 14)]


def test_calibration_says_which_seeds_every_kind_has(tmp_path: Path) -> None:
    root = place_of(tmp_path / "project")
    folders = [runs.camvid(tmp_path / f"{kind}{seed}", seed, kind) for kind, seed in (("none", 1), ("concrete", 0))]
    add(root / RESULTS, [*folders, runs.camvid(tmp_path / "more", 0, "none")])
    text = section(page_of(root), SMALL_CAMVID)
    assert "Counts are pooled over seeds: none (p = 0) has 0, 1; Concrete has 0. Bins" in text


def test_calibration_has_a_diagonal_and_dashes_without_mc(tmp_path: Path) -> None:
    root = place_of(tmp_path / "project")
    add(root / RESULTS, [runs.camvid(tmp_path / kind, kind=kind) for kind in ("none", "fixed", "concrete")])
    svg = made(root)[root / RESULTS / "camvid_small_calibration.svg"]
    assert "M0 280L280 0" in svg
    lines = list(ElementTree.fromstring(svg).iter(f"{SVG}polyline"))
    assert [line.get("stroke-dasharray") is not None for line in lines] == [False, True, False, True, False]
    assert len([text for text in texts(svg) if "RMSE" in text]) == 5


def test_maps_are_of_the_longest_concrete_run_with_the_first_seed(tmp_path: Path) -> None:
    results = place_of(tmp_path / "project") / RESULTS
    folders = [runs.camvid(tmp_path / f"{kind}{seed}", seed, kind) for kind in ("concrete", "none") for seed in (1, 0)]
    for order in (folders, folders[::-1]):
        add(results, order)
        assert [(row["seed"], row["image"]) for row in rows_of(results, "camvid_small_maps")] == [("0", "2")]
    own = RunFolder(folders[1]).read_json(MAPS)["test"]["images"][0]
    for kind, path in own["steps"][-1].items():
        if str(path).endswith(".png"):
            kept = results / f"camvid_small_maps_2_{kind}.png"
            assert kept.read_bytes() == (folders[1] / path).read_bytes()
            assert kept.stat().st_size < MAX_BYTES
    text = page_of(tmp_path / "project")
    shown = re.findall(r"\]\((results/[\w.]+\.png)\)", text)
    assert sorted(shown) == sorted(f"results/{path.name}" for path in results.glob("*.png"))
    assert len(shown) == 4  # neither the photograph nor its labels: these are the data set's
    assert re.search(r"errors: 12\.3\W% of the pixels", text)


def test_a_run_with_a_lost_picture_gives_no_maps(tmp_path: Path) -> None:
    folder = runs.camvid(tmp_path / "run")
    maps = json.loads((folder / MAPS).read_text())
    (folder / maps["test"]["images"][0]["steps"][-1]["prediction"]).unlink()
    add(tmp_path / "results", [folder])
    assert not list((tmp_path / "results").glob("*.png"))
    assert not (tmp_path / "results" / "camvid_small_maps.csv").exists()
    assert (tmp_path / "results" / "camvid_small_calibration.csv").exists()


def test_the_files_of_this_repository_are_as_the_tool_writes_them(tmp_path: Path) -> None:
    for make in (calibration_table, history_table, maps_table, sources_table):
        for table in map(make, EXPERIMENTS):
            path = ROOT / RESULTS / f"{table.name}.csv"
            if path.is_file():
                write_rows(tmp_path, table, read_rows(path.parent, table))
                assert (tmp_path / path.name).read_text() == path.read_text(), path.name


def test_every_picture_of_this_repository_is_shown() -> None:
    shown = set(re.findall(r"\]\(results/([\w.]+\.(?:png|svg))\)", (ROOT / PAGE).read_text()))
    assert shown == {path.name for ending in ("png", "svg") for path in (ROOT / RESULTS).glob(f"*.{ending}")}
    assert all(path.stat().st_size < MAX_BYTES for path in (ROOT / RESULTS).iterdir() if path.suffix == ".png")


def test_cart_pole_has_p_of_every_layer_and_the_uncertainty_of_every_component(tmp_path: Path) -> None:
    root = place_of(tmp_path / "project")
    agents = {
        ("none", 0): [1.0, 5.0],
        ("fixed", 0): [3.0, 6.0],
        ("concrete", 0): [2.0, 7.0],
        ("concrete", 1): [2.0, 9.0],
    }
    add(root / RESULTS, [runs.cartpole_study(tmp_path / "study", agents)])
    files = made(root)
    p = files[root / RESULTS / "cartpole_p.svg"]
    assert [text for text in texts(p) if text.startswith("layers")] == ["layers.3", "layers.6"]
    assert len(list(ElementTree.fromstring(p).iter(f"{SVG}polyline"))) == 2 * (2 + 1)  # two runs and their mean
    std = files[root / RESULTS / "cartpole_epistemic.svg"]
    for words in ("cart position (m)", "cart velocity (m/s)", "pole angle (rad)", "pole angular velocity (rad/s)"):
        assert texts(std).count(words) == 1
    assert {"fixed, p = 0.1", "Concrete"} <= set(texts(std))
    assert "none (p = 0)" not in texts(std)
    assert len(list(ElementTree.fromstring(std).iter(f"{SVG}polyline"))) == 4 * (2 + 3)
    text = section(files[root / PAGE], "Cart-pole swing-up, Deep PILCO")
    assert re.findall(r"\(results/cartpole_(\w+)\.svg\)", text) == [
        "reward",
        "p",
        "epistemic",
        "ratio",
    ]


def test_uci_shows_p_of_every_layer_of_every_set(tmp_path: Path) -> None:
    root = place_of(tmp_path / "project")
    sets = {"yacht": (-0.7, 0.5), "boston": (-2.5, 3.0)}
    add(root / RESULTS, [runs.uci_study(tmp_path / kind, sets, kind) for kind in ("concrete", "fixed")])
    files = made(root)
    svg = files[root / RESULTS / "uci_p.svg"]
    layers = [entry.partition("=")[0] for entry in rows_of(root / RESULTS, "uci")[-1]["learned_p"].split()]
    shown = texts(svg)
    assert [text for text in shown if text in ("boston", "yacht")] == ["boston", "yacht"]  # as the paper has them
    legend = [f"in front of layer {i + 1}" for i in range(len(layers))]
    assert [text for text in shown if text.startswith("in front of")] == legend
    drawn = ElementTree.fromstring(svg)
    assert len(list(drawn.iter(f"{SVG}circle"))) == 2 * len(layers) + len(layers)  # dots, and those of the legend
    assert list(drawn.iter(f"{SVG}polyline")) == []
    bars = [path for path in drawn.iter(f"{SVG}path") if path.get("stroke-width") == "1.3"]
    assert 0 < len(bars) <= 2 * len(layers)
    assert "](results/uci_p.svg)" in section(files[root / PAGE], "UCI regression").split("### Learned p")[1]


def test_synthetic_data_has_the_papers_four_plots_with_a_line_for_every_setting(tmp_path: Path) -> None:
    root = place_of(tmp_path / "project")
    folders = [runs.synthetic(tmp_path / kind, kind) for kind in ("none", "fixed", "concrete")]
    folders.append(runs.synthetic(tmp_path / "samples", more="task.train_samples=4"))
    add(root / RESULTS, folders)
    files = made(root)
    kinds = ["none (p = 0)", "fixed, p = 0.2", "Concrete", "Concrete, task.train_samples=4"]
    for name in ("epistemic", "aleatoric", "predictive"):
        drawn = ElementTree.fromstring(files[root / RESULTS / f"synthetic_{name}.svg"])
        named = [str(node.text) for node in drawn.iter(f"{SVG}text") if str(node.text) in kinds]
        assert named == kinds
        lines = list(drawn.iter(f"{SVG}polyline"))
        assert len({line.get("stroke") for line in lines}) == len(lines) == 4 + (name == "aleatoric")  # and the paper's
        assert [str(node.text) for node in drawn.iter(f"{SVG}text")].count("10000") == 1
    p = texts(files[root / RESULTS / "synthetic_p.svg"])
    assert [text for text in p if text in kinds] == ["Concrete", "Concrete, task.train_samples=4"]  # a panel for each
    text = section(files[root / PAGE], "Synthetic data")
    found = re.findall(r"\(results/synthetic_(\w+)\.svg\)", text)
    assert found == ["epistemic", "aleatoric", "predictive", "p"]


def without(path: Path, column: str, only: str = "") -> None:
    """Make a column of a file an empty one, or that of the rows with some settings."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row[column] = "" if not only or row["settings"] == only else row[column]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_what_has_no_points_is_not_drawn(tmp_path: Path) -> None:
    root = place_of(tmp_path / "project")
    add(root / RESULTS, [runs.synthetic(tmp_path / "one"), runs.synthetic(tmp_path / "two", more="optim.lr=0.1")])
    path = root / RESULTS / "synthetic.csv"
    without(path, "predictive_std")
    without(path, "learned_p", "optim.lr=0.1")
    files = made(root)
    assert {name.name for name in files if name.suffix == ".svg"} == {
        "synthetic_epistemic.svg",
        "synthetic_aleatoric.svg",
        "synthetic_p.svg",
    }
    assert not any(text.startswith("Concrete") for text in texts(files[root / RESULTS / "synthetic_p.svg"]))
    without(path, "learned_p")
    assert root / RESULTS / "synthetic_p.svg" not in made(root)


def test_bars_of_synthetic_data_are_standard_errors_over_seeds(tmp_path: Path) -> None:
    root = place_of(tmp_path / "project")
    add(root / RESULTS, [runs.synthetic(tmp_path / "run")])
    rows = [row for row in rows_of(root / RESULTS, "synthetic") if row["num_data"] == "10"]
    values = [float(row["epistemic_std"]) for row in rows]
    error = statistics.stdev(values) / len(values) ** 0.5
    svg = ElementTree.fromstring(made(root)[root / RESULTS / "synthetic_epistemic.svg"])
    bar = next(path.get("d") or "" for path in svg.iter(f"{SVG}path") if path.get("stroke-width") == "1.3")
    top, bottom = map(float, re.findall(r"M[\d.]+ ([\d.]+)V([\d.]+)", bar)[0])
    high = max(float(str(node.text)) for node in svg.iter(f"{SVG}text") if node.get("text-anchor") == "end")
    assert (bottom - top) / 245 * high == pytest.approx(2 * error, abs=0.2 / 245 * high)
