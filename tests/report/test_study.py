"""The report of a study: the paper's tables with ours beside them, complete, half-way, damaged, hostile."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from tests.report.replica_runs import write_replicas, write_study
from tests.report.runs import truncate
from tests.report.test_run import HOSTILE, read

from concrete_dropout.errors import UserError
from concrete_dropout.report import build_run_report, build_study_report, paper
from concrete_dropout.report.study_record import read_study
from concrete_dropout.report.uci import LOG_LIKELIHOOD, OURS, RMSE, TABLE_CSV, TABLE_MD, entries, ranks
from concrete_dropout.runfolder import STUDY, RunFolder

HALF_WAY = {"boston": "finished", "energy": "finished", "yacht": "running", "protein": "failed", "naval": "pending"}


def rows_of(text: str, section: str) -> dict[str, str]:
    """First cell -> text of the row, of the table in a section."""
    body = text.split(f'<h2 id="{section}">')[1].split("</section>")[0]
    plain = [re.sub(r"<[^>]+>", " ", row) for row in re.findall(r"<tr>(.*?)</tr>", body, flags=re.DOTALL)]
    return {row.split()[0]: " ".join(row.split()) for row in plain}


def test_a_finished_study(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", dict.fromkeys(paper.UCI, "finished"))
    text = read(path)
    rows = rows_of(text, "log_likelihood")
    assert list(rows)[1:] == list(paper.UCI)
    assert "−2.34 ± 0.03 −2.35 ± 0.05 −2.17 ± 0.10" in rows["boston"]
    assert "▲ better" in rows["yacht"]
    assert "▼ worse" in rows["concrete"]
    assert "9 sets of 9 with results." in text
    assert "python train.py experiment=uci_table" in text
    assert "2 CPU cores" in text
    assert "<td>Seed" not in text.split("reproduce")[0]
    assert 'class="notice warning"' not in text
    assert "could not be built" not in text


def test_half_way(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", HALF_WAY)
    text = read(path)
    rows = rows_of(text, "log_likelihood")
    assert "running" in rows["yacht"]
    assert "failed" in rows["protein"]
    assert "not started" in rows["naval"]
    assert "not in this study" in rows["kin8nm"]
    assert "2 of 5 runs finished" in text
    assert "protein: RuntimeError: loss is NaN" in text
    assert rows_of(text, "ranks")["Test"].endswith("2")
    # As sets finish, the report is built again.
    write_replicas(path / "wine", scores=(-0.5, 0.5))
    entry = RunFolder(path).read_json(STUDY)
    entry["runs"].append({"label": "wine", "folder": "wine", "state": "finished", "error": None})
    RunFolder(path).write_json(STUDY, entry)
    assert "▲ better" in rows_of(read(path), "log_likelihood")["wine"]


def test_nothing_has_begun(tmp_path: Path) -> None:
    text = read(write_study(tmp_path / "study", dict.fromkeys(paper.UCI, "pending")))
    assert "No set has results yet." in text
    assert "could not be built" not in text
    assert "5.89 ± 0.05" in text


def test_tables_for_other_programs(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", HALF_WAY)
    build_study_report(path)
    with (path / TABLE_CSV).open(newline="", encoding="utf-8") as file:
        found = {(row["set"], row["metric"]): row for row in csv.DictReader(file)}
    assert len(found) == 18
    boston = found["boston", "rmse"]
    assert (boston["cdropout"], boston["dgp_se"], boston["splits"]) == ("2.65", "0.12", "20")
    assert float(boston["ours"]) == pytest.approx(0.97 * 2.65, abs=0.1)
    assert float(boston["ours_se"]) > 0
    assert (boston["best_of_dropout"], boston["verdict"], boston["state"]) == ("CDropout", "better", "finished")
    assert (found["naval", "rmse"]["ours"], found["naval", "rmse"]["splits"]) == ("", "0")
    text = (path / TABLE_MD).read_text(encoding="utf-8")
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in tables}) == 1
    assert "| boston | −2.34 ± 0.03 | −2.35 ± 0.05 | **−2.17 ± 0.10** |" in text


def test_comparisons_are_at_two_decimals_with_the_rounding_in_the_error(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", {})
    write_replicas(path / "kin8nm", scores=(1.2, 0.0721), errors=(0.01, 0.0001))
    runs = [{"label": "kin8nm", "folder": "kin8nm", "state": "finished", "error": None}]
    RunFolder(path).write_json(STUDY, {"kind": "uci_table", "state": "finished", "runs": runs})
    found = {entry.name: entry for entry in entries(read_study(path))}["kin8nm"]
    compared = found.compare(RMSE)
    assert compared is not None
    assert (compared.verdict, compared.method) == ("equal", "CDropout")
    assert compared.se == pytest.approx(-0.0021 / 0.0029, abs=0.05)
    worse = found.compare(LOG_LIKELIHOOD)
    assert worse is not None
    assert worse.verdict == "worse"
    assert worse.se < 0
    averages = ranks([found], RMSE)
    assert (averages[OURS].mean, averages["CDropout"].mean, averages["DGP"].mean) == (2.5, 2.5, 1.0)


def test_missing_splits_and_moving_p_are_flagged(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", {"boston": "finished", "yacht": "finished"})
    (path / "boston" / "replicas.csv").unlink()
    write_replicas(path / "boston", [{"data.split": i} for i in range(4)], moving=(1,), diverged=(0,), m_step=True)
    text = read(path)
    row = rows_of(text, "log_likelihood")["boston"]
    assert "3 of 20" in row
    assert "3 of 4" in row
    assert "Before the final M step (what the paper calls CDropout): boston" in text


def test_links_stay_inside_and_exist(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", {"boston": "finished", "yacht": "finished"})
    write_replicas(tmp_path / "outside")
    build_run_report(tmp_path / "outside")
    build_run_report(path / "boston")
    entry = RunFolder(path).read_json(STUDY)
    names = ["../outside", str(tmp_path / "outside"), "javascript:alert(1)", HOSTILE, ""]
    entry["runs"] += [{"label": f"bad{i}", "folder": name, "state": "finished"} for i, name in enumerate(names)]
    RunFolder(path).write_json(STUDY, entry)
    assert set(re.findall(r'href="(?!#|data:)([^"]*)"', read(path))) == {"./boston/report.html"}


def test_hostile_text(tmp_path: Path) -> None:
    study = dict.fromkeys(("command", "commit", "hardware", "started", "ended", "seed"), HOSTILE)
    path = write_study(tmp_path / "study", {"boston": "finished"}, state="failed", error=HOSTILE, **study)
    entry = RunFolder(path).read_json(STUDY)
    entry["runs"].append({"label": HOSTILE, "folder": HOSTILE, "state": HOSTILE, "error": HOSTILE})
    entry["runs"].append({"label": HOSTILE, "folder": "boston", "state": "failed", "error": HOSTILE})
    RunFolder(path).write_json(STUDY, entry)
    page = build_run_report(path).read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script>") == page.count('type="application/json"') + 2
    assert "<img" not in page
    assert re.findall(r"<b>", page) == []
    assert "<b>" not in (path / TABLE_MD).read_text()


def test_another_kind_of_study_lists_its_runs(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", {"boston": "finished", "yacht": "pending"}, kind="sweep")
    text = read(path)
    assert "<h1>sweep</h1>" in text
    assert "not started" in rows_of(text, "runs")["yacht"]
    with (path / TABLE_CSV).open(newline="", encoding="utf-8") as file:
        rows = {row["run"]: row for row in csv.DictReader(file)}
    assert (rows["boston"]["runs"], rows["yacht"]["runs"]) == ("1", "0")
    # The splits of a replicated run are repeats.
    assert float(rows["boston"]["rmse_se"]) > 0


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_damage_costs_what_is_damaged(tmp_path: Path, share: float) -> None:
    path = write_study(tmp_path / "study", {"boston": "finished", "yacht": "finished"})
    truncate(path / "boston", share)
    text = read(path)
    assert "Some files of this study are damaged." in text
    assert "▲ better" in rows_of(text, "log_likelihood")["yacht"]
    truncate(path, share)
    text = read(path)
    assert "could not be built" not in text
    assert "▲ better" in rows_of(text, "log_likelihood")["yacht"]


@pytest.mark.parametrize("content", ["[]", "7", '{"runs": 3}', '{"runs": [1, {"folder": 5}], "kind": [1]}'])
def test_study_files_of_another_shape(tmp_path: Path, content: str) -> None:
    RunFolder(tmp_path).write_text(STUDY, content)
    assert "could not be built" not in read(tmp_path)


def test_folders_without_a_study_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no folder"):
        build_study_report(tmp_path / "absent")
    with pytest.raises(UserError, match="holds no study"):
        build_study_report(tmp_path)
