"""python evaluate.py on small trained runs of every kind, mostly in this process, which has torch already."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from concrete_dropout.cli.compose import compose_config
from concrete_dropout.cli.evaluate import evaluate_command
from concrete_dropout.cli.replicated import run_replicas
from concrete_dropout.cli.run import run
from concrete_dropout.runfolder import REPLICAS, RunFolder

ROOT = Path(__file__).parents[1]
CONF = ROOT / "conf"
TINY = ["trainer=cpu", "task.val_samples=2", "task.test_samples=9", "logger=none", "threads=1"]
SMALL = ["data.num_data=30", "data.num_val=20", "data.num_test=25", "data.eval_batch_size=10", "model.hidden=[8]"]
DIGITS = ["experiment=digits", "model.hidden=[16]", "trainer.max_steps=60", "data.eval_batch_size=100"]
SCENES = [
    "experiment=scenes",
    "trainer.max_steps=2",
    "data.num_train=2",
    "data.num_val=2",
    "data.num_test=3",
    "data.height=32",
    "data.width=48",
    "data.crop=32",
    "data.eval_batch_size=2",
    "model.blocks=[1,1,1]",
    "model.growth=4",
    "model.first_filters=8",
]
Evaluated = Callable[..., tuple[int, str, str]]


@dataclass(frozen=True)
class Runs:
    place: Path

    def __getattr__(self, name: str) -> Path:
        return self.place / name


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    place = tmp_path_factory.mktemp("runs")

    def train(name: str, *overrides: str, runner: Any = run) -> None:
        cfg = compose_config([*TINY, *overrides], CONF, run_dir=place / name)
        runner(cfg, place / name, CONF)

    before = Path.cwd()
    os.chdir(place)
    try:
        often = "data.min_steps_per_epoch=1"
        train("regression", often, "trainer.max_steps=20", "task.noise=homoscedastic", "task.final_m_step=true", *SMALL)
        train("digits", *DIGITS)
        train("digits_1", *DIGITS, "seed=1", "data.seed=0", "test=false")
        train("digits_none", *DIGITS, "dropout=none", "data.seed=7", "test=false")
        train("scenes", *SCENES)
        train("alone", "trainer.max_steps=2", *SMALL, "data.num_val=0", "test=false")
        grid = "replicas.grid={seed:[0,1,2]}"
        train("replicas", grid, "trainer.max_steps=4", *SMALL, "data.seed=0", runner=run_replicas)
    finally:
        os.chdir(before)
    return Runs(place)


@pytest.fixture
def evaluated(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Evaluated:
    def evaluate(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        out = [] if any(argument.startswith("out=") for argument in arguments) else [f"out={tmp_path / 'out'}"]
        code = evaluate_command([*arguments, *out], CONF)
        said = capsys.readouterr()
        return code, said.out, said.err

    return evaluate


def results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


def found(folder: Path, **wanted: Any) -> dict[str, float]:
    """The metrics of the only row that has these values."""
    samples = wanted.pop("samples")
    wanted = {"mask": None, "shift": "", "severity": 0, "repeat": 0, **wanted}
    records = [r for r in results(folder)["passes"] if all(r[key] == value for key, value in wanted.items())]
    (row,) = [row for record in records for row in record["rows"] if row["samples"] == samples]
    metrics: dict[str, float] = row["metrics"]
    return metrics


def own_test(run: Path, suffix: str = "") -> dict[str, float]:
    metrics = json.loads((run / "summary.json").read_text())["metrics"]
    return {
        name.removeprefix("test/").removesuffix(suffix): value
        for name, value in metrics.items()
        if name.startswith("test/") and name.endswith(suffix) and (suffix or not name.endswith("_no_mc"))
    }


@pytest.mark.parametrize("name", ["regression", "digits", "scenes"])
def test_metrics_are_those_of_the_runs_own_test(name: str, runs: Runs, evaluated: Evaluated, tmp_path: Path) -> None:
    code, out, err = evaluated(f"ckpt={getattr(runs, name)}", "mc_samples=0,4,9", "mask=concrete,bernoulli")
    assert (code, err) == (0, "")
    folder = tmp_path / "out"
    expected = own_test(getattr(runs, name))
    ours = found(folder, samples=9, mask="concrete")
    assert {key: ours[key] for key in expected} == pytest.approx(expected, rel=1e-4, abs=1e-6, nan_ok=True)
    assert found(folder, samples=9, mask="bernoulli")["nll"] != ours["nll"]
    assert found(folder, samples=4, mask="concrete")["nll"] != ours["nll"]
    without = own_test(getattr(runs, name), "_no_mc")
    single = found(folder, samples=0)
    assert {key: single[key] for key in without} == pytest.approx(without, rel=1e-4, abs=1e-6, nan_ok=True)
    table = RunFolder(folder).read_table("results.csv")
    assert sorted((row["mask"], row["samples"]) for row in table) == sorted(
        [("", "0"), *((mask, count) for mask in ("bernoulli", "concrete") for count in ("4", "9"))]
    )
    assert float(table[0]["nll"]) == pytest.approx(single["nll"])
    assert "<h1>" in (folder / "evaluation.html").read_text()
    assert "Test data" in out


def test_everything_at_once(runs: Runs, evaluated: Evaluated, tmp_path: Path) -> None:
    arguments = [f"ckpt={runs.digits}", "mc_samples=3,12", "split=val,test", "repeats=2", "temperature_scaling=true"]
    arguments += ["corruptions=gaussian_noise,rotation", "severities=1,5", "ood=noise,scenes", "ood.num_train=2"]
    code, out, err = evaluated(*arguments, "shift_samples=12", "ood.num_test=3", "ood.num_val=0")
    assert (code, err) == (0, "")
    content = results(tmp_path / "out")
    assert content["state"] == "finished"
    clean = {(r["part"], r["mask"], r["repeat"]) for r in content["passes"] if not r["shift"]}
    assert clean == {(p, m, r) for p in ("val", "test") for m, r in ((None, 0), ("concrete", 0), ("concrete", 1))}
    test = next(r for r in content["passes"] if (r["part"], r["mask"], r["repeat"]) == ("test", "concrete", 0))
    fitted = next(row for row in test["rows"] if row["samples"] == 12)["fitted"]
    assert fitted["before"]["accuracy"] == fitted["after"]["accuracy"]
    assert fitted["before"]["nll"] == pytest.approx(
        found(tmp_path / "out", part="test", mask="concrete", samples=12)["nll"]
    )
    assert 0.01 < fitted["factor"] < 100
    shifts = {(r["shift"], r["severity"]): r for r in content["passes"] if r["shift"] and r["mask"]}
    assert set(shifts) == {
        *((n, s) for n in ("gaussian_noise", "rotation") for s in (1, 5)),
        ("noise", 0),
        ("scenes", 0),
    }
    strong = shifts["gaussian_noise", 5]["rows"][0]
    assert set(strong["detection"]) == {"epistemic", "predictive", "confidence"}
    assert all(0 <= value <= 1 for score in strong["detection"].values() for value in score.values())
    assert strong["metrics"]["accuracy"] < found(tmp_path / "out", part="test", mask="concrete", samples=12)["accuracy"]
    assert "metrics" not in shifts["noise", 0]["rows"][0]
    assert "±" in out


def test_segmentation_under_shift(runs: Runs, evaluated: Evaluated, tmp_path: Path) -> None:
    arguments = (f"ckpt={runs.scenes}", "mc_samples=4", "corruptions=blur", "severities=3", "ood=noise,digits")
    code, _, err = evaluated(*arguments, "temperature_scaling=true")
    assert (code, err) == (0, "")
    shifted = [r for r in results(tmp_path / "out")["passes"] if r["shift"] and r["mask"]]
    for record in shifted:
        detection = record["rows"][0]["detection"]
        assert {"epistemic", "predictive/pixels", "confidence/pixels"} <= set(detection)
        assert all(0 <= value["auroc"] <= 1 for value in detection.values())
    assert len(shifted) == 3


def test_an_evaluation_goes_on_where_it_was(runs: Runs, evaluated: Evaluated, tmp_path: Path) -> None:
    arguments = [
        f"ckpt={runs.regression}",
        "mc_samples=0,5",
        "corruptions=shift",
        "severities=1,2",
        "temperature_scaling=true",
    ]
    assert evaluated(*arguments)[0] == 0
    folder = tmp_path / "out"
    whole = results(folder)
    cut = {**whole, "passes": whole["passes"][:5], "state": "running"}
    (folder / "results.json").write_text(json.dumps(cut))
    code, out, _ = evaluated(*arguments)
    assert code == 0
    again = results(folder)
    assert len(whole["passes"]) == len(again["passes"]) == 8
    for before, after in zip(whole["passes"], again["passes"], strict=True):
        assert before["rows"] == after["rows"]
    assert [p["seconds"] for p in again["passes"][:5]] == [p["seconds"] for p in whole["passes"][:5]]
    assert out.count(" s left") == 3
    code, _, err = evaluated(f"ckpt={runs.digits}", "mc_samples=0")
    assert code == 2
    assert "has results of another evaluation" in err


def test_other_data_settings_are_taken_and_shown(runs: Runs, evaluated: Evaluated, tmp_path: Path) -> None:
    code, out, _ = evaluated(f"ckpt={runs.regression}", "mc_samples=0", "data.num_test=7")
    assert code == 0
    assert "with data.num_test=7 in place of the run's own" in out
    assert results(tmp_path / "out")["passes"][0]["rows"][0]["points"] == 7


def test_replicas(runs: Runs, evaluated: Evaluated, tmp_path: Path) -> None:
    table = RunFolder(runs.replicas).read_table(REPLICAS)
    code, out, err = evaluated(f"ckpt={runs.replicas}", "mc_samples=9")
    assert (code, err) == (0, "")
    for index, row in enumerate(table):
        ours = found(tmp_path / "out", subject=f"replicas, replica {index}", mask="concrete", samples=9)
        assert ours["nll"] == pytest.approx(float(row["test/nll"]), rel=1e-5)
    assert "± is the standard error over 3 replicas" in out
    assert evaluated(f"ckpt={runs.replicas}", "replica=2", "mc_samples=0", f"out={tmp_path / 'one'}")[0] == 0
    assert [s["name"] for s in results(tmp_path / "one")["subjects"]] == ["replicas, replica 2"]


def test_an_ensemble_is_the_mixture_of_its_members(runs: Runs, evaluated: Evaluated, tmp_path: Path) -> None:
    both = f"ckpt={runs.digits},{runs.digits_1}"
    assert evaluated(both, "mc_samples=0,8", "ensemble=true")[0] == 0
    code, out, _ = evaluated(both, "mc_samples=0,4", f"out={tmp_path / 'apart'}")
    assert code == 0
    together = found(tmp_path / "out", samples=0)
    alone = [found(tmp_path / "apart", samples=0, subject=name) for name in ("digits", "digits_1")]
    assert together["nll"] < sum(each["nll"] for each in alone) / 2
    assert together["mutual_information"] > 0
    assert alone[0]["mutual_information"] == pytest.approx(0, abs=1e-6)
    assert "digits_1" in out


def test_members_must_share_their_data(runs: Runs, evaluated: Evaluated, tmp_path: Path) -> None:
    code, _, err = evaluated(f"ckpt={runs.digits},{runs.digits_none}", "mc_samples=0", "ensemble=true")
    assert code == 2
    assert "have different test data" in err
    assert not (tmp_path / "out").exists()


def test_weights_without_a_final_m_step_get_one_as_before_a_test(
    runs: Runs, evaluated: Evaluated, tmp_path: Path
) -> None:
    best = runs.regression / "checkpoints" / "best.ckpt"
    settings = ["task.noise=homoscedastic", "task.final_m_step=true", "train=false", f"ckpt_path={best}"]
    place = tmp_path / "run"
    run(compose_config([*TINY, *SMALL, *settings], CONF, run_dir=place), place, CONF)
    assert evaluated(f"ckpt={best}", "mc_samples=9")[0] == 0
    expected = own_test(place)
    assert found(tmp_path / "out", mask="concrete", samples=9) == pytest.approx(expected, rel=1e-5)


def test_several_runs_of_one_kind(runs: Runs, evaluated: Evaluated) -> None:
    code, _, err = evaluated(f"ckpt={runs.digits},{runs.alone}")
    assert code == 2
    assert "different tasks (ClassificationTask, RegressionTask)" in err


def test_no_dropout_is_one_pass(runs: Runs, evaluated: Evaluated, tmp_path: Path) -> None:
    code, out, _ = evaluated(f"ckpt={runs.digits_none}", "mc_samples=10,20", "repeats=3", "mask=concrete,bernoulli")
    assert code == 0
    assert "no dropout is active" in out
    assert len(results(tmp_path / "out")["passes"]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["split=val"], "split=val: alone has no val part"),
        (["temperature_scaling=true"], "temperature_scaling=true fits on validation data"),
        (["replica=0"], "is of one network, not of replicas"),
        (["corruptions=blur"], "corruptions=blur is none of these data. There is: feature_noise"),
        (["ood=mnits"], "ood=mnits is unknown. Did you mean 'mnist'"),
        (["ood=inverted"], "ood=inverted is for pictures"),
        (["ood=csv"], "ood=csv needs ood.path="),
        (["ood=noise", "ood.root=x"], "ood.root is a setting of none of the data sets in ood=noise"),
        (["ood=digits"], "pictures are no rows of numbers"),
        (["shift_samples=3"], "shift_samples=3 must be one of mc_samples=0,9"),
        (["data.num_tests=3"], "data.num_tests is unknown. Did you mean 'num_test'"),
        (["data.num_test=many"], "data.num_test='many' must be an integer"),
        (["ensemble=true"], "ensemble=true needs several members"),
        (["starts=5"], "starts is for agents"),
        (["device=cuda"], "device=cuda"),
    ],
)
def test_requests_that_do_not_fit(
    arguments: list[str], message: str, runs: Runs, evaluated: Evaluated, tmp_path: Path
) -> None:
    code, _, err = evaluated(f"ckpt={runs.alone}", *arguments)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) <= 3
    assert not (tmp_path / "out").exists()


def test_damaged_checkpoints(runs: Runs, evaluated: Evaluated, tmp_path: Path) -> None:
    content = (runs.alone / "checkpoints" / "last.ckpt").read_bytes()
    (tmp_path / "cut.ckpt").write_bytes(content[: len(content) // 2])
    assert "truncated, damaged" in evaluated(f"ckpt={tmp_path}/cut.ckpt")[2]
    own = runs.replicas / "replicas" / "1" / "checkpoints" / "last.ckpt"
    assert f"take ckpt={runs.replicas} replica=1" in evaluated(f"ckpt={own}")[2]
    saved = torch.load(runs.alone / "checkpoints" / "last.ckpt", weights_only=True)
    saved["config"]["model"]["hidden"] = [9]
    torch.save(saved, tmp_path / "other.ckpt")
    code, _, err = evaluated(f"ckpt={tmp_path}/other.ckpt")
    assert code == 2
    assert "is of another network" in err


def test_sigterm_keeps_what_is_finished(runs: Runs, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    command = [
        sys.executable,
        str(ROOT / "evaluate.py"),
        f"ckpt={runs.regression}",
        "mc_samples=0,100000",
        f"out={folder}",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not ((folder / "results.json").is_file() and results(folder)["passes"]):
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert f"go on with the same command and out={folder}" in err
    assert "Traceback" not in err
    content = results(folder)
    assert (content["state"], len(content["passes"])) == ("stopped", 1)
    assert "This evaluation is stopped" in (folder / "evaluation.html").read_text()
