"""Which weights does a dropout mask? One dry forward pass finds out.

The pass runs in eval mode under a torch-function mode that sees every call on tensors. Each tensor carries at
most three marks:

- ``sites``: the dropout calls whose mask still lies on it, up to rearrangement and positive scaling;
- ``maker``: the weight whose rows (output features) its entries are, likewise;
- ``weight``: the name of the parameter that it is.

Functions that commute with a mask of features (views, positively homogeneous activations, pooling) hand marks
on, every other function drops them. A linear map or convolution of a tensor with ``sites`` consumes those masks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.utils.parametrize import ParametrizationList
from torch.nn.utils.rnn import PackedSequence
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from concrete_dropout.dropout.kinds import is_channelwise, is_unbatched
from concrete_dropout.dropout.modes import evaluating, override_forward
from concrete_dropout.dropout.sites import FunctionalCall, Owner, Site

REARRANGING = """
    view reshape view_as reshape_as flatten unflatten ravel permute transpose movedim moveaxis swapaxes swapdims
    t __get__ contiguous clone detach to type type_as float half bfloat16 double squeeze unsqueeze expand
    expand_as repeat tile repeat_interleave narrow select index_select __getitem__ chunk split tensor_split
    unbind flip roll pad cpu cuda pack_padded_sequence
""".split()
HOMOGENEOUS = """
    relu relu_ leaky_relu leaky_relu_ prelu rrelu abs abs_ mean sum amax max dropout dropout_ dropout1d
    dropout2d dropout3d feature_dropout interpolate upsample upsample_nearest upsample_bilinear max_pool1d
    max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
    adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d lp_pool1d lp_pool2d
    lp_pool3d
