"""Tensors that are the same in every stochastic pass over the same input, and how often each was changed in place."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass
class Known:
    """A tensor that is the same in every pass, with the changes it went through in the first one."""

    tensor: Tensor
    final: int  # number of changes after the prefix
    from_input: bool  # and not from parameters alone


class KnownTensors:
    """Recognises known tensors by identity, also where their rows are repeated for several samples in one pass.

    Args:
        constants: parameters and buffers.
        inputs: tensors with the same number of rows.
    """

    def __init__(self, constants: list[Tensor], inputs: list[Tensor]) -> None:
        self.copies = 1
        self.some_ahead = False  # whether a tensor was handed out that has later changes already
        self._rows = inputs[0].shape[0]
        self._known: dict[int, Known] = {}
        self._reached: dict[int, int] = {}  # id of a known tensor -> the version that the model has come to
        self._tiles: dict[int, Tensor] = {}  # id of a known tensor -> its rows repeated
        self._tiled: dict[int, Known] = {}  # id of a tile -> the known tensor
        for tensor in constants:
            self.learn(tensor, from_input=False)
        for tensor in inputs:
            self.learn(tensor, from_input=True)
        self._permanent = set(self._known)

    def begin_pass(self, copies: int) -> None:
        """The model starts again, on rows that are repeated ``copies`` times."""
        self._reached.clear()
        self.some_ahead = False
        if copies != self.copies:
            self.copies = copies
            self._tiles.clear()
            self._tiled.clear()

    def learn(self, tensor: Tensor, from_input: bool) -> None:
        """Take up a tensor, or its newest version."""
        if id(tensor) in self._known:
            self._known[id(tensor)].final = version_of(tensor)
        else:
            self._known[id(tensor)] = Known(tensor, version_of(tensor), from_input)
        self._reached[id(tensor)] = version_of(tensor)

    def forget_all_but(self, tensors: list[Tensor]) -> None:
        """Let go of what is not needed any more."""
        keep = self._permanent | {id(tensor) for tensor in tensors}
        self._known = {address: known for address, known in self._known.items() if address in keep}

    def knows(self, tensor: Tensor) -> bool:
        """Whether this was ever a known tensor, or a tile of one."""
        return id(tensor) in self._known or id(tensor) in self._tiled

    def get(self, tensor: Tensor) -> Known | None:
        """What is known of this very tensor, if nobody changed it since."""
        known = self._known.get(id(tensor))
        return known if known is not None and version_of(tensor) == known.final else None

    def recognise(self, tensor: Tensor) -> Known | None:
        """The known tensor that stands for this one in a pass: itself, or the one it is a tile of."""
        original = self._tiled.get(id(tensor))
        if original is not None:
            return self.get(original.tensor) if version_of(tensor) == 0 else None
        known = self.get(tensor)
        return known if known is None or self.copies == 1 or not known.from_input else None

    def reached(self, known: Known) -> int:
        """The version that the model has come to in this pass."""
        return self._reached.get(id(known.tensor), known.final)

    def is_ahead(self, tensor: Tensor) -> bool:
        """Whether a tensor has changes already that the model has not come to."""
        known = self.get(tensor)
        return known is not None and self.reached(known) != known.final

    def can_hand_out(self, tensor: Tensor, version: int) -> bool:
        """Whether the tensor can be handed out as what it was at ``version``."""
        known = self.get(tensor)
        if known is None or self.copies == 1 or not known.from_input:
            return known is not None
        in_rows = [size == self._rows for size in tensor.shape]  # the first dimension, and no other one
        return version == known.final and in_rows[:1] == [True] and in_rows.count(True) == 1

    def hand_out(self, tensor: Tensor, version: int) -> Tensor:
        """The tensor, or its rows repeated, with the model at ``version`` of it."""
        known = self._known[id(tensor)]
        self._reached[id(tensor)] = version
        self.some_ahead = self.some_ahead or version != known.final
        if self.copies == 1 or not known.from_input:
            return tensor
        tile = self._tiles.get(id(tensor))
        if tile is None or version_of(tile) != 0:
            tile = tensor.repeat(self.copies, *(1 for _ in tensor.shape[1:]))
            self._tiles[id(tensor)] = tile
            self._tiled[id(tile)] = known
        return tile


def version_of(tensor: Tensor) -> int:
    """How often a tensor was changed in place; tensors of inference mode do not count."""
    return 0 if tensor.is_inference() else tensor._version
