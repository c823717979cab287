"""What every regression data set has in common: parts, standardisation, batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from concrete_dropout.data.base import Part
from concrete_dropout.data.batches import Batch, TensorRows
from concrete_dropout.data.loaders import BatchedData, part_of
from concrete_dropout.errors import UserError
from concrete_dropout.scaling import Affine

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of one part in original units.

    Attributes:
        x: inputs (N, D).
        y: targets (N, O).
    """

    x: Matrix
    y: Matrix

    def __post_init__(self) -> None:
        if self.x.ndim != 2 or self.y.ndim != 2 or len(self.x) != len(self.y) or 0 in self.x.shape + self.y.shape:
            raise ValueError(f"x {self.x.shape} and y {self.y.shape} must be (N, D) and (N, O), none of them 0")

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True, eq=False)
class Tables:
    """The parts of a data set in original units; None where there is no such part."""

    train: Table
    val: Table | None
    test: Table | None
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]

    def parts(self) -> dict[Part, Table]:
        """The parts that there are, by name."""
        parts: dict[Part, Table | None] = {"train": self.train, "val": self.val, "test": self.test}
        return {name: table for name, table in parts.items() if table is not None}


@dataclass(frozen=True, eq=False)
class RegressionSpec:
    """What a model and a task need to know about the data.

    Attributes:
        num_train: N of the objective: rows of the whole training part.
        num_inputs: D.
        num_outputs: O.
        feature_names: D names.
        target_names: O names.
        inputs: standardisation of the inputs, fitted on the training part only.
        targets: standardisation of the targets, fitted on the training part only.
    """

    num_train: int
    num_inputs: int
    num_outputs: int
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    inputs: Affine
    targets: Affine


@dataclass(frozen=True, eq=False)
class _Loaded:
    tables: Tables
    spec: RegressionSpec
    tensors: dict[Part, Batch]


class RegressionData(BatchedData, ABC):
    """Batches (x, y), (B, D) and (B, O), of standardised float32 values.

    A subclass says where the rows come from. They are read once, on the first use of anything that needs them.

    Args:
        batch_size: rows of a training batch. Batches are always full, also where N is smaller.
        eval_batch_size: rows of a validation or test batch.
        num_workers: processes that make batches; 0 is fastest for data in memory.
        min_steps_per_epoch: an epoch has max(ceil(N / batch_size), this) batches, so that epochs of tiny data sets
            do not consist of overheads.
        seed: of everything random about the data; the order of training batches follows torch's global generator.
    """

    def __init__(
        self,
        *,
        batch_size: int = 32,
        eval_batch_size: int = 1000,
        num_workers: int = 0,
        min_steps_per_epoch: int = 1,
        seed: int = 0,
    ) -> None:
        super().__init__(
            batch_size=batch_size,
            eval_batch_size=eval_batch_size,
            num_workers=num_workers,
            min_steps_per_epoch=min_steps_per_epoch,
            seed=seed,
        )
        self._loaded: _Loaded | None = None

    @abstractmethod
    def load(self) -> Tables:
        """Read or make the rows, in original units; whatever the user can mend is a ``UserError``."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that have rows."""
        return tuple(self.tables.parts())

    @property
    def tables(self) -> Tables:
        """The rows in original units."""
        return self._state().tables

    @property
    def spec(self) -> RegressionSpec:
        """Sizes, names and scales."""
        return self._state().spec

    @property
    def example_input(self) -> Tensor:
        """(1, D): the first training row, standardised."""
        return self.tensors("train")[0][:1]

    @property
    def num_items(self) -> int:
        """Training rows."""
        return self.spec.num_train

    def tensors(self, part: Part) -> Batch:
        """All rows (x, y) of a part, standardised, in float32 and in the order of ``tables``."""
        return part_of(self._state().tensors, part)

    def items(self, part: Part, training: bool = False) -> TensorRows:
        """The rows of a part as the network gets them."""
        return TensorRows(*self.tensors(part))

    def _state(self) -> _Loaded:
        if self._loaded is None:
            self._loaded = standardise(self.load())
        return self._loaded


def standardise(tables: Tables) -> _Loaded:
    """Fit the scales on the training part and apply them to all parts."""
    inputs = fit_scale(tables.train.x, tables.feature_names)
    targets = fit_scale(tables.train.y, tables.target_names)
    tensors: dict[Part, Batch] = {}
    for part, table in tables.parts().items():
        x, y = inputs.normalise(torch.from_numpy(table.x)), targets.normalise(torch.from_numpy(table.y))
        for values, names in ((x, tables.feature_names), (y, tables.target_names)):
            if not values.isfinite().all():
                column = names[int((~values.isfinite()).any(0).nonzero()[0])]
                raise UserError(
                    f"Column {column!r} of the {part} part has values that are not finite, or too far from those of "
                    "the training part for float32. Correct or remove these rows."
                )
        tensors[part] = x, y
    spec = RegressionSpec(
        num_train=len(tables.train),
        num_inputs=len(tables.feature_names),
        num_outputs=len(tables.target_names),
        feature_names=tables.feature_names,
        target_names=tables.target_names,
        inputs=inputs,
        targets=targets,
    )
    return _Loaded(tables, spec, tensors)


def fit_scale(values: Matrix, names: tuple[str, ...]) -> Affine:
    """Standardisation of the columns (N, D); a constant column becomes exactly 0 and keeps its unit."""
    if values.shape[1] != len(names):
        raise ValueError(f"{values.shape[1]} columns, but {len(names)} names: {names}")
    columns = torch.from_numpy(values)
    fitted = Affine.fit(columns)
    # The rounded mean of equal values may differ from them, and that error would be blown up to unit variance.
    constant = columns.amax(0) == columns.amin(0)
    scale = Affine(
        torch.where(constant, columns[0], fitted.mean), torch.where(constant, torch.ones_like(fitted.std), fitted.std)
    )
    overflown = ~(scale.mean.isfinite() & scale.std.isfinite())
    if overflown.any():
        raise UserError(
            f"The values of column {names[int(overflown.nonzero()[0])]!r} are not finite, or too large to take a "
            "standard deviation of. Correct them, or give the column another unit."
        )
    return scale