""".split()
SCALING = "mul mul_ div div_ multiply divide __mul__ __rmul__ __imul__ __truediv__ __itruediv__".split()
TRANSPARENT = frozenset(REARRANGING + HOMOGENEOUS)
CONVOLUTIONS = frozenset(f"conv{kind}{d}d" for kind in ("", "_transpose") for d in (1, 2, 3))
PRODUCTS = frozenset(["linear", "matmul", "mm", "bmm", "__matmul__", "addmm"])
FUNCTIONAL_DROPOUTS = frozenset(
    "dropout dropout_ dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout feature_dropout".split()
)


@dataclass(frozen=True)
class _Maker:
    owner: Owner
    num_outputs: int


@dataclass(frozen=True)
class _Marks:
    sites: frozenset[int] = frozenset()
    maker: _Maker | None = None
    weight: str | None = None


@dataclass
class Call:
    """One call of a dropout: whose output it masks (maker) and who consumes what it masked."""

    dropout: str
    channels: int | None  # entries of a channel-wise mask
    shape: tuple[int, ...]  # of the input
    maker: _Maker | None
    consumers: dict[str, tuple[Owner, int]] = field(default_factory=dict)

    def site(self) -> Site | None:
        """Columns of the consumers, else rows of the maker, else nothing."""
        # Rows of features have as many mask entries as features, however they are split or gathered around it.
        features = self.channels or (self.shape[1] if len(self.shape) == 2 else None)
        if self.consumers:
            owners = tuple(owner for owner, _ in self.consumers.values())
            return Site(owners, features or max(entries for _, entries in self.consumers.values()), "columns")
        if self.maker is not None:
            return Site((self.maker.owner,), min(features or self.maker.num_outputs, self.maker.num_outputs), "rows")
        return None


@dataclass
class Flow:
    """What the dry pass saw: the calls of each dropout by its name, and functional dropouts."""

    calls: dict[str, list[Call]]
    functional: list[FunctionalCall] = field(default_factory=list)


def trace(model: nn.Module, dropouts: Mapping[str, _DropoutNd], example_input: object) -> Flow:
    """Run ``model`` once on ``example_input`` and find what each of the named ``dropouts`` masks.

    Args:
        model: left as it was found: modes, random state and parameters.
        dropouts: name -> module.
        example_input: a tensor, a tuple of positional or a dict of keyword arguments.
    """
    tracker = _Tracker(model)
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.enter_context(torch.no_grad())
        stack.enter_context(evaluating(model))
        stack.enter_context(tracker.hooks(model, dropouts))
        call_model(model, example_input, within=tracker)
    flow = Flow({name: [] for name in dropouts}, tracker.functional)
    for call in tracker.calls:
        flow.calls[call.dropout].append(call)
    return flow


def call_model(model: nn.Module, example_input: object, within: TorchFunctionMode) -> None:
    """Call the model on a tensor, a tuple of positional arguments or a dict of keyword arguments."""
    try:
        with within:
            if isinstance(example_input, Mapping):
                model(**example_input)
            elif isinstance(example_input, Sequence):
                model(*example_input)
            else:
                model(example_input)
    except Exception as error:
        raise ValueError(
            f"the dry forward pass failed on example_input ({type(error).__name__}: {error}); give a batch that "
            "the model takes (a tensor, a tuple of arguments or a dict of keyword arguments)"
        ) from error


class _Tracker(TorchFunctionMode):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.functional: list[FunctionalCall] = []
        self._marks: dict[int, _Marks] = {}
        self._alive: list[Tensor] = []  # marked tensors are kept, so that no id is used twice
        self._running: list[tuple[str, nn.Module]] = []
        for name, parameter in model.named_parameters():
            self._mark(parameter, _Marks(weight=name))

    # -- marks ---------------------------------------------------------------------------------------------

    def _mark(self, value: object, marks: _Marks) -> None:
        for tensor in tree_leaves(value):
            if isinstance(tensor, Tensor):
                self._marks[id(tensor)] = marks
                self._alive.append(tensor)

    def _of(self, value: object) -> _Marks:
        return self._marks.get(id(value), _Marks())

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = _public_name(func)
        if name in FUNCTIONAL_DROPOUTS:
            self._note_functional(name, args, kwargs)
        if name in CONVOLUTIONS or name in PRODUCTS:
            self._linear(name, args, kwargs, out)
        elif name == "embedding":
            self._embedding(args, kwargs, out)
        elif (name in TRANSPARENT and not _compares_tensors(name, args)) or (
            name in SCALING and _scales_by_number(args)
        ):
            source = args[0] if args else kwargs.get("input")
            if id(source) in self._marks:
                self._mark(out, self._of(source))
        elif args and out is args[0]:
            self._mark(out, _Marks())  # an in-place function that does not commute with a mask
        return out

    # -- functions that mean something ----------------------------------------------------------------------

    def _linear(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> None:
        if name == "addmm":  # (bias, x, weight)
            args, kwargs = args[1:], {}
        x = args[0] if args else kwargs["input"]
        weight = args[1] if len(args) > 1 else kwargs.get("weight", kwargs.get("other", kwargs.get("mat2")))
        weight_name = self._of(weight).weight
        if weight is None or weight_name is None:
            return  # a product of activations (attention), nothing to own
        features = -int(name[-2]) - 1 if name in CONVOLUTIONS else -1  # (N, C, *spatial) or (..., features)
        entries, outputs = x.shape[features], out.shape[features]
        groups = outputs // weight.shape[1] if "transpose" in name else 1
        fan_in = weight.shape[1] if name in CONVOLUTIONS and "transpose" not in name else entries // groups
        self._consume(x, Owner(weight_name, fan_in), entries)
        self._mark(out, _Marks(maker=_Maker(Owner(weight_name, fan_in), outputs)))

    def _embedding(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> None:
        weight = args[1] if len(args) > 1 else kwargs["weight"]
        weight_name = self._of(weight).weight
        if weight_name is not None:
            self._mark(out, _Marks(maker=_Maker(Owner(weight_name, weight.shape[0]), out.shape[-1])))

    def _consume(self, x: object, owner: Owner, entries: int) -> None:
        for site in self._of(x).sites:
            self.calls[site].consumers[owner.weight] = (owner, entries)

    def _note_functional(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._running and isinstance(self._running[-1][1], _DropoutNd):
            return  # a module that is not swapped
        p = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
        self._note(self._running[-1][0] if self._running else "", f"F.{name}", float(p))

    def _note(self, module: str, function: str, p: float) -> None:
        call = FunctionalCall(module, function, p)
        if p > 0 and call not in self.functional:
            self.functional.append(call)

    # -- modules that mean something ------------------------------------------------------------------------

    @contextmanager
    def hooks(self, model: nn.Module, dropouts: Mapping[str, _DropoutNd]) -> Iterator[None]:
        """Watch modules during the pass; dropouts are replaced by a marker for as long."""
        with ExitStack() as stack:
            for name, module in model.named_modules():
                stack.callback(module.register_forward_pre_hook(partial(self._enter, name)).remove)
                stack.callback(module.register_forward_hook(self._leave, always_call=True).remove)
                if isinstance(module, (nn.RNNBase, nn.RNNCellBase)):
                    hook = partial(self._recurrent, name)
                    stack.callback(module.register_forward_pre_hook(hook, with_kwargs=True).remove)
                if isinstance(module, nn.MultiheadAttention):
                    hook = partial(self._attention, name)
                    stack.callback(module.register_forward_hook(hook, with_kwargs=True).remove)
                if isinstance(module, ParametrizationList):  # its output is the weight of the module it sits in
                    weight = ".".join(part for part in name.split(".") if part != "parametrizations")
                    stack.callback(module.register_forward_hook(partial(self._parametrized, weight)).remove)
            for name, dropout in dropouts.items():
                override_forward(stack, dropout, partial(self._dropout, name, dropout))
            yield

    def _enter(self, name: str, module: nn.Module, args: Any) -> None:
        self._running.append((name, module))
        weight = vars(module).get("weight")
        if isinstance(weight, Tensor):  # computed by a hook that ran before this one
            self._mark(weight, _Marks(weight=f"{name}.weight" if name else "weight"))

    def _leave(self, module: nn.Module, args: Any, out: Any) -> None:
        if self._running and self._running[-1][1] is module:
            self._running.pop()

    def _dropout(self, name: str, module: _DropoutNd, input: Tensor) -> Tensor:
        marks = self._of(input)
        channels = input.shape[0 if is_unbatched(module, input) else 1] if is_channelwise(module) else None
        self.calls.append(Call(name, channels, tuple(input.shape), marks.maker))
        out = input.view_as(input)
        # The masks of earlier dropouts lie on the output as well; its maker no longer counts: it is masked now.
        self._mark(out, replace(marks, sites=marks.sites | {len(self.calls) - 1}, maker=None))
        return out

    def _recurrent(self, name: str, module: nn.RNNBase | nn.RNNCellBase, args: Any, kwargs: Any) -> None:
        x = args[0] if args else kwargs["input"]
        x = x.data if isinstance(x, PackedSequence) else x
        for weight, _ in module.named_parameters():
            if weight in ("weight_ih", "weight_ih_l0", "weight_ih_l0_reverse"):
                self._consume(x, Owner(f"{name}.{weight}" if name else weight, module.input_size), module.input_size)
        self._note(name, type(module).__name__, float(getattr(module, "dropout", 0.0)))

    def _attention(self, name: str, module: nn.MultiheadAttention, args: Any, kwargs: Any, out: Any) -> None:
        names = ("query", "key", "value")
        inputs = {**dict(zip(names, args, strict=False)), **kwargs}
        prefix = f"{name}." if name else ""
        for role, weight in zip(names, ("q_proj_weight", "k_proj_weight", "v_proj_weight"), strict=True):
            joint = module.in_proj_weight is not None
            features = inputs[role].shape[-1]
            self._consume(inputs[role], Owner(prefix + ("in_proj_weight" if joint else weight), features), features)
        self._note(name, type(module).__name__, float(module.dropout))
        owner = Owner(f"{prefix}out_proj.weight", module.embed_dim)
        self._mark(out[0], _Marks(maker=_Maker(owner, module.embed_dim)))

    def _parametrized(self, name: str, module: nn.Module, args: Any, out: Any) -> None:
        self._mark(out, _Marks(weight=name))


def _public_name(func: Callable[..., Any]) -> str:
    """``_max_pool2d`` -> ``max_pool2d``; special methods keep their underscores."""
    name = getattr(func, "__name__", "")
    return name if name.startswith("__") else name.removeprefix("_")


def _compares_tensors(name: str, args: tuple[Any, ...]) -> bool:
    return name == "max" and len(args) > 1 and isinstance(args[1], Tensor)


def _scales_by_number(args: tuple[Any, ...]) -> bool:
    return len(args) == 2 and isinstance(args[1], (int, float)) and args[1] > 0
