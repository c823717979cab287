"""Several data sets side by side, for networks that train as one: splits, seeds or sizes of one kind of data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from concrete_dropout.data.batches import Batch, as_is
from concrete_dropout.data.regression import RegressionData
from concrete_dropout.errors import UserError

Stage = Literal["val", "test"]
# The replica, the number of the batch within its data, and the batch (rows, D), (rows, O).
EvalBatch = tuple[int, int, Batch]


class ReplicatedData(pl.LightningDataModule):
    """Training batches (R, B, D) and (R, B, O); evaluation batches of one replica after the other.

    Every replica has its own shuffled passes over its own rows, as it would have alone. An epoch has as many
    batches as the largest data set needs; smaller ones begin new passes meanwhile.

    Args:
        replicas: data modules with the same batch size, D and O. The numbers of rows may differ.

    >>> from concrete_dropout.data import SyntheticData
    >>> data = ReplicatedData([SyntheticData(num_data=n, batch_size=4) for n in (3, 10)])
    >>> [tuple(x.shape) for x, y in data.train_dataloader()]
    [(2, 4, 1), (2, 4, 1), (2, 4, 1)]

    Raises:
        UserError: the data modules do not fit together.
    """

    def __init__(self, replicas: Sequence[RegressionData]) -> None:
        super().__init__()
        if not replicas:
            raise ValueError("replicated data need at least one data module")
        self.replicas = tuple(replicas)
        self.batch_size = self._common("data.batch_size", [data.batch_size for data in replicas])
        self._checked = False
        self._limit_val_batches: int | float | None = None

    def setup(self, stage: str | None = None) -> None:
        """Lightning's hook. A fit without validation rows skips the validation."""
        self._load()
        has_val = any(data.tables.val is not None for data in self.replicas)
        if stage == "fit" and not has_val and self.trainer is not None:
            # Lightning would warn about a loader without batches, and run an empty validation.
            self._limit_val_batches = self.trainer.limit_val_batches
            self.trainer.limit_val_batches = 0

    def teardown(self, stage: str) -> None:
        """Lightning's hook: the trainer gets back what ``setup`` changed."""
        if self._limit_val_batches is not None and self.trainer is not None:
            self.trainer.limit_val_batches = self._limit_val_batches
            self._limit_val_batches = None

    @property
    def num_train(self) -> list[int]:
        """N of each replica."""
        return [data.spec.num_train for data in self.replicas]

    @property
    def steps_per_epoch(self) -> int:
        """Training batches of an epoch: what the largest replica needs."""
        return max(data.steps_per_epoch for data in self.replicas)

    def train_dataloader(self) -> DataLoader[Batch]:
        """Full batches of every replica's shuffled rows."""
        self._load()
        parts = [data.tensors("train") for data in self.replicas]
        rows = StackedRows([x for x, _ in parts], [y for _, y in parts])
        sampler = StackedPasses(self.num_train, self.batch_size, self.steps_per_epoch)
        return DataLoader(rows, batch_size=None, sampler=sampler, collate_fn=as_is)

    def val_dataloader(self) -> DataLoader[EvalBatch] | list[DataLoader[EvalBatch]]:
        """All validation rows in order; an empty list where there are none."""
        return self._eval_loader("val")

    def test_dataloader(self) -> DataLoader[EvalBatch] | list[DataLoader[EvalBatch]]:
        """All test rows in order; an empty list where there are none."""
        return self._eval_loader("test")

    def held_out_batches(self, index: int, rows: int) -> Iterator[Batch]:
        """A replica's validation rows, or its training rows where there are none: each once, in order."""
        data = self.replicas[index]
        x, y = data.tensors("train" if data.tables.val is None else "val")
        yield from zip(x.split(rows), y.split(rows), strict=True)

    def _eval_loader(self, stage: Stage) -> DataLoader[EvalBatch] | list[DataLoader[EvalBatch]]:
        self._load()
        batches = ReplicaBatches(self.replicas, stage)
        if not len(batches):
            return []
        # Every iterator draws a seed. From the global generator it would change the training run.
        return DataLoader(batches, batch_size=None, collate_fn=as_is, generator=torch.Generator().manual_seed(0))

    def _load(self) -> None:
        if not self._checked:
            specs = [data.spec for data in self.replicas]
            self._common("the number of input columns", [spec.num_inputs for spec in specs])
            self._common("the number of target columns", [spec.num_outputs for spec in specs])
            self._checked = True

    @staticmethod
    def _common(what: str, values: Sequence[int]) -> int:
        if len(set(values)) > 1:
            raise UserError(f"replicas train as one model, so {what} must be the same for all; got {values}")
        return values[0]


