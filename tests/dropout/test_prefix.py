"""The prefix cache: what stands in front of the first dropout runs once, and no result changes by it.

The reference is always the plain loop: ``model(x)``, again and again, under ``mc_sampling`` with the same seed.
"""

from __future__ import annotations

import random
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from concrete_dropout import mc_sampling
from concrete_dropout.dropout.passes import stochastic_passes

ROWS, WIDTH, SAMPLES = 5, 6, 20
Features = namedtuple("Features", "shallow deep")
Forward = Callable[..., Any]


class Counting(nn.Module):
    """Counts how often its module is really computed."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.count = 0

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        return self.module(*args, **kwargs)


class Model(nn.Module):
    """Layers to write small networks with; ``forward`` is given as a function of the model and its inputs."""

    def __init__(self, forward: Forward, **more: Any) -> None:
        super().__init__()
        self.run = forward
        self.counted = Counting(nn.Linear(WIDTH, WIDTH))
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.act = nn.ReLU(inplace=True)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.drop, self.other = nn.Dropout(0.5), nn.Dropout(0.3)
        self.out = nn.Linear(WIDTH, 3)
        self.scale = nn.Parameter(torch.randn(WIDTH))
        self.register_buffer("shift", torch.randn(WIDTH))
        for name, value in more.items():
            setattr(self, name, value)

    def forward(self, *inputs: Tensor) -> Any:
        return self.run(self, *inputs)


def flat(output: Any, start: int) -> Tensor:
    return torch.cat([leaf.flatten(start) for leaf in tree_leaves(output) if isinstance(leaf, Tensor)], start)


def plain_loop(model: nn.Module, inputs: tuple[Tensor, ...], samples: int = SAMPLES) -> Tensor:
    with torch.no_grad(), mc_sampling(model, seed=0):
        return torch.stack([flat(model(*inputs), 1) for _ in range(samples)])


def cached(
    model: nn.Module, inputs: tuple[Tensor, ...], batch_samples: int | None, samples: int = SAMPLES, **kw: Any
) -> Tensor:
    chunks = stochastic_passes(model, inputs, samples, seed=0, batch_samples=batch_samples, **kw)
    return torch.cat([flat(output, 2) for _, output in chunks])


def assert_as_in_loop(model: nn.Module, *inputs: Tensor, batch_samples: int | None, samples: int = SAMPLES) -> None:
    expected = plain_loop(model, inputs, samples)
    assert not torch.equal(expected[0], expected[1])
    actual = cached(model, inputs, batch_samples, samples)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.fixture
def x() -> Tensor:
    return torch.randn(ROWS, WIDTH)


batchings = pytest.mark.parametrize("batch_samples", [None, 1, 7])


# -- computed once -----------------------------------------------------------------------------------------------


def functional_chain(m: Model, x: Tensor) -> Tensor:
    return m.out(m.drop(F.relu(m.counted(x)) * 2 - m.shift))


def skip_by_concatenation(m: Model, x: Tensor) -> Tensor:
    h = m.counted(x)
    return m.out(m.second(torch.cat([m.drop(h), h], 1)[:, 3:9]))


def skip_by_addition(m: Model, x: Tensor) -> Tensor:
    h = torch.tanh(m.counted(x))
    return m.out(h + m.second(m.drop(h)))


def in_place_addition(m: Model, x: Tensor) -> Tensor:
    h = m.counted(x)
    h += x
    h *= m.scale
    return m.out(m.drop(h))


def in_place_functions(m: Model, x: Tensor) -> Tensor:
    h = m.counted(x).relu_()
    F.leaky_relu(h, 0.1, inplace=True)
    torch.sigmoid_(h)
    return m.out(m.drop(h))


def in_place_modules(m: Model, x: Tensor) -> Tensor:
    h = m.act(m.norm(m.counted(x)))
    return m.out(m.drop(m.act(m.second(h))))


def in_place_whose_result_is_not_used(m: Model, x: Tensor) -> Tensor:
    h = m.counted(x)
    m.act(h)
    return m.out(m.drop(h))


def in_place_of_a_slice(m: Model, x: Tensor) -> Tensor:
    h = m.counted(x)
    h[:, :2] += 1
    h[:, 2] = 0
    h[:, 3:].mul_(2)
    return m.out(m.drop(h))


def stochastic_addition_in_place(m: Model, x: Tensor) -> Tensor:
    h = m.counted(x)
    h += m.drop(m.first(x))
    return m.out(h)


def stochastic_assignment(m: Model, x: Tensor) -> Tensor:
    h = m.counted(x)
    h[:, :3] = m.drop(h)[:, 3:]
    h[:, 4] += m.drop(h)[:, 1]
    return m.out(h)


def buffers_like_the_input(m: Model, x: Tensor) -> Tensor:
    h = m.counted(x)
    into = torch.zeros_like(h)
    into.copy_(m.drop(h))
    return m.out(into)


def slices_of_the_input(m: Model, x: Tensor) -> Tensor:
    left, right = x[:, :3], x[:, 3:]
    h = m.counted(torch.cat([right, left], -1))
    return m.out(m.drop(h.view(-1, 2, 3).transpose(1, 2).flatten(1)))


def unpacked(m: Model, x: Tensor) -> Tensor:
    a, b = m.counted(x).view(-1, 2, 3).transpose(0, 1)
    c, d = m.first(x).chunk(2, 1)
    return m.out(m.drop(torch.cat([a + c, b * d], 1)))


def properties(m: Model, x: Tensor) -> Tensor:
    h = m.counted(x)
    return m.out(m.drop(h.T.mT.contiguous().view(h.shape[0], h.size(1)).to(h.dtype)))


def numbers_from_the_prefix(m: Model, x: Tensor) -> Tensor:
    h = m.counted(x)
    sign = 1.0 if h.mean() > 0 else -1.0
    return m.out(m.drop(h) * sign * h.abs().max().item())


def prefix_only_output(m: Model, x: Tensor) -> tuple[Tensor, Tensor]:
    h = m.counted(x)
    return m.out(m.drop(h)), m.second(h).tanh()


def dictionary_output(m: Model, x: Tensor) -> dict[str, Any]:
    h = m.counted(x)
    return {"mean": m.out(m.drop(h)), "aux": [h, {"norm": m.norm(h)}], "name": "fixed"}


def input_among_the_outputs(m: Model, x: Tensor) -> tuple[Tensor, Tensor]:
    return m.out(m.drop(m.counted(x))), x


def stored_on_the_model(m: Model, x: Tensor) -> Tensor:
    m.hidden = m.counted(x)
    m.dropped = m.drop(m.hidden)
    return m.out(m.dropped + m.hidden)


def two_dropouts(m: Model, x: Tensor) -> Tensor:
    h = m.counted(x)
    return m.out(m.other(m.second(m.drop(h))) + m.other(h) + m.drop(h))


def parameters_and_buffers(m: Model, x: Tensor) -> Tensor:
    return m.out(m.drop(m.counted(x * m.scale + m.shift)))


def other_methods_than_forward(m: Model, x: Tensor) -> Tensor:
    return m.out(m.drop(m.counted.forward(x)))


def gradients_switched_inside(m: Model, x: Tensor) -> Tensor:
    with torch.inference_mode():
        h = m.counted(x)
    return m.out(m.drop(h.clone()))


def a_token_in_front(m: Model, x: Tensor) -> Tensor:
    """The class token of a transformer: a view of a parameter."""
    tokens = torch.cat([m.scale.view(1, 1, -1).expand(x.shape[0], -1, -1), x.unsqueeze(1)], 1)
    return m.out(m.drop(m.counted(tokens)).flatten(1)[:, WIDTH:])


def a_slice_of_a_parameter(m: Model, x: Tensor) -> Tensor:
    """Position embeddings, cut to the length of the input."""
    return m.out(m.drop(m.counted(x + m.scale[: x.shape[1]])))


def embedded_positions(m: Model, x: Tensor) -> Tensor:
    return m.out(m.drop(m.counted(x + m.positions(torch.arange(x.shape[1])).squeeze(-1))))


ONCE: dict[str, Forward] = {
    function.__name__: function
    for function in (
        functional_chain,
        skip_by_concatenation,
        skip_by_addition,
        in_place_addition,
        in_place_functions,
        in_place_modules,
        in_place_whose_result_is_not_used,
        stochastic_addition_in_place,
        stochastic_assignment,
        buffers_like_the_input,
        slices_of_the_input,
        unpacked,
        properties,
        numbers_from_the_prefix,
        prefix_only_output,
        dictionary_output,
        input_among_the_outputs,
        stored_on_the_model,
        two_dropouts,
        parameters_and_buffers,
        a_token_in_front,
        a_slice_of_a_parameter,
        embedded_positions,
    )
}
MORE: dict[str, Any] = {
    "skip_by_concatenation": {"second": nn.Linear(6, 6)},
    "embedded_positions": {"positions": nn.Embedding(10, 1)},
}


@batchings
@pytest.mark.parametrize("name", ONCE)
def test_computed_once(x: Tensor, name: str, batch_samples: int | None) -> None:
    model = Model(ONCE[name], **MORE.get(name, {})).eval()
    assert_as_in_loop(model, x, batch_samples=batch_samples)
    model.counted.count = 0
    cached(model, (x,), batch_samples)
    assert model.counted.count == 1


@batchings
def test_sequential(x: Tensor, batch_samples: int | None) -> None:
    counted = Counting(nn.Linear(WIDTH, WIDTH))
    head = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.2), nn.Linear(WIDTH, 2))
    relu = nn.ReLU()  # the same object twice: Sequential has it once among its children
    model = nn.Sequential(relu, counted, relu, nn.BatchNorm1d(WIDTH), nn.Dropout(0.5), head).eval()
    assert_as_in_loop(model, x, batch_samples=batch_samples)
    counted.count = 0
    cached(model, (x,), batch_samples)
    assert counted.count == 1


class Encoder(nn.Module):
    """Features of several depths, with BatchNorm and in-place activations."""

    def __init__(self, wrap: Callable[..., Any] = list) -> None:
        super().__init__()
        self.wrap = wrap
        self.down = nn.ModuleList(nn.Conv2d(3 if i == 0 else 4, 4, 3, padding=1) for i in range(3))
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Any:
        features = []
        for conv in self.down:
            x = F.relu(self.norm(conv(x)), inplace=True)
            features.append(x)
            x = F.max_pool2d(x, 2)
        return self.wrap(features)


class UNet(nn.Module):
    def __init__(self, wrap: Callable[..., Any], read: Callable[[Any], list[Tensor]]) -> None:
        super().__init__()
        self.encoder = Counting(Encoder(wrap))
        self.read = read
        self.up = nn.ModuleList(nn.Conv2d(8, 4, 3, padding=1) for _ in range(2))
        self.drop = nn.Dropout2d(0.4)
        self.out = nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        *skips, h = self.read(self.encoder(x))
        for conv, skip in zip(self.up, reversed(skips), strict=True):
            h = F.interpolate(self.drop(h), scale_factor=2)
            h = F.relu(conv(torch.cat([h, skip], 1)), inplace=True)
        return self.out(h)


class Bag:
    """A container that torch's tree functions know nothing about."""

    def __init__(self, features: list[Tensor]) -> None:
        self.features = features


