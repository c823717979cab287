"""What a dropout masks, in plain names and numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Owner:
    """A weight masked by a dropout: its name, and the number of input features it has (K_in)."""

    weight: str
    fan_in: int


@dataclass(frozen=True)
class Site:
    """What one call of a dropout masks: weights that share the mask, and its number of entries (K)."""

    owners: tuple[Owner, ...]
    num_entries: int
    side: str  # "columns" of its consumers, or "rows" of its producer


@dataclass(frozen=True)
class FunctionalCall:
    """A dropout that is no module, but called by one (``F.dropout``, inside of an LSTM): out of a swap's reach."""

    module: str
    function: str
    p: float

    def __str__(self) -> str:
        return f"{self.function}(p={self.p:g}) in {self.module or 'the model itself'}"
