from __future__ import annotations

import csv
from pathlib import Path

import pytest
from tests.report.control_runs import GIF, entry, write_run, write_study

from concrete_dropout.report import build_run_report
from concrete_dropout.report.control_record import best, episodes, line, read_videos, reward
from concrete_dropout.report.control_study import agents_of, early, first_at_goal
from concrete_dropout.report.record import read_record
from concrete_dropout.report.study_record import read_study
from concrete_dropout.runfolder import CONTROL, RunFolder

HEADINGS = ("Results", "Learning", "The policy in motion", "What the model knows of its errors", "Predicted episodes")


def test_an_agents_report_has_its_own_sections(tmp_path: Path) -> None:
    text = build_run_report(write_run(tmp_path, [1.0, 9.0, 17.25, 16.0])).read_text()
    for heading in HEADINGS:
        assert f">{heading}</h2>" in text
    assert "could not be built" not in text
    assert "reached a mean true reward of 17.25 in episode 3 of 4" in text
    assert text.count("data:image/gif;base64,") == 1
    assert "Function draws or the mean model" in text
    assert "theta_dot" in text


def test_who_acted_is_told(tmp_path: Path) -> None:
    write_run(tmp_path, [1.0])
    scouted = [
        entry(1, 1.0, scout_acted=True, scout_chosen=False, acted_return=2.5),
        entry(2, 3.0, scout_acted=True, scout_chosen=True, acted_return=12.25),
        entry(3, 4.0, scout_acted=False, scout_chosen=False, acted_return=5.0),
        entry(4, 4.0),
    ]
    RunFolder(tmp_path).write_json(CONTROL, {"episodes": scouted})
    text = build_run_report(tmp_path).read_text()
    for cell in ("scout, 2.5", "scout, 12.2, chosen", "policy, 5", "–"):
        assert f">{cell}</td>" in text.replace("2.50", "2.5").replace("5.00", "5").replace("12.3", "12.2")


def test_a_run_without_dropout_and_with_one_episode(tmp_path: Path) -> None:
    text = build_run_report(write_run(tmp_path, [3.0], p=None, dropout="none")).read_text()
    assert "trained without dropout" in text
    assert "could not be built" not in text


def test_damaged_entries_are_left_out(tmp_path: Path) -> None:
    write_run(tmp_path, [1.0, 2.0])
    whole = entry(3, 5.0)
    broken = [{}, {"episode": 4}, {"episode": 5, "reward": "much"}, "nothing", {**whole, "far": None, "components": 3}]
    RunFolder(tmp_path).write_json(CONTROL, {"episodes": [entry(1, 1.0), *broken]})
    record = read_record(tmp_path)
    assert [e["episode"] for e in episodes(record)] == [1, 3]
    assert line(record, reward) == ([1.0, 3.0], [1.0, 5.0])
    assert best(record)["episode"] == 3
    assert "could not be built" not in build_run_report(tmp_path).read_text()


@pytest.mark.parametrize("content", [b"", GIF[:-1], b"PNG" + GIF])
def test_videos_that_are_not_whole(content: bytes, tmp_path: Path) -> None:
    write_run(tmp_path, [1.0])
    (tmp_path / "videos" / "episode_001.gif").write_bytes(content)
    problems: list[str] = []
    assert read_videos(tmp_path, RunFolder(tmp_path).read_json(CONTROL), problems) == {}
    assert len(problems) == 1


def test_videos_from_elsewhere_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.gif").write_bytes(GIF)
    control = {"episodes": [{"video": "secret.gif"}, {"video": "videos/../secret.gif"}, {"video": "/etc/passwd"}]}
    assert read_videos(tmp_path, control, []) == {}


RUNS = {
    ("none", 0): [1.0, 2.0, 3.0, 4.0, 5.0, 17.0],
    ("none", 1): [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    ("fixed", 0): [2.0, 2.0, 2.0],
    ("concrete", 0): [4.0, 18.0, 18.5],
    ("concrete", 1): [4.0, 5.0, 16.5],
}


def test_agents_are_compared_by_kind(tmp_path: Path) -> None:
    study = read_study(write_study(tmp_path, RUNS))
    found = {agents.label: agents for agents in agents_of(study)}
    assert {label: len(agents.records) for label, agents in found.items()} == {
        "no dropout": 2,
        "fixed p": 1,
        "Concrete": 2,
    }
    assert [first_at_goal(record) for record in found["no dropout"].records] == [6.0, None]
    assert [first_at_goal(record) for record in found["Concrete"].records] == [2.0, 3.0]
    assert early(found["no dropout"].records[0]) == pytest.approx(3.0)
    (x, mean), error = found["Concrete"].over(reward)
    assert (x, mean) == ([1.0, 2.0, 3.0], [4.0, 11.5, 17.5])
    assert error == pytest.approx([0.0, 6.5, 1.0])


def test_the_report_of_a_study_of_agents(tmp_path: Path) -> None:
    text = build_run_report(write_study(tmp_path, RUNS)).read_text()
    assert "could not be built" not in text
    assert "1 of 2 with no dropout; 0 of 1 with fixed p; 2 of 2 with Concrete" in text
    panels = text.partition('id="panels"')[2].partition("</section>")[0]
    assert panels.count('<div class="plot"') == 3 + 4  # the inputs' layer too
    assert "p of layers.0: drops nothing" in panels
    assert "p of layers.3: " not in panels
    table = (tmp_path / "table.md").read_text()
    assert "| Concrete | 2 | 2 of 2 | 2.50 | 17.5 ± 1.0 | 17.5 ± 1.0 |" in table.replace("17.50 ± 1.00", "17.5 ± 1.0")
    assert [line.split(" | ")[-1].rstrip(" |") for line in table.splitlines()[2:5]] == ["–", "3 of 3", "6 of 6"]
    with (tmp_path / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(map(len, RUNS.values()))
    assert rows[5]["reward"] == rows[5]["reward_draws"] == "17.0"
    assert rows[5]["reward_scout"] == "8.5"
    assert (rows[5]["p layers.6"], rows[-1]["p layers.6"]) == ("", "0.1")


def test_a_study_that_has_not_begun(tmp_path: Path) -> None:
    folder = write_study(tmp_path, {})
    assert "No agent has played an episode yet" in build_run_report(folder).read_text()
