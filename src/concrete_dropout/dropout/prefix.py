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

from concrete_dropout.dropout.modes import override_forward
from concrete_dropout.dropout.sampling import active_dropouts

VALUE_READS = frozenset(
    "__bool__ __float__ __int__ __index__ item tolist numpy is_nonzero equal allclose nonzero".split()
)
FACTORIES = frozenset("arange zeros ones full linspace eye".split())
PLAIN_VALUES = (int, float, complex, str, bytes, slice, torch.dtype, torch.device, torch.layout, torch.memory_format)


class DeviationError(BaseException):
    """A pass that cannot be trusted: to be run again without the cache. Models shall not catch it."""


@dataclass
class _Known:
    """A tensor that is the same in every pass, with the changes it went through in the first one."""

    tensor: Tensor
    final: int  # number of changes after the prefix
    from_input: bool  # and not from parameters alone


@dataclass(frozen=True)
class _Note:
    """The result of a computation: tensors with their version at that time, and arguments that it changed."""

    leaves: list[Any]
    versions: list[int]
    structure: Any
    changed: list[tuple[Tensor, int]]
    alive: list[Any]  # whatever the key names by its address


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
        self._rows = inputs[0].shape[0]
        self._known: dict[int, _Known] = {}
        self._notes: dict[Any, _Note] = {}
        self._used: set[Any] = set()
        self._modules_noted: set[nn.Module] = set()
        self._calls: Counter[Any] = Counter()
        self._versions: dict[int, int] = {}  # id of a known tensor -> the version that the model has come to
        self._copies = 1
        self._tiles: dict[int, Tensor] = {}  # id of a known tensor -> its rows repeated
        self._tiled: dict[int, _Known] = {}  # id of a tile -> the known tensor
        self._suspended = False  # whether torch functions go through unseen
        self.broken = False
        for tensor in (*model.parameters(), *model.buffers()):
            self._learn(tensor, from_input=False)
        for tensor in inputs:
            self._learn(tensor, from_input=True)

    def tiled_inputs(self, copies: int) -> tuple[Tensor, ...]:
        """The inputs with their rows repeated, for the next pass; call it before every pass."""
        if self._used and self._copies == 1:  # what the last pass did not use is not worth its memory
            self._notes = {key: note for key, note in self._notes.items() if key in self._used}
        if copies != self._copies:
            self._copies = copies
            self._tiles.clear()
            self._tiled.clear()
        self._used.clear()
        self._calls.clear()
        self._versions.clear()
        return tuple(self._tile(self._known[id(tensor)]) for tensor in self._inputs)

    def suspend(self) -> None:
        """From now on, compute everything."""
        self.broken = self._suspended = True

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Take over the forward of active dropouts and of the largest submodules without one."""
        dropouts = {id(layer) for layer in active_dropouts(self._model).values()}
        with ExitStack() as stack:
            for module in list(self._model.modules()):
                if id(module) in dropouts:
                    override_forward(stack, module, partial(self._dropout, module.forward))
                elif _contains(module, dropouts):
                    run = _leading_run(module, dropouts)
                    if run:
                        override_forward(stack, module, partial(self._sequential, module, run))
                    for child in module.children():
                        if child not in run and not _contains(child, dropouts) and _may_be_noted(child):
                            override_forward(stack, child, partial(self._compute, child, child.forward))
            yield

    def _sequential(self, module: nn.Module, run: list[nn.Module], input: Any) -> Any:
        value = self._compute(run[0], partial(_chain, run), input)
        rest = list(module._modules.values())[len(run) :]
        return _chain([child for child in rest if child is not None], value)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self._compute(func, func, *args, **(kwargs or {}))

    def _dropout(self, forward: Callable[[Tensor], Tensor], input: Tensor) -> Tensor:
        return self._unwatched(lambda: self._really(forward, (input,), {})) if not self._suspended else forward(input)

    def _compute(self, what: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call ``function``, or hand out what it gave before."""
        if self._suspended:
            return function(*args, **kwargs)
        return self._unwatched(lambda: self._look_up(what, function, args, kwargs))

    def _unwatched(self, action: Callable[[], Any]) -> Any:
        """Torch functions called inside are none of our business: our own, or parts of a whole that is noted."""
        self._suspended = True
        try:
            return action()
        finally:
            self._suspended = self.broken

    def _look_up(self, what: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if self._copies > 1 and getattr(what, "__name__", "") in VALUE_READS and self._recognised(args[0]) is None:
            raise DeviationError  # control flow by the values of several samples at once
        key = self._key(what, args, kwargs)
        if key is not None:
            key = (key, self._calls[key])  # two calls alike give two tensors, of which the model may change one
            self._calls[key[0]] += 1
            note = self._notes.get(key)
            out = None if note is None else self._handed_out(note)
            if note is not None and out is not None:
                self._used.add(key)
                return tree_unflatten(out, note.structure)
            if self._copies == 1:
                return self._noted(key, function, args, kwargs)
        if self._copies > 1 and what in self._modules_noted:
            raise DeviationError  # several samples in one pass do not pay if a part of the prefix is computed again
        return self._really(function, args, kwargs)

    def _really(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Compute, unless an argument has changes already that the model has not come to in this pass."""
        for leaf in tree_leaves((args, kwargs)):
            known = self._known.get(id(leaf))
            if known is not None and self._versions.get(id(leaf), known.final) != _version(leaf) == known.final:
                raise DeviationError
        if args and _changes_in_place(function):
            self._preserve(args[0])
        return function(*args, **kwargs)

    def _preserve(self, tensor: Tensor) -> None:
        """Before something stochastic changes a known tensor in place, put a copy of it into its note."""
        known = self._known.get(id(tensor))
        if known is None or not known.from_input or self._copies > 1 or _version(tensor) != known.final:
            return
        notes = [note for note in self._notes.values() if any(leaf is tensor for leaf in note.leaves)]
        if len(notes) == 1 and not notes[0].changed and all(version == 0 for version in notes[0].versions):
            copy = tensor.clone()
            notes[0].leaves[:] = [copy if leaf is tensor else leaf for leaf in notes[0].leaves]
            self._known[id(copy)] = _Known(copy, 0, from_input=True)

    def _noted(self, key: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Compute, and note the result if it can be relied on."""
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        before = [_version(tensor) for tensor in inputs]
        from_input = any(self._known[id(tensor)].from_input for tensor in inputs)
        random_state = torch.get_rng_state()
        out = self._really(function, args, kwargs)
        leaves, structure = tree_flatten(out)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        changed = [
            (tensor, _version(tensor)) for tensor, old in zip(inputs, before, strict=True) if _version(tensor) != old
        ]
        reliable = (
            (tensors or changed)
            and all(isinstance(leaf, Tensor) or _is_plain(leaf) for leaf in leaves)
            and not any(tensor.is_inference() or (tensor.requires_grad and not tensor.is_leaf) for tensor in tensors)
            and torch.equal(random_state, torch.get_rng_state())
        )
        if reliable:
            for tensor in (*tensors, *(tensor for tensor, _ in changed)):
                self._learn(tensor, from_input)
            versions = [_version(tensor) for tensor in tensors]
            self._notes[key] = _Note(leaves, versions, structure, changed, [args, kwargs, *_plain_tensors(key[0][0])])
            self._used.add(key)
            if isinstance(key[0][0], nn.Module):
                self._modules_noted.add(key[0][0])
        return out

    def _handed_out(self, note: _Note) -> list[Any] | None:
        """The noted result for this pass; None if it was changed since, or cannot be repeated for several samples."""
        tensors = [leaf for leaf in note.leaves if isinstance(leaf, Tensor)]
        states = [*zip(tensors, note.versions, strict=True), *note.changed]
        if not all(self._is_valid(tensor, version) for tensor, version in states):
            return None
        self._versions.update({id(tensor): version for tensor, version in states})
        return [self._tile(self._known[id(leaf)]) if isinstance(leaf, Tensor) else leaf for leaf in note.leaves]

    # -- what is known ------------------------------------------------------------------------------------------

    def _learn(self, tensor: Tensor, from_input: bool) -> None:
        known = self._known.get(id(tensor))
        if known is None:
            self._known[id(tensor)] = _Known(tensor, _version(tensor), from_input)
        else:
            known.final = _version(tensor)
        self._versions[id(tensor)] = _version(tensor)

    def _is_valid(self, tensor: Tensor, version: int) -> bool:
        """Whether a known tensor can be handed out as it was at ``version``."""
        known = self._known[id(tensor)]
        if _version(tensor) != known.final:
            return False
        return self._copies == 1 or (version == known.final and self._can_tile(known))

    def _recognised(self, tensor: Tensor) -> _Known | None:
        """The known tensor that this one is, or is a tile of."""
        known = self._tiled.get(id(tensor)) or self._known.get(id(tensor))
        if known is None or _version(known.tensor) != known.final:
            return None
        if known.tensor is tensor:
            return known if self._copies == 1 or not known.from_input else None
        return known if _version(tensor) == 0 else None

    def _key(self, what: Any, args: Any, kwargs: Any) -> Any:
        """What the computation is, by the identity of its tensors; None if it is not the same in every pass."""
        leaves, structure = tree_flatten((args, kwargs))
        parts: list[Any] = []
        seen_tensor = False
        for leaf in leaves:
            if isinstance(leaf, Tensor):
                known = self._recognised(leaf)
                if known is None:
                    return None
                parts.append(("tensor", id(known.tensor), self._versions.get(id(known.tensor), known.final)))
                seen_tensor = True
            elif _is_plain(leaf):
                parts.append((type(leaf), str(leaf)))
            else:
                return None
        if not seen_tensor and getattr(what, "__name__", "") not in FACTORIES:
            return None
        state = tuple((id(tensor), _version(tensor)) for tensor in _plain_tensors(what))
        return what, str(structure), tuple(parts), state

    # -- several samples in one pass ----------------------------------------------------------------------------

    def _can_tile(self, known: _Known) -> bool:
        """Whether the first dimension, and no other one, holds the rows of the input."""
        if self._copies == 1 or not known.from_input:
            return True
        return (
            known.tensor.dim() > 0
            and [size == self._rows for size in known.tensor.shape].count(True) == 1
            and (known.tensor.shape[0] == self._rows)
        )

    def _tile(self, known: _Known) -> Tensor:
        if self._copies == 1 or not known.from_input:
            return known.tensor
        address = id(known.tensor)
        if address not in self._tiles or _version(self._tiles[address]) != 0:
            tile = known.tensor.repeat(self._copies, *(1 for _ in known.tensor.shape[1:]))
            self._tiles[address] = tile
            self._tiled[id(tile)] = known
        return self._tiles[address]


def _chain(modules: list[nn.Module], value: Any) -> Any:
    for module in modules:
        value = module(value)
    return value


def _contains(module: nn.Module, ids: set[int]) -> bool:
    return any(id(descendant) in ids for descendant in module.modules())


def _leading_run(module: nn.Module, dropouts: set[int]) -> list[nn.Module]:
    """The children of a plain nn.Sequential in front of its first dropout: one computation."""
    run: list[nn.Module] = []
    if type(module) is nn.Sequential and "forward" not in vars(module):
        for child in module._modules.values():
            if child is None or _contains(child, dropouts) or not _may_be_noted(child):
                break
            run.append(child)
    return run


def _may_be_noted(module: nn.Module) -> bool:
    """TorchScript has a forward of its own kind; a module with a generator draws from it, unseen."""
    return not any(
        isinstance(part, torch.jit.ScriptModule) or any(isinstance(v, torch.Generator) for v in vars(part).values())
        for part in module.modules()
    )


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


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version
