"""One command makes everything on the results page, goes on where it was stopped, and tells what failed."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.docs import result_runs as runs
from tests.docs.test_results import rows_of
from tests.docs.test_results_page import place_of
from tools.measured import command, plan, runner
from tools.measured.experiments import EXPERIMENTS
from tools.measured.page import PAGE, RESULTS
from tools.measured.plan import BEYOND, MEMBERS, SEEDS, SETS, Step, folder_of, names, steps
from tools.measured.runner import arguments, run_steps, state_of

from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import CHECKPOINTS, EVALUATION, RUN, STUDY, SWEEP, RunFolder

ROOT = Path(__file__).parents[2]
TINY = "experiment=synthetic 'model.hidden=[8]' data.num_data=20 data.min_steps_per_epoch=2 logger=none"


def step(words: str, name: str = "tiny") -> Step:
    text = f"python {shlex.quote(str(ROOT / 'train.py'))} {words}"
    return Step(name, text, folder_of(name, text))


def test_every_command_of_every_section_is_there_for_all_seeds() -> None:
    found = {(entry.name, entry.command) for entry in steps()}
    for experiment in EXPERIMENTS:
        for template in experiment.commands:
            for seed in SEEDS if "SEED" in template else (0,):
                assert (experiment.name, template.replace("SEED", str(seed))) in found
    assert {name for name, _ in found} == {*(e.name for e in EXPERIMENTS), *(entry.name for entry in BEYOND)}
    text = "\n".join(entry.command + entry.folder for entry in steps())
    assert "SEED" not in text
    assert "SET" not in text
    assert all(f"data.name={name} " in text for name in SETS)


def test_sets_by_themselves_have_the_settings_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = yaml.safe_load((ROOT / "conf" / "experiment" / "uci_table.yaml").read_text())["study"]["settings"]
    monkeypatch.setitem(plan.STANDS_FOR, "SET", tuple(settings))
    for entry, (name, own) in zip(steps(["grid_cost"])[1:], settings.items(), strict=True):
        assert f"data.name={name} " in entry.command
        assert all(
            any(word.startswith(f"{key}=") for word in entry.command.split()) for key in own if key != "dropout.p"
        )


def test_one_mask_is_compared_on_the_sets_that_have_several() -> None:
    settings = yaml.safe_load((ROOT / "conf" / "experiment" / "uci_table.yaml").read_text())["study"]["settings"]
    several = [name for name, own in settings.items() if own.get("task.train_samples", 1) > 1]
    (found,) = (
        entry.command for entry in steps(["train_samples"]) if "uci_table task.train_samples=1" in entry.command
    )
    grid = f"study.grid={{data.name:[{','.join(several)}]}}"
    assert shlex.split(found)[2:] == ["experiment=uci_table", "task.train_samples=1", grid]
    assert "yacht" not in found
    assert found in plan.commands_of("train_samples")


def test_every_command_has_a_folder_of_its_own() -> None:
    folders = [entry.folder for entry in steps()]
    assert len(set(folders)) == len(folders)
    assert all(not set(folder) & set(" ,='\"") and len(folder) < 200 for folder in folders)


def test_evaluations_take_folders_that_earlier_commands_work_in() -> None:
    for names_wanted in ((), ("shift",), ("masks",)):
        before: set[str] = set()
        for entry in steps(names_wanted):
            taken = [word for word in entry.command.split() if word.startswith("ckpt=")]
            for word in taken:
                for place in word.removeprefix("ckpt=").split(","):  # a run, or one inside of a study
                    assert any(place == folder or place.startswith(f"{folder}/") for folder in before), entry.command
            before.add(entry.folder)
    ensemble = next(entry for entry in steps(["shift"]) if "ensemble=true" in entry.command)
    assert ensemble.command.split("ckpt=")[1].split()[0].count(",") == len(MEMBERS) - 1


def test_names_choose_and_unknown_ones_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert {entry.name for entry in steps(["camvid"])} == {"camvid"}
    assert names()[-1] == "camvid"
    with pytest.raises(UserError, match="there is no mnits; known are synthetic, uci"):
        steps(["mnits"])
    assert command.main(["run", "mnits"]) == 2
    assert "there is no mnits" in capsys.readouterr().err


def test_the_list_runs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner.subprocess, "Popen", pytest.fail)
    RunFolder(tmp_path / "outputs/results/mnist/seed-1").write_json(RUN, {"state": "finished"})
    assert command.main(["run", "--list", "mnist"], tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "python train.py experiment=mnist seed=0 hydra.run.dir=outputs/results/mnist/seed-0"
    assert lines[1].startswith("# finished: python train.py experiment=mnist seed=1 ")
    assert len(lines) == 2 * 3 * len(SEEDS)  # three kinds of dropout, a short and a long schedule


def test_how_a_command_goes_on(tmp_path: Path) -> None:
    single, sweep = step("experiment=mnist"), step("-m experiment=mnist seed=0,1")
    evaluation = Step("x", "python evaluate.py ckpt=run", "outputs/results/x/e")
    assert arguments(single, tmp_path)[2:] == ["experiment=mnist", f"hydra.run.dir={single.folder}"]
    assert arguments(sweep, tmp_path)[2:] == ["-m", "experiment=mnist", "seed=0,1", f"hydra.sweep.dir={sweep.folder}"]
    assert arguments(evaluation, tmp_path)[2:] == ["ckpt=run", f"out={evaluation.folder}"]
    for entry, name in ((single, RUN), (sweep, SWEEP)):
        RunFolder(tmp_path / entry.folder).write_json(name, {"state": "running"})
    assert arguments(sweep, tmp_path)[-1] == "resume=true"
    assert arguments(single, tmp_path)[-1] == f"hydra.run.dir={single.folder}"  # killed before its first checkpoint
    (tmp_path / single.folder / CHECKPOINTS).mkdir()
    (tmp_path / single.folder / CHECKPOINTS / "last.ckpt").touch()
    assert arguments(single, tmp_path)[2:] == [f"ckpt_path={single.folder}/{CHECKPOINTS}/last.ckpt"]


@pytest.mark.parametrize("name", [RUN, STUDY, EVALUATION])
def test_a_folder_says_how_far_it_is(name: str, tmp_path: Path) -> None:
    assert state_of(tmp_path) == ""
    RunFolder(tmp_path).write_json(name, {"state": "interrupted"})
    assert state_of(tmp_path) == "interrupted"
    (tmp_path / name).write_text('{"state": "fin')
    assert state_of(tmp_path) == ""


def test_a_stop_ends_it_all_and_a_failure_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = {"seed=0": 1, "seed=1": 0, "seed=2": 130, "seed=3": 0}
    called = []

    def call(words: list[str], root: Path) -> int:
        called.append(words[2])
        return codes[words[2]]

    monkeypatch.setattr(runner, "_call", call)
    planned = [step(seed) for seed in codes]
    ended: list[tuple[Step, bool]] = []
    done, failed, stopped = run_steps(planned, tmp_path, lambda *entry: ended.append(entry))
    assert called == ["seed=0", "seed=1", "seed=2"]
    assert ended == [(entry, True) for entry in planned[:3]]
    assert done == [planned[1]]
    assert [line.split(" (exit code ")[1][0] for line in failed] == ["1"]
    assert stopped


def test_every_step_is_on_the_page_before_the_next_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = place_of(tmp_path / "project")
    planned = [step(f"experiment=mnist seed={seed}", "mnist") for seed in range(4)]
    before = []

    def call(words: list[str], root: Path) -> int:
        page = root / PAGE
        shown = page.read_text().count("| 98.64") if page.is_file() else 0
        rows = rows_of(root / RESULTS, "mnist") if (root / RESULTS / "mnist.csv").is_file() else []
        before.append(([row["seed"] for row in rows], shown > 0))
        seed = len(before) - 1
        if seed == 1:
            return 1  # refused: it has left nothing
        runs.mnist(root / planned[seed].folder, seed)
        return 130 if seed == 3 else 0

    monkeypatch.setattr(runner, "_call", call)
    assert command.reproduce(planned, root) == 130
    assert before == [([], False), (["0"], True), (["0"], True), (["0", "2"], True)]
    # What a stopped command has finished is taken as well.
    assert [row["seed"] for row in rows_of(root / RESULTS, "mnist")] == ["0", "2", "3"]
    said = capsys.readouterr()
    assert "Stopped after 2 of 4" in said.err
    assert said.out.count("docs/results.md") == 1


@pytest.mark.parametrize("name", ["add", "build"])
def test_what_cannot_be_put_on_the_page_stops_no_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise UserError("a damaged file")

    called = []
    monkeypatch.setattr(command, name, refuse)
    monkeypatch.setattr(runner, "_call", lambda words, root: called.append(words[2]) or 0)
    root = place_of(tmp_path / "project")
    assert command.reproduce([step(f"seed={seed}") for seed in (0, 1)], root) == 1
    assert called == ["seed=0", "seed=1"]
    assert "a damaged file" in capsys.readouterr().err


@pytest.mark.slow
def test_real_runs_are_made_added_and_taken_up(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = place_of(tmp_path / "project")
    good, bad = step(f"{TINY} trainer.max_steps=4"), step(f"{TINY} trainer.max_steps=many")
    sweep = step(f"-m {TINY} trainer.max_steps=2 seed=1,2")
    assert command.reproduce([bad, good, sweep], root) == 1
    said = capfd.readouterr()
    assert f"Error: 1 of 3 commands failed:\n  {bad.command} (exit code 2 after " in said.err
    assert "=== 2 of 3, tiny: " in said.out
    assert {row["seed"] for row in rows_of(root / RESULTS, "synthetic")} == {"0", "1", "2"}
    assert "trainer.max_steps=4" in (root / PAGE).read_text()

    RunFolder(root / good.folder).update_json(RUN, state="interrupted")
    (root / RESULTS / "synthetic.csv").unlink()
    assert command.reproduce([good, sweep], root) == 0
    said = capfd.readouterr()
    assert f"{sweep.command}: finished already" in said.out
    assert RunFolder(root / good.folder).read_json(RUN)["state"] == "finished"
    assert [row["steps"] for row in rows_of(root / RESULTS, "synthetic")] == ["2", "2", "4"]

    monkeypatch.setattr(runner.subprocess, "Popen", pytest.fail)  # nothing is left to run
    assert command.reproduce([good, sweep], root) == 0


def test_make_has_a_target() -> None:
    shown = subprocess.run(["make", "--dry-run", "reproduce", "ARGS=mnist --list"], cwd=ROOT, capture_output=True)
    # Below another make there are lines on folders too.
    lines = shown.stdout.decode().splitlines()
    assert any(line.endswith("python tools/results.py run mnist --list") for line in lines)
