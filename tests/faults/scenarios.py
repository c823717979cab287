"""Commands that are hurt: small ones of every kind, what they make, and how they go on."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.faults.processes import Ended
from tests.vision_files import write_pair

from concrete_dropout.runfolder import RunFolder

Prints = dict[str, Any]
TRAIN, REPORT = "train.py", "src/concrete_dropout/report/__main__.py"
NUMBERS = "a,b,y"


@dataclass(frozen=True)
class Scenario:
    """A command with everything that a round needs to know about it.

    Attributes:
        name: in the table.
        script: of the project.
        arguments: in the working directory.
        faults: that it may meet, by name.
        folder: in the working directory: what nobody else may write into; "" where the last one wins.
        prints: what must be the same as after an undisturbed command, from the working directory.
        prepare: puts files into the working directory; the second one has a finished run of a network.
        resumes: further arguments of the command that goes on, where it does not say so itself.
        beside: further arguments with which a second process works in a folder of its own, on the same cache.
        begins: a file or folder that shows that the part to be hurt has begun; "" for the start.
        only_cold: never as a fork of a warm process.
    """

    name: str
    script: str
    arguments: Sequence[str]
    faults: Sequence[str]
    prints: Callable[[Path], Prints]
    folder: str = "run"
    prepare: Callable[[Path, Path], object] = field(default=lambda work, base: None)
    resumes: Sequence[str] = ()
    beside: Sequence[str] = ()
    begins: str = ""
    only_cold: bool = False

    def next_command(self, ended: Ended, work: Path) -> list[str]:
        """The arguments of the command that goes on: the one that was printed, else what the user would do."""
        printed = re.search(r"^  python train\.py (.+)$", ended.err, flags=re.MULTILINE)
        if printed:
            return shlex.split(printed.group(1))
        if self.script == TRAIN and not self.resumes:
            last = work / self.folder / "checkpoints" / "last.ckpt"
            return [f"ckpt_path={last.relative_to(work)}"] if last.is_file() else list(self.arguments)
        return [*self.arguments, *self.resumes]


# What is compared -----------------------------------------------------------------------------------------------------


def weights(path: Path) -> dict[str, str]:
    state = torch.load(path, map_location="cpu", weights_only=True)["state_dict"]
    return {name: hashlib.sha256(value.numpy().tobytes()).hexdigest() for name, value in state.items()}


def of_run(work: Path, place: str = "run") -> Prints:
    files = RunFolder(work / place)
    record, steps = files.read_json("run.json"), [row["step"] for row in files.read_table("metrics.csv")]
    assert (work / place / "report.html").is_file()
    return {
        "state": record["state"],
        "step": record["step"],
        "weights": weights(work / place / "checkpoints" / "last.ckpt"),
        "metrics": files.read_json("summary.json")["metrics"],
        "steps": steps,
        "p": files.read_table("dropout.csv"),
    }


def of_sweep(work: Path) -> Prints:
    assert (work / "sweep" / "report.html").is_file()
    found = {job.name: of_run(work, f"sweep/{job.name}") for job in sorted((work / "sweep").glob("[0-9]"))}
    return {**found, "state": RunFolder(work / "sweep").read_json("study.json")["state"]}


def of_agent(work: Path) -> Prints:
    episodes = [entry["reward"]["mean"] for entry in RunFolder(work / "run").read_json("control.json")["episodes"]]
    return {**of_run(work), "episodes": episodes}


def of_evaluation(work: Path) -> Prints:
    results = RunFolder(work / "results").read_json("results.json")
    return {"state": results["state"], "rows": RunFolder(work / "results").read_table("results.csv")}


def of_predictions(work: Path) -> Prints:
    tables = sorted((work / "predicted").glob("*.csv"))
    return {path.name: path.read_text() for path in tables}


def of_dashboard(work: Path) -> Prints:
    from concrete_dropout.dashboard.pack import unpacked

    (version,) = (work / "outputs" / "dashboard" / "data").glob("version.js")
    table = unpacked(version.read_bytes())["table"]
    rows = unpacked((version.parent / f"table-{table}.js").read_bytes())["runs"]
    chunks = [path for path in version.parent.glob("run-*.js") if unpacked(path.read_bytes())]
    return {"states": [row["state"] for row in rows], "chunks": len(chunks)}


def of_report(work: Path) -> Prints:
    return {"page": (work / "base" / "report.html").read_text()}


def of_cache(work: Path) -> Prints:
    (cache,) = (work / "cache").rglob("pixels.bin")
    return {"pixels": hashlib.sha256(cache.read_bytes()).hexdigest(), "state": of_run(work)["state"]}


# Files that are needed ------------------------------------------------------------------------------------------------


def write_table(path: Path, rows: int, seed: int = 0) -> None:
    numbers = np.random.default_rng(seed).normal(size=(rows, 3))
    path.write_text(NUMBERS + "\n" + "".join(f"{a:.4f},{b:.4f},{y:.4f}\n" for a, b, y in numbers))


def with_table(work: Path, base: Path) -> None:
    write_table(work / "my.csv", 80)


def with_base(work: Path, base: Path) -> None:
    shutil.copytree(base, work / "base")
    with_table(work, base)  # which it was trained on


def with_base_and_tables(work: Path, base: Path) -> None:
    with_base(work, base)
    (work / "inbox").mkdir()
    for number in range(40):
        write_table(work / "inbox" / f"{number:02d}.csv", 50, seed=number)


def with_many_runs(work: Path, base: Path) -> None:
    for number in range(25):
        shutil.copytree(base, work / "outputs" / "csv" / f"{number:02d}", ignore=shutil.ignore_patterns("checkpoints"))


def with_scenes(work: Path, base: Path) -> None:
    rng = np.random.default_rng(0)
    for part, number in (("train", 60), ("val", 4), ("test", 4)):
        for index in range(number):
            image, mask = (work / "scenes" / part / kind / f"{index}.png" for kind in ("images", "masks"))
            write_pair(image, mask, rng.integers(0, 2, (240, 320)), rng)


# The commands ---------------------------------------------------------------------------------------------------------

SMALL = (
    "trainer=cpu model.hidden=[8] task.val_samples=2 task.test_samples=20 callbacks.uncertainty.band_samples=5 "
    "trainer.max_steps=400 data.min_steps_per_epoch=40 trainer.log_every_n_steps=20"
).split()
SYNTHETIC = ["data.num_data=40", "data.num_val=31", "data.num_test=21"]
CSV = ["experiment=csv", "data.path=my.csv", "data.target=y", *SMALL, "logger=none"]
TINY_AGENT = (
    "experiment=cartpole agent.episodes=3 trainer.max_steps=40 agent.search.iterations=8 agent.search.scouting=4 "
    "agent.starts=5 policy.size=4 model.hidden=[16,16] task.test_samples=5 logger=none"
).split()
SWEEP = ["-m", *SYNTHETIC, *SMALL, "trainer.max_steps=120", "logger=none", "seed=0,1", "hydra.sweep.dir=sweep"]
JOBLIB = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "threads=1"]
SCENES = (
    "experiment=seg_folder trainer=cpu logger=none trainer.max_steps=2 trainer.max_epochs=-1 data.root=scenes "
    "data.classes=[road,sky] data.cache_dir=cache data.crop=32 model=fc_densenet_small dropout.place=null "
    "task.test_samples=0 task.val_samples=0 data.scale=0.25"
).split()
STOPS = ["kill", "term", "int", "group kill", "group term", "group int"]
FAULTS = [*STOPS, "second", "clock"]

SCENARIOS = [
    Scenario("train", TRAIN, [*CSV, "hydra.run.dir=run"], FAULTS, of_run, prepare=with_table),
    Scenario("train, W&B", TRAIN, [*SYNTHETIC, *SMALL, "hydra.run.dir=run"], [*FAULTS, "wandb", "wandb"], of_run),
    Scenario(
        "two processes",
        TRAIN,
        [*SYNTHETIC, *SMALL, "trainer=ddp_cpu", "data.batch_size=8", "logger=none", "hydra.run.dir=run"],
        # No clock: torch's launcher sleeps, and libfaketime lets Python's time.sleep fail, jump or not.
        [*STOPS, "second", "rank kill", "rank kill", "rank term"],
        of_run,
    ),
    Scenario("sweep", TRAIN, SWEEP, FAULTS, of_sweep, folder="sweep", resumes=["resume=true"]),
    Scenario(
        "sweep, joblib",
        TRAIN,
        [*SWEEP, *JOBLIB],
        [*STOPS, "second", "worker kill", "worker kill"],
        of_sweep,
        folder="sweep",
        resumes=["resume=true"],
        only_cold=True,
    ),
    Scenario("agent", TRAIN, [*TINY_AGENT, "hydra.run.dir=run"], FAULTS, of_agent),
    Scenario(
        "cache",
        TRAIN,
        [*SCENES, "hydra.run.dir=run"],
        FAULTS,
        of_cache,
        prepare=with_scenes,
        beside=["hydra.run.dir=run2"],
        begins="cache/**/.building-*",
    ),
    Scenario(
        "evaluate",
        "evaluate.py",
        ["ckpt=base", "mc_samples=0,20,200", "split=val,test", "repeats=12", "corruptions=true", "out=results"],
        FAULTS,
        of_evaluation,
        folder="results",
        prepare=with_base,
        begins="results/results.json",
    ),
    Scenario(
        "predict",
        "predict.py",
        ["ckpt=base", "input=inbox", "output=predicted", "mc_samples=300"],
        FAULTS,
        of_predictions,
        folder="predicted",
        prepare=with_base_and_tables,
        begins="predicted/finished.jsonl",
    ),
    Scenario("report", REPORT, ["base"], FAULTS, of_report, folder="", prepare=with_base),
    Scenario("dashboard", "dashboard.py", ["outputs"], FAULTS, of_dashboard, folder="", prepare=with_many_runs),
]
