"""What a user may get wrong, and what the message must name. ``*``: any exit code but 0, and no traceback."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image
from tests.hardening import bad_files as bad

SMALL = (
    "trainer=cpu logger=none data.num_data=40 data.num_val=30 data.num_test=20 model.hidden=[8] trainer.max_steps=4 "
    "task.val_samples=2 task.test_samples=2 callbacks.uncertainty.band_samples=2"
).split()
STEPS = ["trainer=cpu", "logger=none", "trainer.max_steps=2", "trainer.max_epochs=-1"]
CSV = ["experiment=csv", *STEPS, "data.path=my table.csv", "data.target=y", "model.hidden=[8]", "task.test_samples=2"]
PICTURES = [
    "experiment=image_folder",
    *STEPS,
    "data.root=pictures",
    "data.image_size=32",
    "model=mlp",
    "dropout.place=null",
    "task.test_samples=2",
]
SCENES = ["experiment=seg_folder", *STEPS, "data.root=scenes", "data.classes=[road,sky]", "data.cache_dir=cache"]
SCENES += ["data.crop=32", "model=fc_densenet_small", "dropout.place=null", "task.test_samples=2"]
CAMVID = ["experiment=camvid_small", *STEPS, "paths.data_dir=data", "data.download=false", "data.cache_dir=cache"]
MNIST = [
    "experiment=mnist",
    *STEPS,
    "paths.data_dir=data",
    "data.download=false",
    "data.val_size=10",
    "model.hidden=[8]",
]
UCI = ["experiment=uci", *STEPS, "paths.data_dir=data", "data.download=false", "data.name=mine", "model.hidden=[8]"]

Prepare = Callable[[Path], object]


@dataclass(frozen=True)
class Case:
    """A command that must be refused.

    Attributes:
        name: of the test.
        arguments: behind ``python train.py``, or another script.
        named: what the message must name: key, file or value.
        prepare: makes files in the working directory.
        code: the exit code.
        script: the entry point.
    """

    name: str
    arguments: list[str]
    named: tuple[str, ...]
    prepare: Prepare = field(default=lambda folder: None)
    code: int = 2
    script: str = "train.py"


def values(key: str, *settings: str, also: tuple[str, ...] = ()) -> list[Case]:
    """The small default run with one setting that is wrong, several times."""
    return [Case(f"{key}={value}", [*SMALL, *also, f"{key}={value}"], (key.rpartition(".")[2],)) for value in settings]


SETTINGS = [
    *values("dropout.init_p", "0", "1", "-0.1", "1.5", "abc", "[0.5,0.1]", "nan"),
    *values("dropout.p", "1", "-0.2", "nan", also=("dropout=fixed",)),
    *values("dropout.temperature", "0", "-1", "nan"),
    *values("dropout.length_scale", "0", "-1", "inf"),
    *values("dropout.length_scale_mode", "cubic"),
    *values("dropout.mask", "soft"),
    *values("dropout.include", "[nothing.*]"),
    *values("dropout.exclude", "[nothing.*]"),
    *values("dropout.place", "[nothing.*]"),
    *values("dropout.owners", "{layers.0:nothing}"),
    *values("dropout.kind", "sometimes"),
    *values("data.batch_size", "0", "-4", "2.5", "many"),
    *values("data.num_data", "0", "-3"),
    *values("data.noise", "-1", "nan"),
    *values("optim.lr", "-1", "nan", "fast"),
    *values("optim.p_lr", "-1"),
    *values("optim.schedule", "magic"),
    *values("trainer.max_steps", "-5", "ten"),
    *values("task.train_samples", "0", "1.5"),
    *values("task.test_samples", "-1"),
    *values("task.kl_weight", "-1", "nan"),
    *values("task.noise", "loud"),
    *values("model.hidden", "[0]", "[-3]", "[8.5]", "wide"),
    *values("seed", "-1", "abc", "1e30"),
    *values("threads", "0", "-2"),
    *values("test_ckpt", "worst"),
    Case("unknown key", [*SMALL, "sed=1"], ("sed", "seed")),
    Case("unknown key three levels deep", [*SMALL, "callbacks.uncertainty.band_smaples=5"], ("band_smaples",)),
    Case("unknown key of a model", [*SMALL, "model.hiden=[8]"], ("hiden", "hidden")),
    Case("unknown experiment", ["experiment=cifar"], ("cifar", "mnist")),
    Case("unknown choice", [*SMALL, "dropout=spike"], ("spike", "concrete")),
    Case("option with dashes", ["--epochs", "3"], ("--epochs",)),
    Case("a wrong value in a sweep", ["-m", *SMALL, "dropout.init_p=0.1,2"], ("init_p",)),
    Case("resume of a single run", [*SMALL, "resume=true"], ("resume", "ckpt_path")),
]

TABLES = [
    Case("missing table", CSV, ("my table.csv",)),
    Case("empty table", CSV, ("my table.csv",), lambda f: bad.table(f, "")),
    Case("header only", CSV, ("my table.csv",), lambda f: bad.table(f, "a,b,y\n")),
    Case("one row", CSV, ("my table.csv",), lambda f: bad.table(f, "a,b,y\n1,2,3\n")),
    Case("no target", [*CSV, "data.target=z"], ("z", "y"), lambda f: bad.table(f, bad.good_table())),
    Case("NaN in a feature", CSV, ("my table.csv", "a", "8"), lambda f: bad.table(f, bad.changed_cell(0, "nan"))),
    Case("infinite target", CSV, ("my table.csv", "y", "8"), lambda f: bad.table(f, bad.changed_cell(2, "inf"))),
    Case("empty cell", CSV, ("my table.csv", "missing"), lambda f: bad.table(f, bad.changed_cell(1, ""))),
    Case("text as target", CSV, ("my table.csv", "y"), lambda f: bad.table(f, bad.changed_cell(2, "much"))),
    Case("constant target", CSV, ("y",), lambda f: bad.table(f, bad.constant_column("y"))),
    Case("a row too short", CSV, ("my table.csv", "8"), lambda f: bad.table(f, bad.short_row())),
    Case("a column twice", CSV, ("my table.csv", "a"), lambda f: bad.table(f, bad.good_table().replace("b", "a", 1))),
    Case("not a table", CSV, ("my table.csv",), lambda f: (f / "my table.csv").write_bytes(bytes(range(256)) * 9)),
    Case("a folder as table", CSV, ("my table.csv",), lambda f: (f / "my table.csv").mkdir()),
    Case(
        "a feature that is not there", [*CSV, "data.features=[a,q]"], ("q",), lambda f: bad.table(f, bad.good_table())
    ),
    Case("the target as feature", [*CSV, "data.features=[a,y]"], ("y",), lambda f: bad.table(f, bad.good_table())),
    Case(
        "nothing left to train on",
        [*CSV, "data.val_fraction=0.6", "data.test_fraction=0.5"],
        ("fraction",),
        lambda f: bad.table(f, bad.good_table()),
    ),
    Case(
        "a table without permission",
        CSV,
        ("my table.csv",),
        lambda f: (bad.table(f, bad.good_table()), bad.without_permission(f / "my table.csv")),
    ),
]

SETS = [
    Case("no UCI set", UCI, ("mine",)),
    Case("a split that is not there", [*UCI, "data.split=7"], ("split", "7"), bad.uci),
    Case(
        "missing splits",
        [*UCI, "data.split=1"],
        ("index_train_1.txt",),
        lambda f: bad.remove(bad.uci(f) / "index_train_1.txt"),
    ),
    Case(
        "rows beyond the data",
        UCI,
        ("index_test_0.txt",),
        lambda f: (bad.uci(f) / "index_test_0.txt").write_text("500\n"),
    ),
    Case("text in a UCI set", UCI, ("data.txt",), lambda f: (bad.uci(f) / "data.txt").write_text("1 2 three\n")),
    Case("an unknown UCI set", [*UCI, "data.name=bosten"], ("bosten", "boston"), bad.uci),
    Case("no MNIST", MNIST, ("mnist", "download")),
    Case(
        "truncated idx file",
        MNIST,
        ("train-images",),
        lambda f: bad.truncate(bad.mnist(f) / "train-images-idx3-ubyte.gz"),
    ),
    Case(
        "an idx file of another kind",
        MNIST,
        ("train-labels",),
        lambda f: shutil.copy(bad.mnist(f) / "train-images-idx3-ubyte.gz", f / "data/mnist/train-labels-idx1-ubyte.gz"),
    ),
    Case("more pictures than there are", [*MNIST, "data.train_size=1000"], ("train_size",), bad.mnist),
    Case("no pictures to train on", [*MNIST, "data.val_size=60"], ("val_size",), bad.mnist),
    Case("no CamVid", CAMVID, ("camvid", "download")),
    Case("an empty CamVid list", CAMVID, ("val.txt",), lambda f: (bad.camvid(f) / "val.txt").write_text("")),
    Case(
        "a CamVid image is missing", CAMVID, ("train_1.png",), lambda f: bad.remove(bad.camvid(f) / "train/train_1.png")
    ),
    Case(
        "a CamVid label beyond the classes",
        CAMVID,
        ("train_1.png",),
        lambda f: Image.fromarray(np.full((36, 48), 77, np.uint8)).save(bad.camvid(f) / "trainannot/train_1.png"),
    ),
]

IMAGES = [
    Case("no folder of pictures", PICTURES, ("pictures",)),
    Case("an empty folder of pictures", PICTURES, ("pictures",), lambda f: (f / "pictures").mkdir()),
    Case("one class", PICTURES, ("cat",), lambda f: [bad.remove(bad.pictures(f) / part / "dog") for part in ["train"]]),
    Case("a truncated picture", PICTURES, ("2.png",), lambda f: bad.truncate(bad.pictures(f) / "train/cat/2.png", 0.6)),
    Case("an empty picture", PICTURES, ("2.png",), lambda f: (bad.pictures(f) / "train/cat/2.png").write_bytes(b"")),
    Case("an animated picture", PICTURES, ("2.gif",), lambda f: bad.animated(bad.pictures(f) / "train/cat/2.gif")),
    Case(
        "a picture of 200 megapixels", PICTURES, ("2.png",), lambda f: bad.enormous(bad.pictures(f) / "train/cat/2.png")
    ),
    Case(
        "a picture without permission",
        PICTURES,
        ("2.png",),
        lambda f: bad.without_permission(bad.pictures(f) / "train/cat/2.png"),
    ),
    Case(
        "a folder without permission", PICTURES, ("train",), lambda f: bad.without_permission(bad.pictures(f) / "train")
    ),
    Case("no folder of scenes", SCENES, ("scenes",)),
    Case("a mask is missing", SCENES, ("1.png",), lambda f: bad.remove(bad.scenes(f) / "train/masks/1.png")),
    Case("a truncated mask", SCENES, ("1.png",), lambda f: bad.truncate(bad.scenes(f) / "train/masks/1.png", 0.6)),
    Case(
        "a label beyond the class list",
        SCENES,
        ("1.png", "7"),
        lambda f: Image.fromarray(np.full((36, 48), 7, np.uint8)).save(bad.scenes(f) / "train/masks/1.png"),
    ),
    Case(
        "image and mask of different sizes",
        SCENES,
        ("1.png",),
        lambda f: Image.fromarray(np.zeros((36, 40), np.uint8)).save(bad.scenes(f) / "train/masks/1.png"),
    ),
    Case("no classes", [*SCENES[:6], "data.cache_dir=cache"], ("classes",), bad.scenes),
    Case(
        "all is void",
        SCENES,
        ("void",),
        lambda f: [
            Image.fromarray(np.full((36, 48), 255, np.uint8)).save(path)
            for path in bad.scenes(f).glob("train/masks/*.png")
        ],
    ),
]

CHECKPOINTS = [
    Case("no checkpoint", [*SMALL, "ckpt_path=gone.ckpt"], ("gone.ckpt",)),
    Case(
        "a text as checkpoint", [*SMALL, "ckpt_path=a.ckpt"], ("a.ckpt",), lambda f: (f / "a.ckpt").write_text("hello")
    ),
    Case("an empty checkpoint", [*SMALL, "ckpt_path=a.ckpt"], ("a.ckpt",), lambda f: (f / "a.ckpt").touch()),
    Case("a folder as checkpoint", [*SMALL, "ckpt_path=a.ckpt"], ("a.ckpt",), lambda f: (f / "a.ckpt").mkdir()),
    Case(
        "a malicious checkpoint",
        [*SMALL, "ckpt_path=a.ckpt"],
        ("a.ckpt",),
        lambda f: bad.malicious_checkpoint(f / "a.ckpt"),
    ),
    Case("a bare pickle", [*SMALL, "ckpt_path=a.ckpt"], ("a.ckpt",), lambda f: bad.pickled(f / "a.ckpt")),
    Case("nothing to go on with", ["ckpt_path=last", "paths.output_dir=nothing"], ("last",)),
]

PLACES = [
    Case(
        "an output folder that is a file", [*SMALL, "hydra.run.dir=taken"], ("taken",), lambda f: (f / "taken").touch()
    ),
    Case(
        "an output folder without permission",
        [*SMALL, "hydra.run.dir=locked/run"],
        ("locked",),
        lambda f: ((f / "locked").mkdir(), (f / "locked").chmod(0o500)),
    ),
    Case(
        "a data folder without permission",
        [*UCI],
        ("data",),
        lambda f: (bad.uci(f), bad.without_permission(f / "data")),
    ),
    Case("an unknown environment", ["experiment=control", "env.id=Nowhere-v0", "logger=none"], ("Nowhere-v0",)),
    Case(
        "a reward that cannot be imported",
        ["experiment=control", "env.reward=nowhere.reward", "logger=none"],
        ("nowhere",),
    ),
    Case("no episodes", ["experiment=cartpole", "agent.episodes=0", "logger=none"], ("episodes",)),
]

CASES = [*SETTINGS, *TABLES, *SETS, *IMAGES, *CHECKPOINTS, *PLACES]
