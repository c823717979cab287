"""Compute the part of a network in front of its first active dropout once, for any module.

During the first pass every computation whose tensors all come from the input (or are parameters) is noted: calls of
submodules without active dropout as a whole, and single torch functions between them. Its results get slot numbers.
Later passes find the note by the slots of the arguments and skip the computation.

Only results that something stochastic reads are kept. For the others later passes hand out a stand-in of the same
shape without memory behind it. Should a later pass read a stand-in after all (control flow that depends on sampled
values), it is abandoned, and the sampler goes on without the cache: see ``DeviationError``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from concrete_dropout.dropout.sampling import active_dropouts

METADATA = frozenset(
    "size dim numel nelement stride is_contiguous is_floating_point element_size __len__ ndimension".split()
)


class DeviationError(Exception):
    """A later pass took another way than the first one did: run it again without the cache."""


@dataclass
class _Slot:
    """A tensor that is the same in every pass."""

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device
    kept: Tensor | None = None  # where something stochastic reads it
    stand_in: Tensor | None = None


@dataclass
class _Note:
    """Results of a computation, as slots within a structure, and which arguments it changed in place."""

    leaves: list[Any]
    structure: Any
    changed: list[tuple[int, int]] = field(default_factory=list)  # (position among the tensor arguments, new slot)


@dataclass(frozen=True)
class _SlotRef:
    index: int


class PrefixCache(TorchFunctionMode):
    """Enter it around each pass of ``model`` on the same ``inputs``, after ``mc_sampling``.

    Args:
        model: inside of ``attached``, its dropout-free submodules are skipped where their result is known.
        inputs: the tensors that are the same for all passes.
    """

    def __init__(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        super().__init__()
        self._model = model
        self._inputs = inputs
        self._constant = {id(t) for t in (*model.parameters(), *model.buffers())}
        self._slots: list[_Slot] = []
        self._notes: dict[Any, _Note] = {}
        self._slot_of: dict[int, int] = {}  # id of a living tensor -> its slot
        self._watched: dict[int, weakref.ref[Tensor]] = {}
        self._recording = True
        self._opaque = False  # inside a computation that is noted as a whole
        self.broken = False
        self.read_by_dropout_only = True  # then dropouts may widen the batch from one sample's rows to several
        self.widening = False

    def begin(self) -> None:
        """Call before every pass."""
        self._recording = not self._slots
        self._slot_of.clear()
        self._watched.clear()
        if self._recording:
            for tensor in self._inputs:
                self._slots[self._assign(tensor)].kept = tensor
        else:
            for index, slot in enumerate(self._slots):
                known = (tensor for tensor in (slot.kept, slot.stand_in) if tensor is not None)
                self._slot_of.update({id(tensor): index for tensor in known})

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Take over the forward of active dropouts and of the largest submodules without one."""
        dropouts = {id(layer) for layer in active_dropouts(self._model).values()}
        with ExitStack() as stack:
            for module in list(self._model.modules()):
                if id(module) in dropouts:
                    _override(stack, module, partial(self._dropout, module.forward))
                elif _contains(module, dropouts):
                    run = _leading_run(module, dropouts) if type(module) is nn.Sequential else []
                    if run and isinstance(module, nn.Sequential):
                        _override(stack, module, partial(self._sequential, module, run))
                    for child in list(module.children())[len(run) :]:
                        if not _contains(child, dropouts) and not isinstance(child, torch.jit.ScriptModule):
                            _override(stack, child, partial(self._compute, id(child), child.forward))
            yield

    def finish(self, out: Any) -> Any:
        """Call on the result of every pass: parts of it may be the same in all passes."""
        if self.broken:
            return out
        return tree_map_only(Tensor, self._final, out)

    def _final(self, tensor: Tensor) -> Tensor:
        slot = self._slot_of.get(id(tensor))
        if slot is None:
            return tensor
        self.read_by_dropout_only = False
        return self._readable(slot, tensor, keep=True)

    def _dropout(self, forward: Callable[..., Tensor], input: Tensor) -> Tensor:
        slot = self._slot_of.get(id(input))
        if slot is None or self._opaque or self.broken:
            return forward(input)
        tensor = self._readable(slot, input, keep=True)
        with self._undisturbed():
            return forward(tensor, shared=True) if self.widening else forward(tensor)

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        opaque, self._opaque = self._opaque, True
        try:
            yield
        finally:
            self._opaque = opaque

    def _sequential(self, module: nn.Sequential, run: list[nn.Module], input: Any) -> Any:
        if run:
            input = self._compute(id(module), partial(_chain, run), input)
        for child in list(module)[len(run) :]:
            input = child(input)
        return input

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if self._opaque or self.broken or not self._touches_slot(args, kwargs):
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name in METADATA:
            return func(*args, **kwargs)
        if name == "__get__":  # a property: of shape and type mostly, sometimes a view
            value = func(*args, **kwargs)
            if not isinstance(value, Tensor):
                return value
        return self._compute(func, func, *args, **kwargs)

    def _touches_slot(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        known = self._slot_of
        for value in (*args, *kwargs.values()):
            if id(value) in known or (isinstance(value, (list, tuple)) and any(id(item) in known for item in value)):
                return True
        return False

    def _compute(self, what: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call ``function``, or hand out what it gave in the first pass."""
        if self._opaque or self.broken:
            return function(*args, **kwargs)
        leaves, structure = tree_flatten((args, kwargs))
        slots = [self._slot_of.get(id(leaf)) if isinstance(leaf, Tensor) else None for leaf in leaves]
        if all(slot is None for slot in slots):
            return function(*args, **kwargs)
        fixed = all(
            slot is not None or not isinstance(leaf, Tensor) or id(leaf) in self._constant
            for leaf, slot in zip(leaves, slots, strict=True)
        )
        key = (
            what,
            str(structure),
            tuple(_key(leaf, slot) for leaf, slot in zip(leaves, slots, strict=True)),
        )
        if fixed and not self._recording and key in self._notes:
            return self._replay(self._notes[key], leaves)
        return self._run(function, key if fixed and self._recording else None, leaves, slots, structure)

    def _run(
        self,
        function: Callable[..., Any],
        key: Any,
        leaves: list[Any],
        slots: list[int | None],
        structure: Any,
    ) -> Any:
        """Really compute, on kept tensors; note the result under ``key`` if there is one."""
        for position, slot in enumerate(slots):
            if slot is not None:
                leaves[position] = self._readable(slot, leaves[position], keep=key is None)
        if key is None and _changes_in_place(function):
            self._spare(leaves, slots)
        versions = [_version(leaf) for leaf in leaves]
        random_state = torch.get_rng_state() if key is not None else None
        args, kwargs = tree_unflatten(leaves, structure)
        with self._undisturbed():
            out = function(*args, **kwargs)
        changed = [i for i, leaf in enumerate(leaves) if _version(leaf) != versions[i] and slots[i] is not None]
        if key is None:
            self.read_by_dropout_only = False
            if changed and not _changes_in_place(function):
                self.broken = True  # a module changed a kept tensor behind our back
            return out
        if random_state is not None and not torch.equal(random_state, torch.get_rng_state()):
            for position, slot in enumerate(slots):  # a random computation: every pass needs its own
                if slot is not None:
                    self._keep(slot, leaves[position])
            self.broken = self.broken or bool(changed)
            self.read_by_dropout_only = False
            return out
        if any(self._slots[slots[i]].kept is not None for i in changed):  # type: ignore[index]
            self.broken = True  # changed after something stochastic had read it
            return out
        note = _Note([], None, [(i, self._assign(leaves[i])) for i in changed])
        out_leaves, note.structure = tree_flatten(out)
        note.leaves = [_SlotRef(self._slot_for(leaf)) if isinstance(leaf, Tensor) else leaf for leaf in out_leaves]
        self._notes[key] = note
        return out

    def _replay(self, note: _Note, leaves: list[Any]) -> Any:
        for position, slot in note.changed:
            self._slot_of[id(leaves[position])] = slot
        out = [self._hand_out(leaf.index) if isinstance(leaf, _SlotRef) else leaf for leaf in note.leaves]
        return tree_unflatten(out, note.structure)

    # -- slots ------------------------------------------------------------------------------------------------

    def _slot_for(self, tensor: Tensor) -> int:
        known = self._slot_of.get(id(tensor))
        return self._assign(tensor) if known is None else known

    def _assign(self, tensor: Tensor) -> int:
        """A new slot for a tensor, forgotten when the tensor dies: its id may then be used again."""
        self._slots.append(_Slot(tensor.shape, tensor.dtype, tensor.device))
        index, address = len(self._slots) - 1, id(tensor)
        self._slot_of[address] = index
        if address not in self._watched:
            self._watched[address] = weakref.ref(tensor, lambda _: self._forget(address))
        return index

    def _forget(self, address: int) -> None:
        self._slot_of.pop(address, None)
        self._watched.pop(address, None)

    def _readable(self, index: int, tensor: Tensor, keep: bool) -> Tensor:
        slot = self._slots[index]
        if slot.kept is not None:
            return slot.kept
        if not self._recording:
            raise DeviationError
        if keep:
            self._keep(index, tensor)
        return tensor

    def _keep(self, index: int, tensor: Tensor) -> None:
        self._slots[index].kept = tensor

    def _hand_out(self, index: int) -> Tensor:
        slot = self._slots[index]
        if slot.kept is not None:
            tensor = slot.kept
        else:
            if slot.stand_in is None:
                slot.stand_in = torch.empty((), dtype=slot.dtype, device=slot.device).expand(slot.shape)
            tensor = slot.stand_in
        self._slot_of[id(tensor)] = index
        return tensor

    def _spare(self, leaves: list[Any], slots: list[int | None]) -> None:
        """Before a stochastic function changes its first argument in place, keep a copy of that for later passes."""
        slot = slots[0]
        if slot is not None:
            tensor = leaves[0]
            self._slots[slot].kept = tensor.clone()
            self._slot_of.pop(id(tensor), None)


def _override(stack: ExitStack, module: nn.Module, forward: Callable[..., Any]) -> None:
    """Set the forward of one module until the stack unwinds."""
    before = vars(module).get("forward")
    module.forward = forward
    if before is None:
        stack.callback(module.__dict__.pop, "forward")
    else:
        stack.callback(setattr, module, "forward", before)


def _chain(modules: list[nn.Module], value: Any) -> Any:
    for module in modules:
        value = module(value)
    return value


def _contains(module: nn.Module, ids: set[int]) -> bool:
    return any(id(descendant) in ids for descendant in module.modules())


def _leading_run(module: nn.Sequential, stochastic: set[int]) -> list[nn.Module]:
    run: list[nn.Module] = []
    for child in module:
        if _contains(child, stochastic):
            break
        run.append(child)
    return run


def _changes_in_place(function: Callable[..., Any]) -> bool:
    name = getattr(function, "__name__", "")
    if name.startswith("__"):
        return (name.startswith("__i") and name not in ("__invert__", "__index__", "__int__")) or name == "__setitem__"
    return name.endswith("_")


def _version(leaf: Any) -> int:
    return leaf._version if isinstance(leaf, Tensor) and not leaf.is_inference() else 0


def _key(leaf: Any, slot: int | None) -> Any:
    if slot is not None:
        return ("slot", slot)
    return ("tensor", id(leaf)) if isinstance(leaf, Tensor) else repr(leaf)
