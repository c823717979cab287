"""Small trained runs whose training data are gone: checkpoints alone must do."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.vision_files import write_pictures, write_scene_folder

from concrete_dropout.cli.build import build_data
from concrete_dropout.cli.compose import compose_config
from concrete_dropout.cli.run import run

CONF = Path(__file__).parents[2] / "conf"
TINY = ["trainer=cpu", "trainer.max_steps=6", "logger=none", "test=false", "task.val_samples=1", "callbacks={}"]
DENSENET = ["model=fc_densenet_small", "model.blocks=[1,1,1]", "model.growth=4", "model.first_filters=8"]
RUNS = {
    "csv": ["experiment=csv", "data.path=DATA/table.csv", "data.target=price", "model.hidden=[16]"],
    "pictures": [
        "experiment=image_folder",
        "data.root=DATA/pictures",
        "model=mlp",
        "model.hidden=[16]",
        "dropout.place=null",
    ],
    "scenes": [
        "experiment=seg_folder",
        "data.root=DATA/scenes",
        "data.classes=[road,sky]",
        "dropout.place=null",
        *DENSENET,
    ],
    "fixed": ["experiment=synthetic", "model.hidden=[8]", "dropout=fixed", "data.num_data=20"],
    "none": ["experiment=digits", "model.hidden=[8]", "dropout=none"],
}
MORE = {
    "csv": ["data.min_steps_per_epoch=6", "task.test_samples=20"],
    "pictures": ["data.image_size=[12,16]", "task.test_samples=7"],
    "scenes": ["data.scale=0.5", "data.normalise=standardise", "data.crop=16", "data.cache_dir=DATA/cache"],
}


@dataclass(frozen=True)
class Run:
    """A run, and what its data module knew.

    Attributes:
        folder: of the run.
        data: the data module, with all in memory.
        files: inputs of the kind that the network takes.
    """

    folder: Path
    data: Any
    files: Path

    @property
    def ckpt(self) -> str:
        return f"ckpt={self.folder}"


def write_table(path: Path, rng: np.random.Generator, rows: int = 60) -> None:
    ages, kinds = rng.uniform(0, 15, rows), rng.integers(0, 3, rows)
    noise = rng.standard_normal(rows)
    lines = [
        f"{age:.3f},{['red', 'blue', 'dark green'][kind]},note {row},{20000 - 900 * age + 400 * kind + 300 * e:.1f}"
        for row, (age, kind, e) in enumerate(zip(ages, kinds, noise, strict=True))
    ]
    path.write_text("\n".join(["age,colour,remark,price", *lines]) + "\n")


class Trained:
    """Runs that are made when they are first asked for."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._made: dict[str, Run] = {}

    def __call__(self, name: str) -> Run:
        if name not in self._made:
            self._made[name] = self._train(name)
        return self._made[name]

    def _train(self, name: str) -> Run:
        folder, data, files = (self.place / name / part for part in ("run", "data", "files"))
        data.mkdir(parents=True)
        rng = np.random.default_rng(0)
        write_table(data / "table.csv", rng)
        write_pictures(data / "pictures", rng)
        write_scene_folder(data / "scenes", rng)
        overrides = [*RUNS[name], *MORE.get(name, []), *TINY]
        if name == "csv":
            overrides.append("data.features=[age,colour]")
        cfg = compose_config([entry.replace("DATA", str(data)) for entry in overrides], CONF, run_dir=folder)
        run(cfg, folder, CONF)
        module = build_data(cfg)
        _ = module.spec
        kept = {"scenes": data / "scenes" / "test" / "images", "pictures": data / "pictures" / "test"}
        if name in kept:
            shutil.copytree(kept[name], files)
        else:
            files.mkdir()
            shutil.copy(data / "table.csv", files)
        shutil.rmtree(data)
        return Run(folder, module, files)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return Trained(tmp_path_factory.mktemp("trained"))