CONTAINERS: dict[str, tuple[Callable[..., Any], Callable[[Any], list[Tensor]]]] = {
    "list": (list, list),
    "tuple": (tuple, list),
    "dict": (lambda fs: {str(i): f for i, f in enumerate(fs)}, lambda d: list(d.values())),
    "nested": (lambda fs: {"a": [fs[0], (fs[1],)], "b": fs[2]}, lambda d: [d["a"][0], d["a"][1][0], d["b"]]),
    "named tuple": (lambda fs: Features(fs[:2], fs[2]), lambda f: [*f.shallow, f.deep]),
    "object": (Bag, lambda bag: bag.features),
}


@batchings
@pytest.mark.parametrize("container", CONTAINERS)
def test_u_net(container: str, batch_samples: int | None) -> None:
    model, image = UNet(*CONTAINERS[container]).eval(), torch.randn(3, 3, 8, 8)
    assert_as_in_loop(model, image, batch_samples=batch_samples)
    model.encoder.count = 0
    cached(model, (image,), batch_samples)
    assert model.encoder.count == 1 or container == "object"  # nothing is known of a container of its own


@batchings
def test_keyword_arguments_and_shared_submodules(x: Tensor, batch_samples: int | None) -> None:
    class Affine(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(WIDTH, WIDTH)

        def forward(self, h: Tensor, *, power: int = 1, function: str = "none", what: Any = None) -> Tensor:
            return self.linear(h) ** power

    def forward(m: Model, x: Tensor) -> Tensor:
        first = m.counted(x, power=1)
        second = m.counted(h=first, power=2, function="square", what=[1, 2])
        third = m.counted(x, power=3)
        return m.out(m.drop(first + second + third))

    model = Model(forward, counted=Counting(Affine())).eval()
    assert_as_in_loop(model, x, batch_samples=batch_samples)
    model.counted.count = 0
    cached(model, (x,), batch_samples)
    assert model.counted.count == 3


def test_rows_in_chunks_compute_the_prefix_once_per_chunk(x: Tensor) -> None:
    model = Model(skip_by_addition).eval()
    chunks = list(stochastic_passes(model, (x,), SAMPLES, seed=0, batch_rows=2))
    assert model.counted.count == 3
    assert {rows.start for rows, _ in chunks} == {0, 2, 4}


# -- right, cached or not ----------------------------------------------------------------------------------------


def branches_on_samples(m: Model, x: Tensor) -> Tensor:
    """A pass may need what the first one did not."""
    unread = m.first(x)
    doubled = unread * 2
    h = m.drop(m.second(x))
    if h[0].sum() > 0:
        return m.out(h + doubled)
    return m.out(h + unread + torch.tanh(unread))


def random_number_of_steps(m: Model, x: Tensor) -> Tensor:
    h, z = m.first(x), m.drop(m.second(x))
    for _ in range(int(z.abs().sum() * 10) % 4):
        h = torch.tanh(h * 1.5)
    return m.out(z + h)


def dropout_first(m: Model, x: Tensor) -> Tensor:
    return m.out(m.second(m.drop(x)))


def read_before_and_after_a_change(m: Model, x: Tensor) -> Tensor:
    h = m.first(x)
    before = m.drop(h)
    h += 1
    return m.out(before + m.other(h))


def read_before_and_after_a_change_by_a_module(m: Model, x: Tensor) -> Tensor:
    h = m.first(x)
    before = m.drop(h)
    return m.out(before + m.other(m.act(h)))


def read_then_changed_through_a_view(m: Model, x: Tensor) -> Tensor:
    h = m.first(x)
    before = m.drop(h)
    h[:, :2].add_(1)
    return m.out(before + m.other(h))


def view_read_then_base_changed(m: Model, x: Tensor) -> Tensor:
    h = m.first(x)
    before = m.drop(h.view(-1, WIDTH))
    h.relu_()
    return m.out(before + m.other(h))


def randomly_changed_through_a_view(m: Model, x: Tensor) -> Tensor:
    h = m.first(x)
    h[:, 0].add_(m.drop(m.second(x))[:, 0])
    return m.out(h)


def randomly_changed_chunk(m: Model, x: Tensor) -> Tensor:
    h = m.first(x)
    left, _ = h.chunk(2, 1)
    left *= m.drop(m.second(x))[:, :3]
    return m.out(torch.tanh(h))


def same_call_twice_changed_once(m: Model, x: Tensor) -> Tensor:
    """The second pass must not go on with stand-ins once it leaves the first one's path."""
    unread = m.counted(x)
    changed, kept = m.act(m.first(x)), m.first(x)
    return m.out(m.drop(changed) + m.other(kept) + m.drop(unread * 2))


def two_buffers_alike(m: Model, x: Tensor) -> Tensor:
    """The same call twice gives two tensors, not one."""
    h = m.first(x)
    a, b = torch.zeros_like(h), torch.zeros_like(h)
    a += m.drop(h)
    return m.out(a - b)


def two_copies_one_of_them_changed(m: Model, x: Tensor) -> Tensor:
    h = m.first(x)
    a, b = h.clone(), h.clone()
    a[:, :2] += 1
    return m.out(m.drop(a) - b)


def changed_in_inference_mode(m: Model, x: Tensor) -> Tensor:
    with torch.inference_mode():
        h = m.first(x)
        before = m.drop(h)
        h.relu_()
        after = m.drop(h)
    return m.out(before + after)


def batch_size_from_the_input(m: Model, x: Tensor) -> Tensor:
    rows = x.shape[0]
    return m.out(m.drop(m.first(x)).view(rows, 2, 3).flatten(1))


def constant_rows(m: Model, x: Tensor) -> Tensor:
    """An initial state, say: as many rows as the input, without being computed from it."""
    state = torch.ones(x.size(0), WIDTH)
    return m.out(m.drop(m.first(x)) + state)


def dropout_on_a_parameter(m: Model, x: Tensor) -> Tensor:
    return m.out(m.drop(m.first(x)) + m.other(m.scale.unsqueeze(0)))


def dropped_weights(m: Model, x: Tensor) -> Tensor:
    """DropConnect: the rows of the mask are no rows of the batch."""
    return m.out(F.linear(m.drop(m.first(x)), m.other(m.second.weight)))


def sequence_first(m: Model, x: Tensor) -> Tensor:
    steps = x.view(-1, 2, 3).repeat(1, 3, 2).transpose(0, 1)  # (time, rows, features)
    return m.out(m.drop(m.first(steps)).cumsum(0)[-1])


def time_major_rows(m: Model, x: Tensor) -> Tensor:
    """(time * rows): samples put in front of that are not in front of the rows behind the view."""
    steps = torch.stack([x * (i + 1) for i in range(4)]).flatten(0, 1)
    h = m.out(m.drop(m.first(steps))).view(4, -1, 3)
    return (h * torch.arange(4.0).view(4, 1, 1)).sum(0)


def one_value_per_row(m: Model, x: Tensor) -> Tensor:
    return m.drop(m.first(x)[:, 0]).unsqueeze(1)


def channel_dropout_on_a_matrix(m: Model, x: Tensor) -> Tensor:
    return m.out(m.channels(m.drop(m.first(x))))


def vectorised_by_vmap(m: Model, x: Tensor) -> Tensor:
    return m.out(m.drop(torch.func.vmap(m.first)(x)))


def gradient_inside(m: Model, x: Tensor) -> Tensor:
    """Forces from an energy."""
    with torch.enable_grad():
        x = x.detach().requires_grad_(True)
        energy = m.out(m.drop(torch.tanh(m.first(x)))).sum()
        return torch.autograd.grad(energy, x)[0]


def own_function(m: Model, x: Tensor) -> Tensor:
    return m.out(m.drop(Tripled.apply(m.first(x))))


def state_of_a_child(m: Model, x: Tensor) -> Tensor:
    """A child without dropout, whose result depends on what was assigned to it."""
    m.child.factor = m.drop(m.first(x))
    return m.out(m.child(x))


def object_from_a_child(m: Model, x: Tensor) -> Tensor:
    state = m.child(x)
    state.features[0] = m.drop(state.features[0])
    return m.out(state.features[0])


def object_for_a_child(m: Model, x: Tensor) -> Tensor:
    state = Bag([m.drop(m.first(x))])
    return m.out(m.child(x, state))


def stored_by_a_child(m: Model, x: Tensor) -> Tensor:
    deep = m.child(x)
    return m.out(m.drop(deep) + m.child.skip)


def buffer_written_by_a_sample(m: Model, x: Tensor) -> Tensor:
    m.shift.copy_(m.drop(m.first(x)).mean(0))
    return m.out(m.second(x) * m.shift)


def errors_are_caught_inside(m: Model, x: Tensor) -> Tensor:
    unread = m.counted(x)
    doubled, h = unread * 2, m.drop(m.first(x))
    try:
        return m.out(h + unread) if h[0].sum() > 0 else m.out(h + doubled)
    except Exception:
        return m.out(h)


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 3


class WithState(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.factor = torch.ones(())

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.factor


class GivesBag(WithState):
    def forward(self, x: Tensor) -> Bag:  # type: ignore[override]
        return Bag([self.linear(x)])


class TakesBag(WithState):
    def forward(self, x: Tensor, bag: Bag) -> Tensor:  # type: ignore[override]
        return self.linear(x) * bag.features[0]


class StoresSkip(WithState):
    def forward(self, x: Tensor) -> Tensor:
        self.skip = self.linear(x)
        return torch.tanh(self.skip)


RIGHT: dict[str, tuple[Forward, dict[str, Callable[[], nn.Module]]]] = {
    # right, though computed again in every pass: changed through a view, or part of a graph of gradients
    "in_place_of_a_slice": (in_place_of_a_slice, {}),
    "gradients_switched_inside": (gradients_switched_inside, {}),
    **{
        function.__name__: (function, {})
        for function in (
            branches_on_samples,
            random_number_of_steps,
            dropout_first,
            read_before_and_after_a_change,
            read_before_and_after_a_change_by_a_module,
            read_then_changed_through_a_view,
            view_read_then_base_changed,
            randomly_changed_through_a_view,
            randomly_changed_chunk,
            same_call_twice_changed_once,
            two_buffers_alike,
            two_copies_one_of_them_changed,
            changed_in_inference_mode,
            batch_size_from_the_input,
            constant_rows,
            dropout_on_a_parameter,
            dropped_weights,
            sequence_first,
            time_major_rows,
            one_value_per_row,
            vectorised_by_vmap,
            gradient_inside,
            own_function,
            buffer_written_by_a_sample,
            errors_are_caught_inside,
            other_methods_than_forward,
        )
    },
    "channel_dropout_on_a_matrix": (channel_dropout_on_a_matrix, {"channels": lambda: nn.Dropout1d(0.5)}),
    "state_of_a_child": (state_of_a_child, {"child": WithState}),
    "object_from_a_child": (object_from_a_child, {"child": GivesBag}),
    "object_for_a_child": (object_for_a_child, {"child": TakesBag}),
    "stored_by_a_child": (stored_by_a_child, {"child": StoresSkip}),
}


@batchings
@pytest.mark.parametrize("name", RIGHT)
def test_right_whatever_the_model_does(x: Tensor, name: str, batch_samples: int | None) -> None:
    forward, more = RIGHT[name]
    model = Model(forward, **{key: make() for key, make in more.items()}).eval()
    assert_as_in_loop(model, x, batch_samples=batch_samples)


def test_samples_that_divide_the_rows_of_a_dropped_weight(x: Tensor) -> None:
    """6 samples behind the first, 6 rows of the weight: nothing fails by chance of shapes."""
    model = Model(dropped_weights).eval()
    assert_as_in_loop(model, x, batch_samples=None, samples=7)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script. is deprecated:FutureWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit.script. is deprecated:DeprecationWarning")
@batchings
@pytest.mark.parametrize("what", ["module", "function"])
def test_scripted_parts(x: Tensor, what: str, batch_samples: int | None) -> None:
    """TorchScript does not tell Python's function modes about its calls."""

    def doubled(h: Tensor) -> Tensor:
        return h * 2 + 1

    scripted = torch.jit.script(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) if what == "module" else doubled)
    model = Model(lambda m, x: m.out(m.drop(scripted(m.first(x))))).eval()
    if what == "module":
        model.scripted = scripted
    assert_as_in_loop(model, x, batch_samples=batch_samples)


@batchings
@pytest.mark.parametrize("own_generator", [False, True])
def test_other_randomness_in_front_is_drawn_anew_in_every_pass(
    x: Tensor, own_generator: bool, batch_samples: int | None
) -> None:
    generator = torch.Generator() if own_generator else None

    class Noise(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.generator = generator

        def forward(self, h: Tensor) -> Tensor:
            return h + torch.rand(h.shape, generator=self.generator)

    def forward(m: Model, x: Tensor) -> Tensor:
        h = m.noise(m.counted(x))
        return m.drop(h) * 0 + h * 1.0

    model = Model(forward, noise=Noise()).eval()
    out = cached(model, (x,), batch_samples)
    assert len({tuple(sample.flatten().tolist()) for sample in out}) == SAMPLES


@batchings
def test_functional_randomness_between_modules(x: Tensor, batch_samples: int | None) -> None:
    def forward(m: Model, x: Tensor) -> Tensor:
        h = m.counted(x)
        h = h + torch.randn_like(h)
        F.dropout(h, 0.5, training=True, inplace=True)
        return m.drop(h) * 0 + h

    model = Model(forward).eval()
    out = cached(model, (x,), batch_samples)
    assert len({tuple(sample.flatten().tolist()) for sample in out}) == SAMPLES
    assert model.counted.count == 1


@batchings
def test_integer_inputs(batch_samples: int | None) -> None:
    tokens = torch.randint(11, (ROWS, 4))
    embed = Counting(nn.Embedding(11, WIDTH))
    model = Model(lambda m, t: m.out(m.drop(m.embed(t).mean(1)) * (t > 3).any(1, keepdim=True)), embed=embed).eval()
    assert_as_in_loop(model, tokens, batch_samples=batch_samples)
    embed.count = 0
    cached(model, (tokens,), batch_samples)
    assert embed.count == 1


@batchings
def test_the_same_tensor_twice(x: Tensor, batch_samples: int | None) -> None:
    def forward(m: Model, a: Tensor, b: Tensor) -> Tensor:
        return m.out(m.drop(m.counted(a) - m.second(b)))

    model = Model(forward).eval()
    assert_as_in_loop(model, x, x, batch_samples=batch_samples)
    different = cached(model, (x, x + 1), batch_samples)
    assert not torch.allclose(different, cached(model, (x, x), batch_samples))


@batchings
def test_inputs_that_require_gradients(x: Tensor, batch_samples: int | None) -> None:
    leaf = x.clone().requires_grad_(True)
    model = Model(in_place_addition).eval()
    out = cached(model, (leaf,), batch_samples)
    assert not out.requires_grad
    torch.testing.assert_close(out, plain_loop(model, (x,)), rtol=1e-5, atol=1e-6)


@batchings
@pytest.mark.parametrize("forward", [in_place_modules, in_place_addition, two_dropouts])
def test_inference_mode_outside(forward: Forward, batch_samples: int | None) -> None:
    model = Model(forward).eval()
    with torch.inference_mode():
        x = torch.randn(ROWS, WIDTH)
        out = cached(model, (x,), batch_samples)
    torch.testing.assert_close(out, plain_loop(model, (x.clone(),)), rtol=1e-5, atol=1e-6)


def test_inference_mode_outside_and_an_input_changed_in_place() -> None:
    model = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(WIDTH, WIDTH), nn.Dropout(0.5)).eval()
    with torch.inference_mode():
        x = torch.randn(ROWS, WIDTH)
        expected = plain_loop(model, (x.clone(),))
        torch.testing.assert_close(cached(model, (x,), None), expected, rtol=1e-5, atol=1e-6)


@batchings
def test_transformer_encoder(batch_samples: int | None) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True)
    model = nn.Sequential(
        Counting(nn.Linear(8, 8)), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(8, 2)
    ).eval()
    sequence = torch.randn(4, 5, 8)
    assert_as_in_loop(model, sequence, batch_samples=batch_samples)
    model[0].count = 0
    cached(model, (sequence,), batch_samples)
    assert model[0].count == 1


