"""Compute the part of a network in front of its first active dropout once, for any module.

A computation whose tensors all come from the input (or are parameters) gives the same result in every pass. Such
computations are noted in the first pass: calls of submodules without active dropout as a whole, and single torch
functions between them. Later passes find a note by the identity of the arguments, and skip the computation.

A note says "this function of these tensors is that tensor", which holds whatever the model does in between. Tensors
count their changes in place. A change that belongs to the prefix (an in-place ReLU) is noted like any other result: the
tensor has it already when a later pass hands it out, so until the model comes to that change, nothing may read it.
Any other change makes the note void.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from concrete_dropout.dropout.known import KnownTensors, version_of
from concrete_dropout.dropout.modes import override_forward
from concrete_dropout.dropout.prefix_parts import chain, contains, leading_run, may_be_noted
from concrete_dropout.dropout.sampling import active_dropouts

VALUE_READS = frozenset(
    "__bool__ __float__ __int__ __index__ item tolist numpy is_nonzero equal allclose nonzero".split()
)
FACTORIES = frozenset("arange zeros ones full linspace eye".split())
PLAIN_VALUES = (int, float, complex, str, bytes, slice, torch.dtype, torch.device, torch.layout, torch.memory_format)


class DeviationError(BaseException):
    """A pass that cannot be trusted: to be run again without the cache. Models shall not catch it."""


@dataclass(frozen=True)
class _Note:
    """The result of a computation: tensors with their version at that time, and arguments that it changed."""

    leaves: list[Any]
    versions: list[int]
    structure: Any
    changed: list[tuple[Tensor, int]]
    alive: list[Any]  # whatever the key names by its address

    def states(self) -> list[tuple[Tensor, int]]:
        """Tensors and versions that hold after the computation."""
        tensors = (leaf for leaf in self.leaves if isinstance(leaf, Tensor))
        return [*zip(tensors, self.versions, strict=True), *self.changed]


class PrefixCache(TorchFunctionMode):
    """Enter it around every pass of ``model`` on the same ``inputs``.

    A pass may carry several samples: then it is made on ``tiled_inputs(copies)``, the rows repeated for each.

    Args:
        model: inside of ``attached``, its dropout-free submodules are skipped where their result is known.
        inputs: the tensors that are the same for all passes, with the same number of rows.
    """

    def __init__(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        super().__init__()
        self._model = model
        self._inputs = inputs
        self._tensors = KnownTensors([*model.parameters(), *model.buffers()], list(inputs))
        self._notes: dict[Any, _Note] = {}
        self._used: set[Any] = set()
        self._modules_noted: set[nn.Module] = set()
        self._calls: Counter[Any] = Counter()
        self._suspended = False  # whether torch functions go through unseen
        self._last: int | None = None  # notes that the last pass used, if it took none and had one sample
        self._took_notes = False
        self._is_behind = False  # whether this pass has left the prefix behind: nothing more to look up
        self.broken = False

    def tiled_inputs(self, copies: int) -> tuple[Tensor, ...]:
        """The inputs with their rows repeated, for the next pass; call it before every pass."""
        if self._used and self._tensors.copies == 1:  # what the last pass did not use is not worth its memory
            self._notes = {key: note for key, note in self._notes.items() if key in self._used}
            self._tensors.forget_all_but([tensor for note in self._notes.values() for tensor, _ in note.states()])
        self._last = None if self._took_notes or self._tensors.copies > 1 else len(self._used)
        self._took_notes = self._is_behind = False
        self._suspended = self.broken
        self._used.clear()
        self._calls.clear()
        self._tensors.begin_pass(copies)
        return tuple(self._tensors.hand_out(tensor, version_of(tensor)) for tensor in self._inputs)

    def suspend(self) -> None:
        """From now on, compute everything."""
        self.broken = self._suspended = True

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Take over the forward of active dropouts and of the largest submodules without one.

        A module with a true attribute ``fused`` computes with its parts' weights itself: those are left alone.
        """
        dropouts = {id(layer) for layer in active_dropouts(self._model).values()}
        fused = {id(part) for m in self._model.modules() if getattr(m, "fused", False) for part in m.modules()}
        with ExitStack() as stack:
            for module in list(self._model.modules()):
                if id(module) in dropouts:
                    override_forward(stack, module, partial(self._dropout, module.forward))
                elif contains(module, dropouts) and id(module) not in fused:
                    run = leading_run(module, dropouts)
                    if run:
                        override_forward(stack, module, partial(self._sequential, module, run))
                    for child in module.children():
                        if child not in run and not contains(child, dropouts) and may_be_noted(child):
                            override_forward(stack, child, partial(self._compute, child, child.forward))
            yield

    def _sequential(self, module: nn.Module, run: list[nn.Module], input: Any) -> Any:
        value = self._compute(module, partial(chain, run), input)
        rest = list(module._modules.values())[len(run) :]
        return chain([child for child in rest if child is not None], value)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._suspended or self._is_stochastic(func, args):
            return func(*args, **kwargs)
        return self._compute(func, func, *args, **kwargs)

    def _is_stochastic(self, func: Callable[..., Any], args: tuple[Any, ...]) -> bool:
        """Whether the first thing that a function reads is a new tensor, which several samples may decide by."""
        if not args or not self._is_new(args[0]):
            return False
        return self._tensors.copies == 1 or getattr(func, "__name__", "") not in VALUE_READS

    @property
    def is_empty(self) -> bool:
        """Whether nothing of the last pass was worth a note."""
        return not self._notes

    def _dropout(self, forward: Callable[[Tensor], Tensor], input: Tensor) -> Tensor:
        if self._suspended:
            return forward(input)
        if self._is_new(input):
            return self._unwatched(lambda: forward(input))
        return self._unwatched(lambda: self._really(forward, (input,), {}))

    def _compute(self, what: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call ``function``, or hand out what it gave before."""
        if self._suspended:
            return function(*args, **kwargs)
        if len(args) == 1 and not kwargs and self._tensors.copies == 1 and self._is_new(args[0]):
            return self._unwatched(lambda: function(*args))
        return self._unwatched(lambda: self._look_up(what, function, args, kwargs))

    def _is_new(self, value: Any) -> bool:
        """A quick look at most of what lies behind the first dropout: a tensor that only this pass has, or several."""
        if self._tensors.some_ahead:
            return False
        if isinstance(value, (list, tuple)):
            return any(isinstance(part, Tensor) and not self._tensors.knows(part) for part in value)
        return isinstance(value, Tensor) and not self._tensors.knows(value)

    def _unwatched(self, action: Callable[[], Any]) -> Any:
        """Torch functions called inside are none of our business: our own, or parts of a whole that is noted."""
        self._suspended = True
        try:
            with torch._C.DisableTorchFunction():  # not even asked whether they are: it takes time
                return action()
        finally:
            self._suspended = self.broken or self._is_behind

    def _look_up(self, what: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        several = self._tensors.copies > 1
        if several and getattr(what, "__name__", "") in VALUE_READS and self._tensors.recognise(args[0]) is None:
            raise DeviationError  # control flow by the values of several samples at once
        key = self._key(what, args, kwargs)
        if key is not None:
            key = (key, self._calls[key])  # two calls alike give two tensors, of which the model may change one
            self._calls[key[0]] += 1
            note = self._notes.get(key)
            out = None if note is None else self._handed_out(note)
            if note is not None and out is not None:
                self._used.add(key)
                # A pass of one sample that used what the last one did; several are watched for control flow.
                self._is_behind = len(self._used) == self._last and not (several or self._tensors.some_ahead)
                return tree_unflatten(out, note.structure)
            if not several:
                return self._noted(key, function, args, kwargs)
        if several and what in self._modules_noted:
            raise DeviationError  # several samples in one pass do not pay if a part of the prefix is computed again
        return self._really(function, args, kwargs)

    def _really(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Compute, unless an argument has changes already that the model has not come to in this pass."""
        if any(isinstance(leaf, Tensor) and self._tensors.is_ahead(leaf) for leaf in tree_leaves((args, kwargs))):
            raise DeviationError
        if args and _changes_in_place(function):
            self._preserve(args[0])
        return function(*args, **kwargs)

    def _preserve(self, tensor: Tensor) -> None:
        """Before something stochastic changes a known tensor in place, put a copy of it into its note."""
        known = self._tensors.get(tensor)
        if known is None or not known.from_input or self._tensors.copies > 1:
            return
        self._took_notes = True
        notes = [note for note in self._notes.values() if any(leaf is tensor for leaf in note.leaves)]
        if len(notes) == 1 and not notes[0].changed and all(version == 0 for version in notes[0].versions):
            copy = tensor.clone()
            notes[0].leaves[:] = [copy if leaf is tensor else leaf for leaf in notes[0].leaves]
            self._tensors.learn(copy, from_input=True)

    def _noted(self, key: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Compute, and note the result if it can be relied on."""
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        before = [version_of(tensor) for tensor in inputs]
        from_input = any(known.from_input for tensor in inputs if (known := self._tensors.get(tensor)) is not None)
        random_state = torch.get_rng_state()
        out = self._really(function, args, kwargs)
        leaves, structure = tree_flatten(out)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        changed = [
            (tensor, version_of(tensor))
            for tensor, old in zip(inputs, before, strict=True)
            if version_of(tensor) != old
        ]
        reliable = (
            (tensors or changed)
            and all(isinstance(leaf, Tensor) or _is_plain(leaf) for leaf in leaves)
            and not any(tensor.is_inference() or (tensor.requires_grad and not tensor.is_leaf) for tensor in tensors)
            and torch.equal(random_state, torch.get_rng_state())
        )
        if reliable:
            for tensor in (*tensors, *(tensor for tensor, _ in changed)):
                self._tensors.learn(tensor, from_input)
            versions = [version_of(tensor) for tensor in tensors]
            self._took_notes = True
            self._notes[key] = _Note(leaves, versions, structure, changed, [args, kwargs, *_plain_tensors(key[0][0])])
            self._used.add(key)
            if isinstance(key[0][0], nn.Module):
                self._modules_noted.add(key[0][0])
        return out

    def _handed_out(self, note: _Note) -> list[Any] | None:
        """The noted result for this pass; None if it was changed since, or cannot be repeated for several samples."""
        if not all(self._tensors.can_hand_out(tensor, version) for tensor, version in note.states()):
            return None
        tensors = [self._tensors.hand_out(tensor, version) for tensor, version in note.states()]
        handed = iter(tensors)
        return [next(handed) if isinstance(leaf, Tensor) else leaf for leaf in note.leaves]

    def _key(self, what: Any, args: Any, kwargs: Any) -> Any:
        """What the computation is, by the identity of its tensors; None if it is not the same in every pass."""
        leaves, structure = tree_flatten((args, kwargs))
        parts: list[Any] = []
        seen_tensor = False
        for leaf in leaves:
            if isinstance(leaf, Tensor):
                known = self._tensors.recognise(leaf)
                if known is None:
                    return None
                parts.append(("tensor", id(known.tensor), self._tensors.reached(known)))
                seen_tensor = True
            elif _is_plain(leaf):
                parts.append((type(leaf), str(leaf)))
            else:
                return None
        if not seen_tensor and getattr(what, "__name__", "") not in FACTORIES:
            return None
        state = tuple((id(tensor), version_of(tensor)) for tensor in _plain_tensors(what))
        return what, str(structure), tuple(parts), state


def _changes_in_place(function: Callable[..., Any]) -> bool:
    name = getattr(function, "__name__", "")
    if name.startswith("__"):
        return name == "__setitem__" or (name.startswith("__i") and name not in ("__invert__", "__index__", "__int__"))
    return name.endswith("_")


def _plain_tensors(what: Any) -> list[Tensor]:
    """Tensors that a module holds besides its parameters and buffers: set by the model, perhaps from a sample."""
    if not isinstance(what, nn.Module):
        return []
    return [value for part in what.modules() for value in vars(part).values() if isinstance(value, Tensor)]


def _is_plain(value: Any) -> bool:
    return value is None or value is Ellipsis or isinstance(value, PLAIN_VALUES)
