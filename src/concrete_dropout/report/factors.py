"""What varies between the runs of a study: keys of the config, in words and, where that makes sense, in numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from concrete_dropout.report.record import finite
from concrete_dropout.report.replica_record import REPEATS
from concrete_dropout.report.text import plain

# key -> what it is called on an axis
WORDS = {
    "data.train_size": "Training points N",
    "data.num_data": "Training points N",
    "data.name": "Data set",
    "data.scale": "Scale of the images",
    "model.hidden": "Hidden units per layer",
    "dropout.kind": "Dropout",
    "dropout.length_scale": "Prior length scale l",
    "dropout.init_p": "Initial p",
    "dropout.p": "Fixed p",
    "dropout.temperature": "Temperature t",
    "optim.lr": "Learning rate",
    "optim.p_lr": "Learning rate of p",
    "task.train_samples": "Masks per training step",
    "trainer.max_steps": "Training steps",
}
# key -> how it is written in front of a value
SHORT = {
    "data.train_size": "N",
    "data.num_data": "N",
    "model.hidden": "width",
    "dropout.length_scale": "l",
    "dropout.p": "p",
    "dropout.temperature": "t",
}
KINDS = {"none": "no dropout", "fixed": "fixed", "concrete": "Concrete"}
WIDE = 8.0  # the largest number as a multiple of the smallest, from which on an axis is logarithmic


@dataclass(frozen=True)
class Factor:
    """A key of the config that varies and makes another experiment, not another repeat.

    Args:
        key: for example "data.train_size".
        values: that occur, in the order of the runs; numbers in their own order.
    """

    key: str
    values: tuple[Any, ...]

    @property
    def title(self) -> str:
        """In words."""
        last = self.key.rpartition(".")[2].replace("_", " ")
        return WORDS.get(self.key, last[:1].upper() + last[1:])

    @property
    def short(self) -> str:
        """In one word or two."""
        return SHORT.get(self.key, self.title[:1].lower() + self.title[1:])

    @property
    def is_numeric(self) -> bool:
        """Whether its values can stand on an axis."""
        numbers = {number_of(value) for value in self.values}
        return None not in numbers and len(numbers) == len(self.values) > 1

    @property
    def is_wide(self) -> bool:
        """Whether that axis should be logarithmic."""
        numbers = [found for value in self.values if (found := number_of(value)) is not None]
        return bool(numbers) and min(numbers) > 0 and max(numbers) >= WIDE * min(numbers)

    def word(self, value: Any) -> str:
        """A value, short."""
        return KINDS.get(str(value), str(value)) if self.key == "dropout.kind" else word_of(value)


def factors_of(runs: Iterable[dict[str, Any]]) -> tuple[Factor, ...]:
    """The factors of a study from the values of its runs; keys that only repeat an experiment are none.

    >>> [factor.values for factor in factors_of([{"n": 20, "seed": 0}, {"n": 3, "seed": 0}, {"n": 3, "seed": 1}])]
    [(3, 20)]
    """
    rows = list(runs)
    found = []
    for key in dict.fromkeys(key for row in rows for key in row):
        distinct = {plain(row[key]): row[key] for row in rows if key in row}
        if key not in REPEATS and len(distinct) > 1:
            factor = Factor(key, tuple(distinct.values()))
            ordered = sorted(factor.values, key=lambda value: number_of(value) or 0.0)
            found.append(Factor(key, tuple(ordered)) if factor.is_numeric else factor)
    return tuple(found)


def number_of(value: Any) -> float | None:
    """A value as a number: a list of equal numbers, such as widths of layers, is one of them.

    >>> number_of(0.5), number_of([64, 64, 64]), number_of([64, 32]), number_of("concrete"), number_of("5")
    (0.5, 64.0, None, None, None)
    """
    if isinstance(value, list):
        return number_of(value[0]) if value and all(entry == value[0] for entry in value) else None
    return None if isinstance(value, str) else finite(value)


def word_of(value: Any) -> str:
    """A value in a few characters.

    >>> word_of(50000), word_of(1e-4), word_of([512, 512, 512]), word_of([64, 32]), word_of(None)
    ('50,000', '0.0001', '3 × 512', '[64, 32]', 'null')
    """
    if isinstance(value, list) and len(value) > 1 and number_of(value) is not None:
        return f"{len(value)} × {word_of(value[0])}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:,}" if isinstance(value, int) or value >= 1000 else f"{value:g}"
    return plain(value)
