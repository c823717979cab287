"""The report of every kind of run: complete, damaged, cut short, hostile."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.report.runs import truncate, write_killed_run, write_run

from concrete_dropout import runfolder
from concrete_dropout.report import build_run_report, run
from concrete_dropout.report.record import Record, read_record
from concrete_dropout.runfolder import RunFolder

HOSTILE = "</script><script>alert('x')</script><img src=x onerror=alert(1)>\"'&<b>"
HEADINGS = [
    "Results",
    "dropout probabilities",
    "Uncertainty",
    "Calibration",
    "Training",
    "Configuration",
    "How to reproduce",
]


def read(path: Path) -> str:
    """The page without plotly and figures: what a reader without JavaScript has."""
    text = build_run_report(path).read_text(encoding="utf-8")
    return re.sub(r"<(script|style)\b[^>]*>.*?</\1>", "", text, flags=re.DOTALL)


def count_figures(path: Path) -> int:
    return (path / runfolder.REPORT).read_text().count('class="plot"')


def test_a_complete_run(run_dir: Path) -> None:
    text = read(run_dir)
    for heading in HEADINGS:
        assert re.search(rf"<h2[^>]*>[^<]*{heading}", text), heading
    assert "−1.512" in text
    assert "NLL 1.512" in text
    assert "90\N{NO-BREAK SPACE}% intervals hold 91\N{NO-BREAK SPACE}% of the test targets." in text
    assert "All converged." in text
    assert "errors are about as large as the model expects" in text
    assert "python train.py experiment=synthetic" in text
    assert "git checkout 3dbc73f" in text
    assert "length_scale: 0.0001" in text
    assert "[1024, 1024, 1024]" in text
    assert 'class="notice warning"' not in text
    assert count_figures(run_dir) >= 8
    assert "could not be built" not in text


def test_nothing_is_left_beside_the_report(run_dir: Path) -> None:
    before = {file.name for file in run_dir.iterdir()}
    assert build_run_report(run_dir) == run_dir / "report.html"
    assert {file.name for file in run_dir.iterdir()} == before | {"report.html"}


def test_building_twice_gives_the_same_file(run_dir: Path) -> None:
    first = build_run_report(run_dir).read_bytes()
    assert build_run_report(run_dir).read_bytes() == first


def test_probabilities_that_still_move_are_at_the_top(tmp_path: Path) -> None:
    text = read(write_run(tmp_path / "run", moving=(2,)))
    top = text[: text.index("<h2")]
    assert "1 of 4 dropout probabilities had not converged." in top
    assert "network.layers.6: p = 0.420, +0.064 over the last fifth" in top
    assert "still moving" in text


def test_saturated_probabilities_are_at_the_top(run_dir: Path) -> None:
    folder = RunFolder(run_dir)
    convergence = folder.read_json(runfolder.CONVERGENCE)
    convergence["layers"]["network.layers.3"].update(final=0.7, saturated="high")
    folder.write_json(runfolder.CONVERGENCE, convergence)
    text = read(run_dir)
    assert "1 dropout probability saturated." in text[: text.index("<h2")]
    assert "network.layers.3: p = 0.700, most of its inputs are dropped" in text


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"kl_weight": 0.1}, "The KL term was weighted by 0.100."),
        ({"state": "interrupted"}, "This run was interrupted."),
        ({"state": "running"}, "It is still running or was killed"),
        ({"state": None}, "It is not recorded whether this run finished."),
        ({"state": "failed", "error": "RuntimeError: loss is NaN\ntrace"}, "RuntimeError: loss is NaN"),
    ],
)
def test_what_a_reader_must_know_comes_first(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    text = read(write_run(tmp_path / "run", **changes))
    assert sentence in text[: text.index("<h2")]


def test_a_killed_run(tmp_path: Path) -> None:
    text = read(write_killed_run(tmp_path / "run"))
    assert "Last recorded step: 200 of 600." in text
    assert "Neither validation nor test data have been scored yet." in text
    assert "No calibration was recorded" in text
    assert "No uncertainty was recorded" in text
    assert "not judged" in text
    assert count_figures(tmp_path / "run") == 5


def test_a_run_that_only_just_started(tmp_path: Path) -> None:
    RunFolder(tmp_path).write_text(runfolder.CONFIG, "seed: 0\n")
    text = read(tmp_path)
    assert "No metrics have been recorded yet." in text
    assert "The command was not recorded." in text
    assert count_figures(tmp_path) == 0


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.95])
def test_truncated_files(run_dir: Path, share: float) -> None:
    truncate(run_dir, share)
    text = read(run_dir)
    assert "Some files of this run are damaged." in text
    assert "could not be built" not in text


@pytest.mark.parametrize(
    "name", [path for path in vars(runfolder).values() if str(path).endswith((".json", ".csv", ".yaml"))]
)
def test_any_file_may_be_missing(run_dir: Path, name: str) -> None:
    (run_dir / name).unlink(missing_ok=True)
    text = read(run_dir)
    assert "could not be built" not in text
    assert len(re.findall("<h2", text)) == len(HEADINGS)


def test_fixed_dropout(tmp_path: Path) -> None:
    text = read(write_run(tmp_path / "run", dropout="fixed"))
    assert "Fixed dropout: these probabilities were set by hand" in text
    assert "Fixed p" in text
    assert "converged" not in text.lower()


def test_no_dropout(tmp_path: Path) -> None:
    text = read(write_run(tmp_path / "run", dropout="none"))
    assert "This run has no dropout." in text
    assert "Trained without dropout on 1,000 training points." in text


def test_sixty_layers_and_two_outputs(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", num_layers=60, inputs=3, outputs=("height", "weight"), moving=tuple(range(9)))
    text = read(path)
    assert "Table of all 60 layers" in text
    assert "and 4 more layers" in text
    assert "<h3>height</h3>" in text
    assert "<h3>weight</h3>" in text
    assert (path / runfolder.REPORT).stat().st_size < 2_600_000


def test_hostile_text_everywhere(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", names=[HOSTILE, "b"], inputs=2, outputs=(HOSTILE,), moving=(0,))
    write_hostile(path)
    page = (build_run_report(path)).read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script>") == page.count('type="application/json"') + 2
    assert "<img" not in page
    assert "alert('x')</script>" not in page
    assert re.findall(r"<b>", page) == []


def write_hostile(path: Path) -> None:
    """Hostile text in every place of a run that can hold text."""
    folder = RunFolder(path)
    entry = folder.read_json(runfolder.RUN)
    for key in ("experiment", "dropout", "command", "commit", "hardware", "started", "ended", "seed"):
        entry[key] = HOSTILE
    entry.update(state="failed", error=f"{HOSTILE}\n{HOSTILE}", versions={HOSTILE: HOSTILE}, loggers={HOSTILE: HOSTILE})
    entry.update(checkpoints={HOSTILE: HOSTILE}, layers=[{"name": HOSTILE, "owners": [HOSTILE], "K": HOSTILE}])
    folder.write_json(runfolder.RUN, entry)
    folder.write_json(runfolder.CONFIG_DIFF, [{"key": HOSTILE, "default": HOSTILE, "value": [HOSTILE]}])
    folder.write_text(runfolder.CONFIG, HOSTILE)
    folder.append_rows(runfolder.METRICS, (), [(0, 0, HOSTILE, 1.0), (0, 0, f"val/{HOSTILE}", 1.0)])
    convergence = folder.read_json(runfolder.CONVERGENCE)
    folder.write_json(runfolder.CONVERGENCE, {**convergence, "criterion": HOSTILE})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()), max_size=5),
    lambda entry: st.lists(entry, max_size=4) | st.dictionaries(st.text(max_size=5), entry, max_size=4),
    max_leaves=12,
)
# Values of any shape below the keys that the report knows.
KNOWN = st.dictionaries(
    st.sampled_from(
        ["layers", "metrics", "val", "test", "x", "mean", "expected", "probabilities", "versions", "state"]
    ),
    JSON | st.dictionaries(st.sampled_from(["a", "expected", "observed", "test/nll", "final", "num_points"]), JSON),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.fixed_dictionaries(dict.fromkeys(("run", "summary", "convergence", "calibration", "uncertainty", "band"), KNOWN))
)
def test_json_of_any_shape_gives_a_page(entries: dict[str, dict[str, Any]]) -> None:
    run.render(Record("run", **entries)).encode("utf-8")


def test_a_section_that_fails_costs_itself_only(run_dir: Path) -> None:
    record = read_record(run_dir)
    record.calibration["test"]["expected"] = 7
    text = run.render(record)
    assert "This section could not be built from the run&#x27;s files (TypeError" in text
    assert "How to reproduce" in text


def test_a_link_out_of_the_folder_shows_nothing_of_what_it_leads_to(tmp_path: Path) -> None:
    folder, secret = write_run(tmp_path / "run"), tmp_path / "secret"
    secret.write_text("planted: secret\n")
    for name in (runfolder.CONFIG, runfolder.CALIBRATION, runfolder.METRICS):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(secret)
    page = build_run_report(folder).read_text()
    assert "planted" not in page
    assert page.count("leads out of the run folder") >= 3


@pytest.mark.parametrize(
    ("commit", "shown"),
    [
        ("3dbc73f0a1b2", r"<code>3dbc73f0a1b2</code></td>"),
        ("3dbc73f0a1b2+", r"<code>3dbc73f0a1b2</code>, with changes that were not committed</td>"),
        (None, "not known: the code was in no git repository, or there was no git"),
    ],
)
def test_the_page_says_seed_versions_git_state_and_device(tmp_path: Path, commit: str | None, shown: str) -> None:
    versions = {
        "python": "3.11.2",
        "concrete-dropout-lightning": "0.1.0",
        "torch": "2.15.0",
        "pytorch-lightning": "2.6.6",
    }
    folder = write_run(tmp_path, commit=commit, device="cuda, 4 processes", seed=17, versions=versions)
    page = build_run_report(folder).read_text()
    section = page.partition('id="reproduce"')[2]
    assert shown in section
    for text in ("cuda, 4 processes", "17", *versions, *versions.values()):
        assert text in section
    assert ("git checkout 3dbc73f0a1b2" in section) is (commit == "3dbc73f0a1b2")
