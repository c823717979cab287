"""What predictions are asked for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from concrete_dropout.dropout.streams import Mask

MissingRows = Literal["error", "mean", "skip"]
UnknownCategories = Literal["error", "zeros"]
VERSION = 1  # of the files that are written: raised when the same settings would give other ones


@dataclass(frozen=True)
class Settings:
    """How to predict; everything in it changes the results.

    Attributes:
        samples: stochastic passes; 0 for one without dropout.
        mask: of Concrete layers.
        seed: of the masks.
        interval: share of the predictive distribution that intervals of regression hold.
        max_size: pixels of the longer side that a segmentation network sees at the most; None for any.
        raw: whether segmentation writes uncertainties as arrays too.
        missing: regression: rows that miss a value.
        unknown: regression: categories that training did not have.
    """

    samples: int
    mask: Mask = "concrete"
    seed: int = 0
    interval: float = 0.95
    max_size: int | None = None
    raw: bool = True
    missing: MissingRows = "error"
    unknown: UnknownCategories = "error"

    def fingerprint(self, model: str) -> str:
        """A text that differs whenever results would; ``model`` stands for the network and its weights."""
        content: Mapping[str, Any] = {"version": VERSION, "model": model, **asdict(self)}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