class StackedRows(Dataset[Batch]):
    """The rows of R data sets in one tensor, shorter ones padded. An index (R, B) gives (R, B, D) and (R, B, O).

    >>> rows = StackedRows([torch.zeros(2, 1), torch.ones(3, 1)], [torch.zeros(2, 1), torch.ones(3, 1)])
    >>> rows[torch.tensor([[0, 1], [2, 0]])][0].squeeze(-1)
    tensor([[0., 0.],
            [1., 1.]])
    """

    def __init__(self, x: Sequence[Tensor], y: Sequence[Tensor]) -> None:
        length = max(map(len, x))
        self.x, self.y = _padded(x, length), _padded(y, length)  # (R * length, ...)
        self.offsets = (torch.arange(len(x)) * length).unsqueeze(1)  # (R, 1)

    def __getitem__(self, index: Tensor) -> Batch:
        flat = (index + self.offsets).flatten()
        return self.x[flat].unflatten(0, index.shape), self.y[flat].unflatten(0, index.shape)


class StackedPasses(Sampler[Tensor]):
    """Row numbers (R, B) of training batches: for each replica, shuffled passes over its rows, joined.

    As in ``JoinedPasses``, no row of a replica comes a second time before each of them has come once, and the order
    follows from one draw of torch's global generator.

    Args:
        num_rows: of each replica.
        batch_size: B.
        steps: number of batches.

    >>> torch.stack(list(StackedPasses([2, 4], batch_size=2, steps=2))).shape
    torch.Size([2, 2, 2])
    """

    def __init__(self, num_rows: Sequence[int], batch_size: int, steps: int) -> None:
        self.num_rows, self.batch_size, self.steps = tuple(num_rows), batch_size, steps

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[Tensor]:
        seed = int(torch.empty((), dtype=torch.int64).random_().item())
        generator = torch.Generator().manual_seed(seed)
        length = self.steps * self.batch_size
        orders = [_joined_passes(rows, length, generator) for rows in self.num_rows]
        # (steps, R, B), in one piece: every batch is then a view
        yield from torch.stack(orders).unflatten(1, (self.steps, self.batch_size)).transpose(0, 1).contiguous()


class ReplicaBatches(Dataset[EvalBatch]):
    """The batches of one part of each replica, one replica after the other, with nothing dropped."""

    def __init__(self, replicas: Sequence[RegressionData], stage: Stage) -> None:
        self._batches: list[EvalBatch] = []
        for replica, data in enumerate(replicas):
            if stage in data.tables.parts():
                x, y = data.tensors(stage)
                batches = zip(x.split(data.eval_batch_size), y.split(data.eval_batch_size), strict=True)
                self._batches += [(replica, number, batch) for number, batch in enumerate(batches)]

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> EvalBatch:
        return self._batches[index]


def _padded(rows: Sequence[Tensor], length: int) -> Tensor:
    return torch.cat([torch.cat([part, part.new_zeros(length - len(part), *part.shape[1:])]) for part in rows])


def _joined_passes(num_rows: int, length: int, generator: torch.Generator) -> Tensor:
    passes = -(-length // num_rows)
    # Sorting random numbers shuffles all passes at once, where a short data set has thousands of them.
    keys = torch.rand(passes, num_rows, dtype=torch.float64, generator=generator)
    return keys.argsort(dim=1).flatten()[:length]
