"""The site: what is found, what is read again, what damage costs, and that nothing is left half-written."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from benchmarks.dashboard import write_runs
from tests.report.control_runs import write_run as write_agent
from tests.report.replica_runs import write_replicas
from tests.report.runs import truncate, write_killed_run, write_run
from tests.report.vision_runs import write_segmentation

from concrete_dropout import runfolder
from concrete_dropout.dashboard import build
from concrete_dropout.dashboard.build import DATA, build_site
from concrete_dropout.dashboard.cache import NAME
from concrete_dropout.dashboard.entry import read_entry
from concrete_dropout.dashboard.find import find
from concrete_dropout.dashboard.pack import packed, unpacked
from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import RunFolder


def table(root: Path) -> dict[str, Any]:
    """What the page is given."""
    data = root / "dashboard" / DATA
    version = unpacked((data / "version.js").read_bytes())
    return dict(unpacked((data / f"table-{version['table']}.js").read_bytes()))


def rows(root: Path) -> dict[str, dict[str, Any]]:
    return {run["path"]: run for run in table(root)["runs"]}


def detail(root: Path, run: dict[str, Any]) -> dict[str, Any]:
    return dict(unpacked((root / "dashboard" / DATA / f"run-{run['id']}.js").read_bytes()))


def test_two_hundred_runs(tmp_path: Path) -> None:
    write_runs(tmp_path, 200)
    site = build_site(tmp_path)
    assert sum(site.states.values()) == site.read == 200
    # Files of the running ones are new, and they have no heartbeat.
    assert site.states == {"finished": 188, "crashed": 4, "stopped": 4, "running": 4}
    assert site.groups == 4  # sweeps
    found = rows(tmp_path)
    assert len(found) == 200
    one = found["synthetic/sweep_000/2026-01-01_00000"]
    summary = RunFolder(tmp_path / one["path"]).read_json(runfolder.SUMMARY)
    assert one["metrics"] == pytest.approx(summary["metrics"], rel=1e-4)
    assert one["final"] == pytest.approx([p["final"] for p in summary["probabilities"].values()], rel=1e-4)
    assert table(tmp_path)["layers"][one["layers"]] == list(summary["probabilities"])
    inside = detail(tmp_path, one)
    assert inside["config"]["dropout.init_p"] == "0.05"
    assert inside["config"]["paths.run_dir"] == "RUN"
    assert inside["p"]["network.layers.0"][0][-1] == 1980
    assert inside["calibration"]["test"]["kind"] == "coverage"
    pictured = found["digits/sweep_000/2026-01-03_00002"]
    assert "pictures" in pictured["has"]
    pictures = unpacked((tmp_path / "dashboard" / DATA / f"pictures-{pictured['id']}.js").read_bytes())
    assert len(pictures["samples"]["items"]) == 12


def test_only_what_has_changed_is_read_again(outputs: Path) -> None:
    assert build_site(outputs).read == 8
    before = {path: path.stat().st_mtime_ns for path in (outputs / "dashboard" / DATA).glob("run-*.js")}
    again = build_site(outputs)
    assert (again.read, again.changed) == (0, False)
    RunFolder(outputs / "uci/run_1").append_rows(runfolder.METRICS, (), [(3000, 30, "val/nll", 0.25)])
    third = build_site(outputs)
    assert (third.read, third.changed) == (1, True)
    after = {path: path.stat().st_mtime_ns for path in before}
    assert sum(after[path] != before[path] for path in before) == 1


def test_lost_files_of_the_site_are_made_again(outputs: Path) -> None:
    build_site(outputs)
    data = outputs / "dashboard" / DATA
    first, second, *_ = sorted(data.glob("run-*.js"))
    first.unlink()
    second.write_text("")  # as a power cut leaves it
    (outputs / "dashboard" / "index.html").write_text("")
    assert build_site(outputs).read == 2
    assert unpacked(second.read_bytes())["config"]
    assert "<script>" in (outputs / "dashboard" / "index.html").read_text()
    (outputs / "dashboard" / NAME).write_text('{"format": 3, "entries": {"digits')
    assert build_site(outputs).read == 8


def test_runs_that_are_gone_leave_nothing(outputs: Path) -> None:
    build_site(outputs)
    shutil.rmtree(outputs / "digits")
    site = build_site(outputs)
    assert sum(site.states.values()) == 6
    data = outputs / "dashboard" / DATA
    assert len(list(data.glob("run-*.js"))) == 6
    assert not any(path.startswith("digits") for path in json.loads((data.parent / NAME).read_text())["entries"])
    for _ in range(3):
        (outputs / "uci/run_1" / runfolder.RUN).write_text(json.dumps({"state": "finished", "seed": time.time()}))
        build_site(outputs)
    assert len(list(data.glob("table-*.js"))) == 2
    assert list(data.parent.rglob("*.tmp")) == []


def test_the_table_of_now_stays_when_the_clock_was_put_back(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs" / "a")
    for seed in range(4):
        RunFolder(run).update_json(runfolder.RUN, seed=seed)
        build_site(tmp_path / "runs")
        assert rows(tmp_path / "runs")["a"]["seed"] == str(seed)
        for path in (tmp_path / "runs" / "dashboard" / DATA).glob("table-*.js"):
            os.utime(path, (time.time() + 3600, time.time() + 3600))


def test_a_long_build_that_is_killed_has_kept_what_it_read(outputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "SAVE_EVERY", 0.0)

    def stop(done: int, total: int) -> None:
        assert total == 8
        if done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_site(outputs, progress=stop)
    assert build_site(outputs).read == 3


DAMAGES: dict[str, Any] = {
    "all cut short": truncate,
    "all empty": lambda path: [file.write_bytes(b"") for file in path.iterdir() if file.is_file()],
    "all binary": lambda path: [file.write_bytes(os.urandom(64)) for file in path.iterdir() if file.is_file()],
    "lists for objects": lambda path: [file.write_text("[1, [2]]") for file in path.glob("*.json")],
    "numbers for objects": lambda path: [file.write_text("7") for file in path.glob("*.json")],
    "deep": lambda path: (path / runfolder.SUMMARY).write_text("[" * 100_000),
    "run.json is cut": lambda path: (path / runfolder.RUN).write_text('{"state": "fini'),
    "config of aliases": lambda path: (path / runfolder.CONFIG).write_text(
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"{c}: &{c} [{', '.join([f'*{chr(ord(c) - 1)}'] * 9)}]\n" for c in "bcdefghi")
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_shown_and_stops_nothing(tmp_path: Path, name: str) -> None:
    write_run(tmp_path / "good")
    DAMAGES[name](write_run(tmp_path / "bad"))
    site = build_site(tmp_path)
    assert sum(site.states.values()) == 2
    bad = rows(tmp_path)["bad"]
    assert rows(tmp_path)["good"]["problems"] == []
    assert bad["problems"]
    if name not in ("deep", "config of aliases"):
        assert bad["state"] == "damaged"
        assert bad["reason"]


def test_files_of_absurd_content_cost_their_run_only(tmp_path: Path) -> None:
    write_run(tmp_path / "good")
    folder = RunFolder(write_run(tmp_path / "odd"))
    folder.write_json(runfolder.CALIBRATION, {"test": {"expected": "no", "observed": [1]}, "val": 3})
    folder.write_json(runfolder.BAND, {"x": 3, "mean": {"a": 1}})
    folder.write_json(runfolder.GALLERY, {"test": [{"file": "../../etc/passwd", "kind": 3}, 7]})
    folder.write_json(runfolder.MAPS, {"test": {"images": [{"steps": [{"step": "x"}]}]}})
    folder.write_json(runfolder.CONFIG_DIFF, [{"key": None}, 3])
    folder.update_json(runfolder.RUN, seed=[1, {"a": 2}], layers="none", max_steps="many", started=7)
    build_site(tmp_path)
    assert rows(tmp_path)["odd"]["experiment"] == "synthetic"


def test_every_kind_of_run(tmp_path: Path) -> None:
    write_killed_run(tmp_path / "killed")
    write_replicas(tmp_path / "replicas")
    write_segmentation(tmp_path / "segmentation")
    write_agent(tmp_path / "agent", [3.0, 9.0])
    (tmp_path / "job").mkdir()
    job = {"num": 0, "overrides": ["dropout.init_p=9"], "state": "failed", "error": "init_p must be below 1"}
    (tmp_path / "job" / runfolder.JOB).write_text(json.dumps(job))
    build_site(tmp_path)
    found = rows(tmp_path)
    assert found["segmentation"]["task"] == "segmentation"
    assert any(name.startswith("maps/") for name in found["segmentation"]["media"])
    assert found["agent"]["task"] == "control"
    assert found["replicas"]["metrics"]["test/rmse"] > 0
    assert (found["job"]["state"], found["job"]["reason"]) == ("crashed", "init_p must be below 1")
    assert found["job"]["settings"] == ["dropout.init_p=9"]
    assert all(run["problems"] == [] for run in found.values())


def test_what_is_no_run_is_not_found(tmp_path: Path) -> None:
    write_run(tmp_path / "a" / "run")
    (tmp_path / "a" / "run" / "wandb" / "files").mkdir(parents=True)
    (tmp_path / "a" / "run" / "wandb" / "files" / "config.yaml").write_text("a: 1\n")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "run.json").write_text("{}")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "notes").mkdir()
    assert [place.path for place in find(tmp_path)] == ["a/run"]


def test_labels_and_states_of_a_sweep(outputs: Path) -> None:
    sweep = outputs / "digits" / "sweep"
    sweep.mkdir()
    for number in (2, 6):
        (outputs / "digits" / f"run_{number}").rename(sweep / str(number))
    (sweep / runfolder.SWEEP).write_text('{"arguments": [], "started": "2026-01-01"}')
    runs = [{"folder": "2", "label": "init_p=0.1", "values": {}}, {"folder": "6", "label": "init_p=0.2", "values": {}}]
    RunFolder(sweep).write_json(runfolder.STUDY, {"state": "finished", "experiment": "digits", "runs": runs})
    build_site(outputs)
    (group,) = table(outputs)["groups"]
    assert (group["kind"], group["state"], group["planned"]) == ("sweep", "finished", 2)
    found = rows(outputs)
    assert found["digits/sweep/2"]["label"] == "init_p=0.1"
    assert found["digits/sweep/2"]["group"] == group["key"] == "digits/sweep"
    (sweep / runfolder.STUDY).write_text('{"runs": [')
    build_site(outputs)
    assert "study.json cannot be read" in table(outputs)["groups"][0]["problems"][0]


def test_the_site_is_built_elsewhere_and_its_links_lead_back(outputs: Path, tmp_path: Path) -> None:
    out = tmp_path / "a place" / "site"
    site = build_site(outputs, out)
    assert site.index == out / "index.html"
    assert not (outputs / "dashboard").exists()
    version = unpacked((out / DATA / "version.js").read_bytes())
    runs = unpacked((out / DATA / f"table-{version['table']}.js").read_bytes())["runs"]
    assert all((out / run["report"]).resolve().is_file() for run in runs)


def test_mistakes_have_a_message(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no folder: name the one that holds the runs"):
        build_site(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot be written .* choose another place with --out"):
        build_site(tmp_path, tmp_path / "file")


def test_an_empty_folder_has_a_page_of_no_runs(tmp_path: Path) -> None:
    assert build_site(tmp_path).index.is_file()
    assert table(tmp_path)["runs"] == []


def test_the_page_keeps_no_text_of_runs_but_as_data(tmp_path: Path) -> None:
    write_run(tmp_path / "<script>alert(1)<", experiment="</script><script>alert(2)</script>")
    build_site(tmp_path)
    for file in (tmp_path / "dashboard").rglob("*"):
        if file.is_file() and not file.name.startswith(("plotly", NAME)):
            assert "alert(" not in file.read_text()
    assert packed("a", "</script>").isascii()
    with pytest.raises(ValueError, match="no name of data"):
        packed('a"', 1)


def test_an_entry_that_cannot_be_made_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(record: Any) -> None:
        if record.band:
            raise KeyError("unforeseen")

    monkeypatch.setattr("concrete_dropout.dashboard.entry._band", broken)
    entry = read_entry(write_run(tmp_path / "run"))
    assert "KeyError: 'unforeseen'" in entry.row["problems"][0]
    assert (entry.row["experiment"], entry.row["recorded"]["state"]) == ("synthetic", "finished")
