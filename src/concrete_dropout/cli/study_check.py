"""Whether a finished run of a study is the run that the study asks for now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from concrete_dropout.cli.compose import config_diff, plain
from concrete_dropout.cli.paths import shortest
from concrete_dropout.cli.study_plan import text
from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import CONFIG

# What changes no result: where things are, who is told, how it is computed, and settings of another kind of dropout.
IMMATERIAL = (
    "ckpt_path",
    "hydra",
    "logger",
    "name",
    "objective",
    "paths",
    "resume",
    "study",
    "sweep",
    "threads",
    "data.data_dir",
    "data.num_workers",
)
OF_OTHER_KINDS = {
    "none": ("dropout.p", "dropout.init_p", "dropout.temperature", "dropout.mask"),
    "fixed": ("dropout.init_p", "dropout.temperature", "dropout.mask"),
    "concrete": ("dropout.p",),
}
SHOWN = 3


def check_finished(cfg: DictConfig, place: Path) -> None:
    """Refuse a finished run in ``place`` that was made with another config than ``cfg``.

    Raises:
        UserError: names the keys, and the way out.
    """
    made = _read(place / CONFIG)
    if made is None:  # nothing to compare with
        return
    wanted = OmegaConf.to_container(OmegaConf.create(OmegaConf.to_yaml(OmegaConf.create(plain(cfg)))))
    unused = (*IMMATERIAL, *OF_OTHER_KINDS.get(str(cfg.dropout.kind), ()))
    changes = [change for change in config_diff(made, wanted) if not _is_among(change["key"], unused)]
    if changes:
        others = f" and {len(changes) - SHOWN} more" if len(changes) > SHOWN else ""
        before, now = (
            ", ".join(f"{change['key']}={text(change[side])}" for change in changes[:SHOWN]) + others
            for side in ("default", "value")
        )
        raise UserError(
            f"{shortest(place)} is finished, but was made with {before}, and this command asks for {now}. Take a new "
            "folder, or delete that one to make the run again"
        )


def _is_among(key: str, names: tuple[str, ...]) -> bool:
    return key.endswith(".folder") or any(key == name or key.startswith(f"{name}.") for name in names)


def _read(path: Path) -> Any:
    try:
        return OmegaConf.to_container(OmegaConf.load(path))
    except Exception:  # no such file, or none that YAML or OmegaConf can read
        return None
