"""What a user may get wrong once there are trained networks: other checkpoints, other files, other places."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.hardening import bad_files as bad
from tests.hardening import bad_pictures as odd
from tests.hardening.cases import CSV, SMALL
from tests.hardening.trained import Runs, age, change, last, of_a_later_version, rename_setting

RUN = "RUN"  # in arguments: a copy of the run, which the case may have tampered with
Tamper = Callable[[Path], object]


@dataclass(frozen=True)
class TrainedCase:
    """A command about a trained run that must be refused.

    Attributes:
        name: of the test.
        script: the entry point.
        run: the name of the run, of which the folder RUN is a copy.
        arguments: behind the script.
        named: what the message must name.
        tamper: changes the copy.
        prepare: makes files in the working directory.
        code: the exit code; predict.py and evaluate.py have 1 for what fails on the way.
    """

    name: str
    script: str
    run: str
    arguments: list[str]
    named: tuple[str, ...]
    tamper: Tamper = field(default=lambda run: None)
    prepare: Callable[[Path], object] = field(default=lambda folder: None)
    code: int = 2


def checkpoints() -> list[TrainedCase]:
    """What is no checkpoint, or not a good one, for each of the three commands that take one."""
    kinds: dict[str, Tamper] = {
        "truncated": lambda run: bad.truncate(last(run)),
        "empty": lambda run: last(run).write_bytes(b""),
        "text": lambda run: last(run).write_text("hello"),
        "malicious": lambda run: bad.malicious_checkpoint(last(run)),
        "bare pickle": lambda run: bad.pickled(last(run)),
        "number": lambda run: _save(run, 3),
        "other project's": lambda run: _save(run, {"state_dict": {}, "epoch": 3}),
    }
    commands = {
        "train.py": [*SMALL, "ckpt_path=RUN/checkpoints/last.ckpt", "hydra.run.dir=new"],
        "evaluate.py": ["ckpt=RUN"],
        "predict.py": ["ckpt=RUN", "input=a.csv"],
    }
    return [
        TrainedCase(f"{script} {kind} checkpoint", script, "toy", arguments, ("last.ckpt",), tamper)
        for kind, tamper in kinds.items()
        for script, arguments in commands.items()
    ]


def _save(run: Path, content: Any) -> None:
    import torch

    torch.save(content, last(run))


OF_OTHERS = [
    TrainedCase(
        "a checkpoint of a wider network",
        "train.py",
        "toy",
        [*SMALL, "model.hidden=[9]", "ckpt_path=RUN/checkpoints/last.ckpt", "hydra.run.dir=new"],
        ("last.ckpt", "another network", "model.hidden"),
    ),
    TrainedCase(
        "a checkpoint of another task",
        "train.py",
        "pictures",
        [*SMALL, "ckpt_path=RUN/last.ckpt"],
        ("last.ckpt", "another network"),
        lambda run: last(run).rename(run / "last.ckpt"),
    ),
    TrainedCase(
        "a checkpoint of another kind of dropout",
        "train.py",
        "toy",
        [*SMALL, "dropout=fixed", "ckpt_path=RUN/checkpoints/last.ckpt", "hydra.run.dir=new"],
        ("last.ckpt", "dropout"),
    ),
    TrainedCase(
        "a checkpoint of a table with other columns",
        "train.py",
        "csv",
        [*CSV, "ckpt_path=RUN/checkpoints/last.ckpt", "hydra.run.dir=new"],
        ("last.ckpt",),
        prepare=lambda f: bad.table(f, "a,b,c,y\n" + "1,2,3,4\n2,3,4,5\n5,4,3,1\n" * 9),
    ),
    TrainedCase(
        "weights that do not fit their config",
        "predict.py",
        "csv",
        ["ckpt=RUN", "input=a.csv"],
        ("last.ckpt", "config"),
        lambda run: change(run, lambda content: content["config"]["model"].update(hidden=[9])),
    ),
    *(
        TrainedCase(f"{script} settings of an earlier version", script, "csv", ["ckpt=RUN", *more], named, tamper)
        for script, more in (("evaluate.py", []), ("predict.py", ["input=a.csv"]))
        for tamper, named in ((lambda run: change(run, rename_setting), ("last.ckpt", "drop_rate", "earlier version")),)
    ),
    *(
        TrainedCase(f"{script} settings of a later version", script, "csv", ["ckpt=RUN", *more], named, tamper)
        for script, more in (("evaluate.py", []), ("predict.py", ["input=a.csv"]))
        for tamper, named in ((lambda run: change(run, of_a_later_version), ("last.ckpt", "wings", "9.7")),)
    ),
    TrainedCase(
        "a checkpoint without its data or how to read them",
        "predict.py",
        "csv",
        ["ckpt=RUN", "input=a.csv"],
        ("earlier version", "gone.csv"),
        lambda run: change(run, lambda c: (age(c), c["config"]["data"].update(path="gone.csv"))),
    ),
]


def requests(script: str, run: str, *settings: tuple[str, str]) -> list[TrainedCase]:
    return [
        TrainedCase(
            f"{script} {setting}",
            script,
            run,
            ["ckpt=RUN", *setting.split("; ")],
            (named,),
            prepare=lambda f: (f / "a.csv").write_text("a,b\n1,2\n"),
        )
        for setting, named in settings
    ]


EVALUATE = [
    *requests(
        "evaluate.py",
        "csv",
        ("mc_samples=-1", "mc_samples"),
        ("mc_samples=1.5", "mc_samples"),
        ("mask=soft", "soft"),
        ("split=train", "split"),
        ("repeats=0", "repeats"),
        ("seed=-1", "seed"),
        ("corruptions=fog", "fog"),
        ("corruptions=true; severities=9", "severities"),
        ("ood=nowhere", "nowhere"),
        ("ood=noise; ood.nothing=1", "ood.nothing"),
        ("data.nothing=1", "nothing"),
        ("data.batch_size=0", "batch_size"),
        ("data.path=gone.csv", "gone.csv"),
        ("data.target=z", "z"),
        ("replica=0", "replica"),
        ("ensemble=true", "ensemble"),
        ("device=tpu", "tpu"),
        ("threads=0", "threads"),
        ("starts=5", "starts"),
        ("mc_sample=3", "mc_samples"),
    ),
    TrainedCase(
        "results where a file is",
        "evaluate.py",
        "csv",
        ["ckpt=RUN", "out=taken"],
        ("taken",),
        prepare=lambda f: (f / "taken").touch(),
        code=1,
    ),
    TrainedCase(
        "results without permission",
        "evaluate.py",
        "csv",
        ["ckpt=RUN", "out=locked/results"],
        ("locked",),
        prepare=lambda f: ((f / "locked").mkdir(), (f / "locked").chmod(0o500)),
        code=1,
    ),
    TrainedCase(
        "a run without permission", "evaluate.py", "csv", ["ckpt=RUN"], ("last.ckpt",), lambda r: last(r).chmod(0)
    ),
]

PREDICT = [
    *requests(
        "predict.py",
        "csv",
        ("input=gone.csv", "gone.csv"),
        ("input=a.csv; mc_samples=1000000000000", "mc_samples"),
        ("input=a.csv; mc_samples=-2", "mc_samples"),
        ("input=a.csv; interval=1", "interval"),
        ("input=a.csv; interval=nan", "interval"),
        ("input=a.csv; memory=0", "memory"),
        ("input=a.csv; max_size=0", "max_size"),
        ("input=a.csv; mask=hard", "hard"),
        ("input=a.csv; device=cuda:99", "cuda:99"),
        ("input=a.csv; missing=guess", "guess"),
        ("input=a.csv; strict=maybe", "strict"),
        ("input=a.csv; sead=1", "seed"),
        ("input=a.csv; seed=1; seed=2", "seed"),
    ),
    *(
        TrainedCase(
            f"predict {name}",
            "predict.py",
            "csv",
            ["ckpt=RUN", "input=a.csv"],
            ("a.csv", *named),
            prepare=lambda f, text=text: (f / "a.csv").write_text(text),
        )
        for name, text, named in (
            ("an empty table", "", ()),
            ("a header only", "a,b\n", ()),
            ("a table without a column", "a,c\n1,2\n", ("b",)),
            ("text in a table", "a,b\n1,much\n", ("b", "much")),
            ("NaN in a table", "a,b\n1,nan\n", ("b",)),
            ("infinity in a table", "a,b\n1,inf\n", ("b",)),
            ("numbers far from those of training", "a,b\n1,1e300\n", ("b",)),
            ("a table with a column of predictions", "a,b,y_mean\n1,2,3\n", ("y_mean",)),
        )
    ),
    TrainedCase(
        "a picture for a table network",
        "predict.py",
        "csv",
        ["ckpt=RUN", "input=a.png"],
        ("a.png", "CSV"),
        prepare=lambda f: odd.without_pixels(f / "a.png"),
    ),
    TrainedCase(
        "a folder without tables",
        "predict.py",
        "csv",
        ["ckpt=RUN", "input=nothing"],
        (".csv",),
        prepare=lambda f: (f / "nothing").mkdir(),
    ),
    TrainedCase(
        "predictions where a file is",
        "predict.py",
        "csv",
        ["ckpt=RUN", "input=a.csv", "output=taken"],
        ("taken",),
        prepare=lambda f: ((f / "taken").touch(), (f / "a.csv").write_text("a,b\n1,2\n")),
    ),
    TrainedCase(
        "predictions without permission",
        "predict.py",
        "csv",
        ["ckpt=RUN", "input=a.csv", "output=locked/results"],
        ("locked",),
        prepare=lambda f: ((f / "locked").mkdir(), (f / "locked").chmod(0o500), (f / "a.csv").write_text("a,b\n1,2\n")),
        code=1,
    ),
    *(
        TrainedCase(
            f"{run} {name}",
            "predict.py",
            run,
            ["ckpt=RUN", "input=odd.png"],
            ("odd.png",),
            prepare=lambda f, write=write: write(f / "odd.png"),
        )
        for run in ("pictures", "scenes")
        for name, write in (
            ("a file of 0 bytes", lambda path: path.write_bytes(b"")),
            ("a picture of 0 x 0", odd.without_pixels),
            ("a picture of 100 megapixels", odd.hundred_megapixels),
            ("a text", lambda path: path.write_text("hello")),
            ("half a picture", lambda path: (odd.noise(path), bad.truncate(path, 0.6))),
            ("a picture without permission", lambda path: (odd.noise(path), path.chmod(0))),
        )
    ),
    *(
        TrainedCase(
            f"{run} an animated picture",
            "predict.py",
            run,
            ["ckpt=RUN", "input=odd.gif"],
            ("odd.gif", "animated"),
            prepare=lambda f: bad.animated(f / "odd.gif"),
        )
        for run in ("pictures", "scenes")
    ),
    TrainedCase(
        "an image that takes too much memory",
        "predict.py",
        "scenes",
        ["ckpt=RUN", "input=odd.png", "memory=0.001"],
        ("odd.png", "memory", "max_size"),
        prepare=lambda f: odd.noise(f / "odd.png", (600, 800)),
    ),
]

REPORTS = [
    TrainedCase(
        "a report without permission",
        "concrete_dropout.report",
        "toy",
        ["RUN"],
        ("report.html",),
        lambda run: ((run / "report.html").unlink(missing_ok=True), run.chmod(0o500)),
    ),
]

TRAINED = [*checkpoints(), *OF_OTHERS, *EVALUATE, *PREDICT, *REPORTS]


def prepared(case: TrainedCase, runs: Runs, folder: Path) -> list[str]:
    """The files of a case; returns its arguments."""
    copy = runs.copy(case.run, folder / "a run")
    if case.run == "csv":
        shutil.copy(runs.place / "csv" / "my table.csv", folder)
    case.prepare(folder)
    case.tamper(copy)
    return [argument.replace(RUN, str(copy)) for argument in case.arguments]
