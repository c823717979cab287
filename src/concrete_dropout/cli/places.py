"""Where earlier runs and sweeps of a command are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from concrete_dropout.cli.compose import compose_with_hydra, hydra_as_before
from concrete_dropout.cli.overrides import text_of
from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import CHECKPOINTS

DEFAULT_EXPERIMENT = "synthetic"


def sweeps_of(overrides: Sequence[str], conf_dir: Path) -> Path:
    """The folder in which sweeps of a command have theirs."""
    plain = [entry for entry in overrides if entry.partition("=")[0] in ("experiment", "paths.output_dir")]
    with hydra_as_before():
        cfg = compose_with_hydra(plain, conf_dir)
        return Path(str(cfg.hydra.sweep.dir)).parent


def last_checkpoint(arguments: Sequence[str]) -> Path:
    """The newest last.ckpt among runs of the experiment that the arguments name, or that of their ``hydra.run.dir``.

    Raises:
        UserError: there is none.
    """
    given = {entry.partition("=")[0]: text_of(entry) for entry in arguments}
    if "hydra.run.dir" in given:
        places, found = given["hydra.run.dir"], [Path(given["hydra.run.dir"]) / CHECKPOINTS / "last.ckpt"]
    else:
        output_dir = given.get("paths.output_dir") or os.environ.get("OUTPUT_DIR") or "outputs"
        place = Path(output_dir) / given.get("experiment", DEFAULT_EXPERIMENT)
        places, found = str(place), list(place.glob(f"*/{CHECKPOINTS}/last.ckpt"))
    found = [path for path in found if path.is_file()]
    if not found:
        raise UserError(f"ckpt_path=last: there is no checkpoint of a run in {places}. Name one with ckpt_path=PATH")
    return max(found, key=lambda path: path.stat().st_mtime)
