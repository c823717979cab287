"""Validation and test rows carved out of a table at random, reproducibly by a seed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from concrete_dropout.errors import UserError

Rows = npt.NDArray[np.int64]


def carve(
    num_rows: int,
    fractions: Mapping[str, float],
    seed: tuple[int, ...],
    source: str,
    keep: int = 1,
    unit: str = "rows",
) -> tuple[Rows, ...]:
    """Disjoint random sets of row numbers, each sorted: one per fraction, then what remains.

    A fraction above 0 gets at least one row.

    Args:
        num_rows: of the table.
        fractions: config key -> share of the rows.
        seed: of numpy's generator.
        source: what the rows are from, for the message.
        keep: rows that must remain.
        unit: what they are called in the message.

    >>> val, train = carve(5, {"data.val_fraction": 0.4}, seed=(0,), source="a table")
    >>> len(val), len(train)
    (2, 3)
    """
    sizes = [max(1, round(share * num_rows)) if share > 0 else 0 for share in fractions.values()]
    if num_rows - sum(sizes) < keep:
        taken = " and ".join(
            f"{key}={share:g} takes {size}" for (key, share), size in zip(fractions.items(), sizes, strict=True)
        )
        raise UserError(
            f"{source} has {num_rows} {unit}, of which {taken}: at least {keep} must remain for training. "
            f"Add {unit} or lower the fractions (0 leaves a part out)."
        )
    order = np.random.default_rng(seed).permutation(num_rows)
    return tuple(np.sort(rows) for rows in np.split(order, np.cumsum(sizes)))