@batchings
def test_recurrent_network(batch_samples: int | None) -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LSTM(3, 5, batch_first=True), nn.GRU(5, 4, batch_first=True)
            self.drop = nn.Dropout(0.4)

        def forward(self, x: Tensor) -> Tensor:
            h, _ = self.first(x)
            return self.second(self.drop(h))[0][:, -1]

    assert_as_in_loop(Recurrent().eval(), torch.randn(4, 6, 3), batch_samples=batch_samples)


def test_stored_activations_are_real_or_unmistakable_afterwards(x: Tensor) -> None:
    """What a model stores on itself is as in a plain pass, or NaN: never memory that only looks like numbers."""

    def forward(m: Model, x: Tensor) -> Tensor:
        m.hidden = m.first(x)
        return m.out(m.drop(m.hidden * 2))

    model = Model(forward).eval()
    cached(model, (x,), None)
    with torch.no_grad():
        assert model.hidden.isnan().all() or torch.allclose(model.hidden, model.first(x))


# -- random programs ---------------------------------------------------------------------------------------------


class RandomProgram(nn.Module):
    """A random straight-line program over registers of (rows, WIDTH): chains, branches, views, in-place steps."""

    STEPS = (
        "linear linear relu tanh drop drop drop add add cat mul_param add_buffer norm block block_drop "
        "relu_ relu_module iadd iadd slice_iadd slice_set view_mul_ clone copy_into halves where"
    ).split()

    def __init__(self, seed: int) -> None:
        super().__init__()
        rng = random.Random(seed)
        self.program: list[tuple[str, int, int, int]] = []
        self.linear = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.wide = nn.ModuleList(nn.Linear(2 * WIDTH, WIDTH) for _ in range(2))
        self.block = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(inplace=True))
        self.block_drop = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Dropout(0.3), nn.Linear(WIDTH, WIDTH))
        self.norm = nn.BatchNorm1d(WIDTH)
        self.relu = nn.ReLU(inplace=True)
        self.drops = nn.ModuleList(nn.Dropout(p) for p in (0.2, 0.5))
        self.scale = nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.register_buffer("shift", torch.randn(WIDTH))
        may_change = [False]  # neither the input nor a view of it may be changed in place
        for _ in range(rng.randint(4, 14)):
            kind = rng.choice(self.STEPS)
            a, b = rng.randrange(len(may_change)), rng.randrange(len(may_change))
            changing = kind in ("relu_", "relu_module", "iadd", "slice_iadd", "slice_set", "view_mul_")
            if changing and not may_change[a]:
                continue
            self.program.append((kind, a, b, rng.randrange(6)))
            may_change.append(True)
        last = len(may_change) - 1
        self.returned = sorted({last, *(rng.randrange(last + 1) for _ in range(rng.randint(0, 2)))})
        self.program.append(("drop", last, last, 0))
        self.returned = [*self.returned, last + 1]

    def forward(self, x: Tensor) -> list[Tensor]:
        r = [x]
        for kind, a, b, k in self.program:
            r.append(self.step(kind, r[a], r[b], k))
        return [r[i] for i in self.returned]

    def step(self, kind: str, a: Tensor, b: Tensor, k: int) -> Tensor:
        match kind:
            case "linear":
                return self.linear[k % 3](a)
            case "relu":
                return F.relu(a)
            case "tanh":
                return torch.tanh(a)
            case "drop":
                return self.drops[k % 2](a)
            case "add":
                return a + b
            case "cat":
                return self.wide[k % 2](torch.cat([a, b], dim=1))
            case "mul_param":
                return a * self.scale
            case "add_buffer":
                return torch.add(a, self.shift, alpha=0.5)
            case "norm":
                return self.norm(a)
            case "block":
                return self.block(a)
            case "block_drop":
                return self.block_drop(a)
            case "relu_":
                return a.relu_()
            case "relu_module":
                return self.relu(a)
            case "iadd":
                a += b
                return a
            case "slice_iadd":
                a[:, k:] += 0.5 * b[:, k:].tanh()
                return a
            case "slice_set":
                a[:, : k + 1] = b[:, : k + 1].tanh()
                return a
            case "view_mul_":
                a[:, k].mul_(b[:, 0].tanh())
                return a
            case "clone":
                return a.clone()
            case "copy_into":
                return torch.zeros_like(a).copy_(b)
            case "halves":
                left, right = a.chunk(2, dim=1)
                return torch.cat([right, left + 1], 1)
            case "where":
                return torch.where(a > 0, a, b)
        raise AssertionError(kind)


