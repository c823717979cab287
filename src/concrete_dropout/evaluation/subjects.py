"""What is evaluated: one network with its data, or several as the members of one deep ensemble."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from concrete_dropout.data import ExperimentData, Part
from concrete_dropout.data.shifts import OtherData, corrupt_batch, replace_batch
from concrete_dropout.dropout.kinds import kind_of
from concrete_dropout.dropout.sampling import active_dropouts
from concrete_dropout.dropout.streams import Mask
from concrete_dropout.errors import UserError
from concrete_dropout.predictive import mixed
from concrete_dropout.tasks import RegressionTask, SegmentationTask
from concrete_dropout.tasks.base import Batch, Task

MEMBER_STREAM = 1 << 40  # masks of the members of an ensemble are not the same
REPEAT_STREAM = 1 << 34  # nor those of repeats
Foreign = Mapping[str, OtherData]


@dataclass(frozen=True, eq=False)
class Member:
    """A trained network with the data that it was trained on.

    Attributes:
        task: with its weights, on its device.
        data: whose parts have inputs as this network gets them.
        label: what sets it apart, for messages.
    """

    task: Task
    data: ExperimentData
    label: str


@dataclass(frozen=True, eq=False)
class Subject:
    """One or several networks that predict together, by a name.

    Attributes:
        name: short and unlike the others'.
        members: one, or those of an ensemble.
        facts: what a report says about it.
    """

    name: str
    members: tuple[Member, ...]
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def task(self) -> Task:
        """The first member's."""
        return self.members[0].task

    @property
    def is_stochastic(self) -> bool:
        """Whether samples differ."""
        return any(active_dropouts(member.task.network) for member in self.members)

    @property
    def has_concrete(self) -> bool:
        """Whether the kind of mask makes a difference: ordinary dropout is Bernoulli."""
        layers = [layer for member in self.members for layer in active_dropouts(member.task.network).values()]
        return any(kind_of(layer) == "concrete" for layer in layers)

    @property
    def has_epistemic(self) -> bool:
        """Whether predictions without dropout have an epistemic part: members may disagree."""
        return len(self.members) > 1

    @property
    def is_dense(self) -> bool:
        """Whether there is a prediction for every pixel."""
        return isinstance(self.task, SegmentationTask)

    def parts(self) -> tuple[Part, ...]:
        """Those that all members have."""
        return tuple(part for part in self.members[0].data.parts if all(part in m.data.parts for m in self.members))

    def num_batches(self, part: Part, other: OtherData | None = None) -> int:
        """Of one pass over a part."""
        own = self.members[0].data
        return len(_loader(own, part)) if other is None else other.num_batches(own)

    def num_items(self, part: Part) -> int:
        """Rows, pictures or images of a part."""
        return len(_loader(self.members[0].data, part).dataset)

    def batches(
        self, part: Part, shift: str = "", severity: int = 0, seed: int = 0, foreign: Foreign | None = None
    ) -> Iterator[list[Batch]]:
        """One batch after the other, as each member gets it, on its device.

        Args:
            part: of the data.
            shift: the name of a corruption, of a replacement or of other data; "" for the data as they are.
            severity: of a corruption, 1 to 5; 0 for anything else.
            seed: of the shift.
            foreign: other data by their names.
        """
        other = (foreign or {}).get(shift)
        sources = [
            _loader(member.data, part) if other is None else other.batches(member.data) for member in self.members
        ]
        for number, batches in enumerate(zip(*sources, strict=True)):
            shifted = []
            for member, (x, y) in zip(self.members, batches, strict=True):
                if severity:
                    x = corrupt_batch(member.data, x, shift, severity, seed, number)
                elif shift and other is None:
                    x = replace_batch(member.data, x, shift, seed, number)
                shifted.append((x.to(member.task.device), y.to(member.task.device)))
            yield shifted

    def check_same_data(self, parts: Sequence[Part]) -> None:
        """Refuse members that cannot predict together, since their parts have different targets."""
        first = self.members[0]
        for part in parts:
            for member in self.members[1:]:
                pairs = zip_longest(_loader(first.data, part), _loader(member.data, part))
                if not all(a and b and _same(_targets(first, a[1]), _targets(member, b[1])) for a, b in pairs):
                    raise UserError(
                        f"ensemble=true: {first.label} and {member.label} have different {part} data, as runs with a "
                        "data.seed of their own have: train the members with one data.seed"
                    )

    def evaluate_at(
        self, batches: Sequence[Batch], counts: Sequence[int], mask: Mask | None, seed: int
    ) -> dict[int, Mapping[str, Any]]:
        """What evaluation steps return, by the number of samples, which the members of an ensemble share.

        Args:
            batches: the same rows as each member gets them.
            counts: numbers of samples; 0 for one pass of each member without dropout.
            mask: of Concrete layers.
            seed: of the masks.
        """
        made: list[Mapping[int, Mapping[str, Any]]] = []
        for number, (member, batch) in enumerate(zip(self.members, batches, strict=True)):
            own = self.shares(counts, number)
            task = member.task
            before, task.mask = task.mask, mask or task.mask
            try:
                made.append(task.evaluate_at(batch, list(dict.fromkeys(own)), seed + number * MEMBER_STREAM))
            finally:
                task.mask = before
        if len(self.members) == 1:
            return dict(made[0])
        return {count: self._mixture(made, index, counts) for index, count in enumerate(counts)}

    def shares(self, counts: Sequence[int], number: int) -> list[int]:
        """How many of so many samples a member makes: as many as the others, or one more."""
        members = len(self.members)
        return [count // members + (number < count % members) for count in counts]

    def _mixture(
        self, made: Sequence[Mapping[int, Mapping[str, Any]]], index: int, counts: Sequence[int]
    ) -> Mapping[str, Any]:
        shares = [self.shares(counts, number)[index] for number in range(len(made))]
        parts = [outputs[share] for outputs, share in zip(made, shares, strict=True)]
        weights = [max(share, 1) for share in shares]
        prediction = mixed([part["prediction"] for part in parts], weights)
        return {"prediction": prediction, "targets": parts[0]["targets"]}


def _targets(member: Member, y: Tensor) -> Tensor:
    """In the units that users know: members may have standardised them differently."""
    return member.task.targets.restore(y.to(member.task.device)).cpu() if isinstance(member.task, RegressionTask) else y


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a.double(), b.double(), equal_nan=True)


def _loader(data: ExperimentData, part: Part) -> Any:
    return data.val_dataloader() if part == "val" else data.test_dataloader()
