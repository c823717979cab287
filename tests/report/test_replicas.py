"""The report of replicated runs: splits, repeats, amounts of data, initial p; complete, cut short, damaged, hostile."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.report.replica_runs import LAYERS, SIZES, SPLITS, STARTS, write_replicas
from tests.report.runs import truncate
from tests.report.test_run import HOSTILE, JSON, count_figures, read, write_hostile

from concrete_dropout import runfolder
from concrete_dropout.report import build_replicas_report, build_run_report
from concrete_dropout.report.data_size import expectations, known_noise
from concrete_dropout.report.record import Record
from concrete_dropout.report.replica_record import assemble, mean_points, read_replicas
from concrete_dropout.report.replicas import render
from concrete_dropout.report.statistics import summarise
from concrete_dropout.runfolder import REPLICA_LABELS, REPLICAS, RunFolder


def top(text: str) -> str:
    return text[: text.index("<h2")]


def test_all_splits_of_a_set(tmp_path: Path) -> None:
    path = write_replicas(tmp_path / "run", m_step=True)
    text = read(path)
    assert "20 models trained as one batch, one for each split from 0 to 19." in text
    rows = RunFolder(path).read_table(REPLICAS)
    found = summarise(float(row["test/log_likelihood"]) for row in rows)
    assert found is not None
    assert f"{found.mean:.2f}".replace("-", "−") in text
    assert f"± {found.se:.2f} nats" in text
    assert "p converged in 20 of 20 replicas." in text
    assert "Log-likelihood before the final M step" in text
    assert text.count('<th scope="row">') > 20
    assert "could not be built" not in text
    assert 'class="notice' not in top(text).replace('class="notice info"', "")
    assert count_figures(path) >= 6


def test_the_run_report_dispatches_and_the_command_works(tmp_path: Path) -> None:
    path = write_replicas(tmp_path / "run", SPLITS[:3])
    assert build_run_report(path).read_bytes() == build_replicas_report(path).read_bytes()
    assert "Report of replicas" in read(path)
    RunFolder(path).write_text(runfolder.CONFIG, "data:\n  name: 'yacht'\n")
    assert "<h1>synthetic yacht · Concrete dropout</h1>" in read(path)


def test_probabilities_are_means_and_spreads_over_replicas(tmp_path: Path) -> None:
    found = read_replicas(write_replicas(tmp_path / "run"))
    assert [layer.name for layer in found.layers] == list(LAYERS)
    ends = [row.p[LAYERS[1]] for row in found.rows]
    assert found.layers[1].final == pytest.approx(sum(ends) / 20)
    assert found.record.dropout[LAYERS[1]][1][0] == pytest.approx(0.1)
    assert found.record.problems == []


def test_amounts_of_data_have_the_four_figures_and_verdicts(tmp_path: Path) -> None:
    path = write_replicas(tmp_path / "run", SIZES)
    text = read(path)
    assert "one for each N from 10 to 10000 and seed from 0 to 2" in text
    for title in ("Epistemic uncertainty", "Aleatoric uncertainty", "Predictive uncertainty", "Dropout probability"):
        assert f'"text":"{title}"' in (path / runfolder.REPORT).read_text()
    assert "✓ shown: Epistemic std falls as data grow." in text
    assert "✓ shown: Aleatoric std tends to the noise of the data, 1.00." in text
    assert "N = 1000" in text
    # A mean over all amounts of data means nothing.
    assert 'class="cards"' not in text


@pytest.mark.parametrize(
    ("epistemic", "aleatoric", "p", "verdicts"),
    [
        ((1.6, 1.0, 0.4), (1.9, 1.4, 1.05), (0.5, 0.4, 0.2), "✓✓✓"),
        ((1.6, 1.7, 0.4), (1.9, 1.4, 1.30), (0.5, 0.6, 0.45), "~~~"),
        ((0.4, 1.0, 1.6), (1.1, 1.4, 1.90), (0.2, 0.3, 0.4), "✗✗✗"),
        ((1.0, None, None), (None, None, None), (0.5, None, None), "–––"),
    ],
)
def test_verdicts_follow_the_numbers(epistemic: Any, aleatoric: Any, p: Any, verdicts: str) -> None:
    table = []
    for index in range(3):
        row = {"test/epistemic_std": epistemic[index], "test/aleatoric_std": aleatoric[index], "p/b": p[index]}
        table.append({"replica": str(index), "p/a": "0.01", **{k: str(v) for k, v in row.items() if v is not None}})
    labels = [{"data.num_data": size} for size in (10, 100, 1000)]
    replicas = assemble(Record("run"), {"keys": ["data.num_data"], "labels": labels}, table, [])
    found = [item for item in expectations(replicas, 1.0) if not item.claim.startswith("Predictive")]
    assert "".join(item.verdict[0] for item in found) == verdicts


def test_the_noise_of_the_data_is_read_from_its_own_block() -> None:
    assert known_noise("task:\n  noise: 3\ndata:\n  a: 1\n\n  noise: 0.5\n") == 0.5
    assert known_noise("data:\n  a: 1\ntask:\n  noise: 3\n") is None
    assert known_noise("data:\n  noise: none\n") is None
    assert known_noise("") is None


def test_a_sweep_over_initial_p(tmp_path: Path) -> None:
    text = read(write_replicas(tmp_path / "run", STARTS))
    assert "Does p depend on its start?" in text
    assert "0.050 to 0.500" in text
    assert re.findall(r"<td>(yes|no)</td>", text).count("yes") >= 3
    stuck = assemble(
        Record("run"),
        {"keys": ["dropout.init_p"], "labels": [{"dropout.init_p": 0.1}, {"dropout.init_p": 0.5}]},
        [{"replica": "0", "p/a": "0.12"}, {"replica": "1", "p/a": "0.48"}],
        [],
    )
    assert '<span class="flag">no</span>' in render(stuck)


def test_replicas_that_still_move_or_diverged_are_at_the_top(tmp_path: Path) -> None:
    text = read(write_replicas(tmp_path / "run", moving=(3, 4, 5, 6, 7, 8), diverged=(19,)))
    assert "p had not converged in 6 of 20 replicas." in top(text)
    assert "replica 3, split 3" in top(text)
    assert "and 1 more" in top(text)
    assert "1 replica of 20 without results." in top(text)
    assert "Over 19 replicas." in text


def test_a_run_that_is_still_going(tmp_path: Path) -> None:
    path = write_replicas(tmp_path / "run", scored=False, state="running", ended=None)
    (path / runfolder.DROPOUT).write_bytes((path / runfolder.DROPOUT).read_bytes()[:-7])
    text = read(path)
    assert "This run has not finished." in top(text)
    assert "No replica has been scored yet" in text
    assert "without results" not in text
    assert count_figures(path) >= 4


@pytest.mark.parametrize("dropout", ["fixed", "none"])
def test_controls(tmp_path: Path, dropout: str) -> None:
    text = read(write_replicas(tmp_path / "run", dropout=dropout))
    assert {"fixed": "set by hand", "none": "This run has no dropout."}[dropout] in text
    assert "could not be built" not in text
    assert "Learned p" not in text
    assert "onverged" not in text


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("labels", [SPLITS, SIZES, STARTS], ids=["splits", "sizes", "starts"])
def test_truncated_files(tmp_path: Path, labels: list[dict[str, Any]], share: float) -> None:
    path = write_replicas(tmp_path / "run", labels)
    truncate(path, share)
    text = read(path)
    assert "Some files of this run are damaged." in text
    assert "could not be built" not in text


@pytest.mark.parametrize("name", [REPLICA_LABELS, REPLICAS, runfolder.RUN, runfolder.DROPOUT, runfolder.CONFIG])
@pytest.mark.parametrize("labels", [SPLITS, SIZES, STARTS], ids=["splits", "sizes", "starts"])
def test_any_file_may_be_missing(tmp_path: Path, labels: list[dict[str, Any]], name: str) -> None:
    path = write_replicas(tmp_path / "run", labels)
    (path / name).unlink()
    text = read(path)
    assert "could not be built" not in text
    if name == REPLICA_LABELS:
        # The table has the keys as columns.
        assert read_replicas(path).keys == tuple(labels[0])


def test_hostile_text_everywhere(tmp_path: Path) -> None:
    labels = [{HOSTILE: HOSTILE}, {HOSTILE: "b"}]
    path = write_replicas(tmp_path / "run", labels, layers=[HOSTILE, "b"], moving=(0,))
    write_hostile(path)
    page = build_run_report(path).read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script>") == page.count('type="application/json"') + 2
    assert "<img" not in page
    assert re.findall(r"<b>", page) == []
    assert "could not be built" not in page


def test_steps_that_a_replica_lacks_are_left_out_of_the_mean() -> None:
    assert mean_points([([0, 5, 10], [0.1, 0.2, 0.3]), ([0, 5], [0.3, 0.4])]) == ([0, 5], [0.2, pytest.approx(0.3)])
    assert mean_points([]) == ([], [])


CELL = st.sampled_from(["", "0", "1", "nan", "inf", "-3", "1e400", "x", "true", "0.5"])
ROWS = st.lists(
    st.dictionaries(st.sampled_from(["replica", "step", "layer", "p", "p/a", "test/nll", "data.num_data"]), CELL),
    max_size=4,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(["keys", "labels"]), JSON), ROWS, ROWS)
def test_content_of_any_shape_gives_a_page(described: dict[str, Any], table: Any, traces: Any) -> None:
    render(assemble(Record("run"), described, table, traces)).encode("utf-8")