@pytest.mark.parametrize("seed", range(0, 400, 20))
def test_random_programs(x: Tensor, seed: int) -> None:
    for program in range(seed, seed + 20):
        model = RandomProgram(program).eval()
        expected = plain_loop(model, (x,), samples=5)
        for batch_samples in (None, 1, 3):
            actual = cached(model, (x,), batch_samples, samples=5)
            torch.testing.assert_close(
                actual,
                expected,
                rtol=1e-4,
                atol=1e-5,
                msg=lambda text, p=program, b=batch_samples, m=model: (
                    f"program {p}, batch_samples={b}: {m.program} -> {m.returned}\n{text}"
                ),
            )


# -- put back ----------------------------------------------------------------------------------------------------


def traces(model: nn.Module) -> list[Any]:
    return [
        (name, m.training, vars(m).get("forward"), len(m._forward_hooks), len(m._forward_pre_hooks))
        for name, m in model.named_modules()
    ]


@batchings
@pytest.mark.parametrize("failing_pass", [1, 2, 3, None])
def test_put_back(x: Tensor, failing_pass: int | None, batch_samples: int | None) -> None:
    calls = 0

    def forward(m: Model, x: Tensor) -> Tensor:
        nonlocal calls
        h = m.act(m.counted(x))
        calls += 1
        if failing_pass is not None and calls >= failing_pass:
            raise KeyError("broken model")
        return m.out(m.drop(h))

    model = Model(forward).train()
    model.norm.eval()
    before, grad = traces(model), torch.is_grad_enabled()
    error: KeyError | None = None
    try:
        cached(model, (x,), batch_samples)
    except KeyError as caught:
        error = caught  # keeps the frames alive
    if failing_pass != 3:  # samples may be batched into two passes
        assert (error is None) is (failing_pass is None)
    assert traces(model) == before
    assert torch.is_grad_enabled() is grad


def test_put_back_when_the_passes_are_abandoned(x: Tensor) -> None:
    model = Model(skip_by_addition).train()
    before = traces(model)
    passes = stochastic_passes(model, (x,), SAMPLES, seed=0)
    next(passes)
    assert traces(model) != before
    passes.close()
    assert traces(model) == before
    assert torch.is_grad_enabled()


def test_forward_of_the_users_own_survives(x: Tensor) -> None:
    model = Model(skip_by_addition).eval()
    original = model.counted.forward
    wrapper = lambda *args: original(*args)  # noqa: E731
    model.counted.forward = wrapper
    cached(model, (x,), None)
    assert model.counted.forward is wrapper


def test_hooks_of_the_user_are_called_in_the_first_pass(x: Tensor) -> None:
    model = Model(skip_by_addition).eval()
    seen: list[Tensor] = []
    model.counted.register_forward_hook(lambda module, args, out: seen.append(out.clone()))
    cached(model, (x,), 1)
    with torch.no_grad():
        torch.testing.assert_close(seen[0], model.counted.module(x))
