"""More that a user may get wrong: kinds of files, amounts of memory, grids, worlds of agents, other commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from tests.hardening import bad_files as bad
from tests.hardening import bad_pictures as odd
from tests.hardening.cases import CSV, IMAGES, MNIST, PICTURES, SCENES, SMALL, UCI, Case, values

REPORT = "concrete_dropout.report"
CONTROL = ["experiment=control", "logger=none", "trainer=cpu", "agent.episodes=1", "agent.random_episodes=1"]

WORLD = """
import gymnasium
import numpy as np

class Broken(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.full(2, np.nan, np.float32), 0.0, False, False, {}

gymnasium.register("Broken-v0", Broken)
"""


def uci_file(name: str, text: str) -> object:
    return lambda folder: (bad.uci(folder) / name).write_text(text)


MEMORY = [
    *values("data.batch_size", "1000000000000"),
    *values("task.train_samples", "1000000000000"),
    Case("more data than fit", [*SMALL, "data.num_data=1000000000000"], ("memory", "data"), code=2),
    Case("a model that does not fit", [*SMALL, "model.hidden=[10000000,10000000]"], ("memory", "model"), code=2),
    Case(
        "an M step that does not fit",
        [*SMALL, "task.noise=homoscedastic", "task.final_m_step=true", "task.val_samples=1000000000"],
        ("val_samples",),
    ),
]

DEEPER = [
    Case("an unknown key four levels deep", ["experiment=cartpole", "agent.search.scouting.foo=1"], ("foo",)),
    Case("an unknown key with +", [*SMALL, "+model.hiden=[8]"], ("hiden", "hidden")),
    Case("an unknown group", [*SMALL, "modle=mlp"], ("modle", "model")),
    Case("an unknown target", [*SMALL, "model._target_=nowhere.Net"], ("nowhere.Net", "model")),
    Case("an owner that is no layer", [*SMALL, "dropout.owners={layers.0:[a,b]}"], ("layers.0",)),
    Case("owners of nothing", [*SMALL, "dropout.owners={nothing:layers.0}"], ("nothing", "owners")),
    Case("a study of an unknown key", [*SMALL, "study={grid:{dropout.pp:[0.1,0.2]}}"], ("dropout.pp",)),
    Case("a study of a wrong value", [*SMALL, "study={grid:{dropout.init_p:[0.1,2]}}"], ("init_p", "2")),
    Case("a study without values", [*SMALL, "study={grid:{seed:[]}}"], ("seed",)),
    Case("a study without a grid", [*SMALL, "study={gird:{seed:[1]}}"], ("grid",)),
    Case("a study that is a number", [*SMALL, "study=3"], ("study",)),
    Case("replicas of an unknown key", [*SMALL, "replicas.grid={model.hidden:[[8],[9]]}"], ("model.hidden",)),
    Case("replicas of nothing", [*SMALL, "replicas.grid={seed:3}"], ("seed",)),
    Case("an unknown sweep", ["-m", *SMALL, "sweep=everything"], ("everything",)),
    Case("a sweep of an unknown key", ["-m", *SMALL, "dropout.pp=1,2"], ("dropout.pp",)),
    Case("several values without -m", [*SMALL, "seed=1,2"], ("seed=1,2", "-m")),
]

KINDS = [
    Case("labels and pictures of different number", MNIST, ("labels", "60"), lambda f: odd.idx_labels(f, _digits(50))),
    Case("a label that is no digit", MNIST, ("labels", "12"), lambda f: odd.idx_labels(f, _digits(60, 12))),
    Case("labels as floats", MNIST, ("train-labels",), lambda f: odd.idx_labels(f, np.ones(60, ">f4"), kind=13)),
    Case("pictures of another shape", MNIST, ("28",), lambda f: odd.idx_images(f, (60, 14, 14))),
    Case("pictures without pixels", MNIST, ("train-images",), lambda f: odd.idx_images(f, (60, 0, 28))),
    Case("numbers that are too large", CSV, ("y",), lambda f: bad.table(f, bad.changed_cell(2, "1e308"))),
    Case("a header of numbers", CSV, ("my table.csv",), lambda f: bad.table(f, "1,2,3\n4,5,6\n7,8,9\n")),
    Case("one column", CSV, ("my table.csv",), lambda f: bad.table(f, "y\n1\n2\n3\n")),
    Case("two rows", CSV, ("my table.csv",), lambda f: bad.table(f, "a,b,y\n1,2,3\n2,3,5\n")),
    Case("UTF-16", CSV, ("UTF-16",), lambda f: (f / "my table.csv").write_bytes(bad.good_table().encode("utf-16"))),
    Case("a workbook", CSV, ("Excel",), lambda f: (f / "my table.csv").write_bytes(b"PK\x03\x04" + bytes(99))),
    Case("Latin-1", CSV, ("UTF-8", "line 1"), lambda f: (f / "my table.csv").write_bytes(b"\xe4,b,y\n1,2,3\n4,5,6\n")),
    Case(
        "a test table with other columns",
        [*CSV, "data.test_path=other.csv"],
        ("other.csv", "b"),
        lambda f: (bad.table(f, bad.good_table()), (f / "other.csv").write_text("a,y\n1,2\n3,4\n")),
    ),
    Case("no test table", [*CSV, "data.test_path=other.csv"], ("other.csv",), lambda f: bad.table(f, bad.good_table())),
    Case("rows of different lengths", UCI, ("data.txt", "line 2"), uci_file("data.txt", "1 2 3\n4 5\n")),
    Case("NaN in a UCI set", UCI, ("data.txt", "nan"), uci_file("data.txt", "1 2 nan\n" * 20)),
    Case("an empty UCI set", UCI, ("data.txt",), uci_file("data.txt", "")),
    Case("a column that is not there", UCI, ("index_features.txt", "9"), uci_file("index_features.txt", "0\n9\n")),
    Case("the target among the features", UCI, ("index_features.txt",), uci_file("index_features.txt", "0\n2\n")),
    Case("rows in both parts", UCI, ("split 0",), uci_file("index_test_0.txt", "3\n")),
    Case("half a row number", UCI, ("index_train_0.txt", "1.5"), uci_file("index_train_0.txt", "1.5\n2\n")),
    Case("how many splits is missing", UCI, ("n_splits.txt",), lambda f: bad.remove(bad.uci(f) / "n_splits.txt")),
    Case("no splits", UCI, ("n_splits.txt",), uci_file("n_splits.txt", "0\n")),
]

PICTURES_OF_ALL_KINDS = [
    Case(
        "a picture of 100 megapixels",
        PICTURES,
        ("2.png", "80"),
        lambda f: odd.hundred_megapixels(bad.pictures(f) / "train/cat/2.png"),
    ),
    Case(
        "floats as picture",
        PICTURES,
        ("2.tif",),
        lambda f: odd.as_tiff(bad.pictures(f) / "train/cat/2.png", np.ones((9, 9), np.float32)),
    ),
    Case(
        "32 bits as picture",
        PICTURES,
        ("2.tif",),
        lambda f: odd.as_tiff(bad.pictures(f) / "train/cat/2.png", np.full((9, 9), 1 << 20, np.int32)),
    ),
    Case("a picture of 0 x 0", PICTURES, ("2.png",), lambda f: odd.without_pixels(bad.pictures(f) / "train/cat/2.png")),
    Case(
        "a text as picture", PICTURES, ("2.png",), lambda f: (bad.pictures(f) / "train/cat/2.png").write_text("hello")
    ),
    Case(
        "a link to nowhere",
        PICTURES,
        ("lost.png",),
        lambda f: (bad.pictures(f) / "train/cat/lost.png").symlink_to(f / "nowhere.png"),
    ),
    Case(
        "a class of its own in validation",
        PICTURES,
        ("bird",),
        lambda f: (bad.pictures(f) / "val/cat").rename(f / "pictures/val/bird"),
    ),
    Case("a class without pictures", PICTURES, ("bird",), lambda f: (bad.pictures(f) / "train/bird").mkdir()),
    Case("pictures of no size", [*PICTURES, "data.image_size=0"], ("image_size",), bad.pictures),
    Case("crops of no size", [*SCENES, "data.crop=0"], ("crop",), bad.scenes),
    Case("no scale", [*SCENES, "data.scale=0"], ("scale",), bad.scenes),
    Case("a class twice", [*SCENES, "data.classes=[road,road]"], ("road",), bad.scenes),
    Case("a mask in colours", SCENES, ("1.png", "colour"), lambda f: _colours().save(odd.mask(f))),
    Case("floats as mask", SCENES, ("1.tif",), lambda f: odd.as_tiff(odd.mask(f), np.ones((36, 48), np.float32))),
    Case("an animated mask", SCENES, ("1.gif",), lambda f: _animated_mask(f)),
    Case("an empty mask", SCENES, ("1.png",), lambda f: odd.mask(f).write_bytes(b"")),
    Case("a mask of 100 megapixels", SCENES, ("1.png", "80"), lambda f: odd.hundred_megapixels(odd.mask(f))),
    Case(
        "an image of 100 megapixels",
        SCENES,
        ("1.png", "80"),
        lambda f: odd.hundred_megapixels(bad.scenes(f) / "train/images/1.png"),
    ),
    Case(
        "a mask without an image",
        SCENES,
        ("1.png",),
        lambda f: bad.remove(bad.scenes(f) / "train/images/1.png"),
    ),
]

WORLDS = [
    Case("a reward that is no tensor", [*CONTROL, "env.reward=torch.numel"], ("env.reward", "differentiated")),
    Case("a reward that fails", [*CONTROL, "env.reward=torch.linalg.det"], ("env.reward",)),
    Case("discrete actions", [*CONTROL, "env.id=CartPole-v1"], ("CartPole-v1", "actions")),
    Case("scales of another number", [*CONTROL, "env.feature_scale=[1]"], ("feature_scale", "3")),
    Case(
        "states that are no numbers",
        [*CONTROL, "env.id=broken_world:Broken-v0", "env.reward=broken_reward.reward", "env.feature_scale=null"],
        ("observation 0",),
        lambda f: (
            (f / "broken_world.py").write_text(WORLD),
            (f / "broken_reward.py").write_text("def reward(states):\n    return states.sum(-1)\n"),
        ),
    ),
]

OTHERS = [
    Case("no folder of runs", ["nowhere"], ("nowhere",), script="dashboard.py"),
    Case("a file of runs", ["a.txt"], ("a.txt",), lambda f: (f / "a.txt").touch(), script="dashboard.py"),
    Case("no such port", [".", "--serve", "--port", "99999"], ("99999",), script="dashboard.py"),
    Case("another host", [".", "--serve", "--host", "0.0.0.0", "--port", "0"], ("0.0.0.0",), script="dashboard.py"),
    Case("an unknown option of the page", [".", "--follow"], ("--follow",), script="dashboard.py"),
    Case("no sweep", ["--sweep", "."], ("sweep",), script="dashboard.py"),
    Case(
        "a page without permission",
        [".", "--out", "locked/page"],
        ("locked",),
        lambda f: ((f / "locked").mkdir(), (f / "locked").chmod(0o500)),
        script="dashboard.py",
    ),
    Case("a report of nothing", ["nowhere"], ("nowhere",), script=REPORT),
    Case("a report of a folder without a run", ["."], ("run",), script=REPORT),
    Case("no checkpoint to evaluate", ["mc_samples=3"], ("ckpt",), script="evaluate.py"),
    Case("a word to evaluate", ["everything"], ("everything",), script="evaluate.py"),
    Case("no checkpoint there", ["ckpt=gone.ckpt"], ("gone.ckpt",), script="evaluate.py"),
    Case("no checkpoint to predict with", ["input=a.csv"], ("ckpt",), script="predict.py"),
    Case("nothing to predict", ["ckpt=a.ckpt"], ("input",), script="predict.py"),
    Case("no checkpoint for files", ["ckpt=gone.ckpt", "input=."], ("gone.ckpt",), script="predict.py"),
]


def _digits(number: int, last: int = 9) -> np.ndarray:
    return np.append(np.arange(number - 1) % 10, last).astype(np.uint8)


def _colours() -> Image.Image:
    return Image.fromarray(bad.generator().integers(0, 256, (36, 48, 3), dtype=np.uint8))


def _animated_mask(folder: Path) -> None:
    path = odd.mask(folder)
    path.unlink()
    bad.animated(path.with_suffix(".gif"))


MORE = [*MEMORY, *DEEPER, *KINDS, *PICTURES_OF_ALL_KINDS, *WORLDS, *OTHERS]
assert not {case.name for case in MORE} & {case.name for case in IMAGES}
