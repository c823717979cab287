"""What runs have in W&B, told from their files: the views refer to keys that are really there, and to no other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from concrete_dropout.plots.metrics import NO_MC

STAGES = ("test", "val")
# What tasks score, the most important first; a view has a panel for each that some run has.
SCORES = (
    "reward",
    "miou",
    "accuracy",
    "nll",
    "rmse",
    "calibration_rmse",
    "ece",
    "crps",
    "brier",
    "epistemic_std",
    "aleatoric_std",
    "mutual_information",
)
MAX_MEDIA = 12
P_TABLE = "tables/dropout_p"
P_SCALARS = "dropout_p/"
STEP = "trainer/global_step"
KIND, INIT_P = "dropout.kind", "dropout.init_p"


@dataclass(frozen=True)
class Keys:
    """Names in W&B.

    Args:
        scalars: of metrics with their stage, "test/nll" for example.
        layers: of dropout; their p are ``dropout_p/<layer>``.
        tables: of curves, "tables/reliability_test" for example.
        media: of pictures.
    """

    scalars: tuple[str, ...]
    layers: tuple[str, ...]
    tables: tuple[str, ...]
    media: tuple[str, ...]

    def scored(self, stage: str) -> list[str]:
        """The metrics of a stage that views show, in their order."""
        return [f"{stage}/{name}" for name in SCORES if f"{stage}/{name}" in self.scalars]


def keys_of(rows: Iterable[Mapping[str, Any]]) -> Keys:
    """The keys of runs, from the rows of the dashboard's table."""
    runs = list(rows)
    scalars = dict.fromkeys(name for run in runs for name in run["metrics"] if not name.endswith(NO_MC))
    layers = dict.fromkeys(layer for run in runs if "p" in run["has"] for layer in run["layers"])
    curves = {curve for run in runs for curve in run["curves"]}
    media = {name for run in runs for name in run["media"]}
    tables = [*([P_TABLE] if layers else []), *(f"tables/{curve}" for curve in sorted(curves))]
    return Keys(tuple(scalars), tuple(layers), tuple(tables), tuple(sorted(media)[:MAX_MEDIA]))
