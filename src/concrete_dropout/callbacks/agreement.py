"""All processes of a run are about the same run: checked before the first step."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl

from concrete_dropout.callbacks.evaluation import gathered
from concrete_dropout.errors import UserError

SHOWN = 5


class SameConfig(pl.Callback):
    """Refuses to start where processes hold different configs.

    They would train something without an error: gradients of different priors, say, or of different data.

    Args:
        config: of this process, resolved, in plain containers.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = dict(config)

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Compare."""
        self._check(trainer)

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Compare."""
        self._check(trainer)

    def _check(self, trainer: pl.Trainer) -> None:
        if len(set(gathered(trainer, config_hash(self.config)))) == 1:
            return
        own = {key: json.dumps(value, default=str) for key, value in _flat(self.config).items()}
        values = gathered(trainer, own)
        differing = sorted(key for key in set().union(*values) if len({ranks.get(key) for ranks in values}) > 1)
        shown = "; ".join(f"{key}: {', '.join(str(ranks.get(key)) for ranks in values)}" for key in differing[:SHOWN])
        more = f" and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
        raise UserError(
            f"the {trainer.world_size} processes of this run have different configs, by rank: {shown}{more}. Give all "
            "of them the same command, with hydra.run.dir=... where it is not train.py that starts them"
        )


def config_hash(config: Mapping[str, Any]) -> str:
    """A short name of a config's content; the order of keys does not count.

    >>> config_hash({"a": 1, "b": [2]}) == config_hash({"b": [2], "a": 1}) != config_hash({"a": 1, "b": [3]})
    True
    """
    return hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _flat(node: Any, key: str = "") -> dict[str, Any]:
    if not isinstance(node, Mapping) or not node:
        return {key: node}
    entries = (_flat(value, f"{key}.{name}" if key else str(name)) for name, value in node.items())
    return {name: value for part in entries for name, value in part.items()}
