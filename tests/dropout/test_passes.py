"""stochastic_passes: samples and rows in chunks of any size, within a budget, and always the same masks."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from benchmarks.timing import PeakMemory, peak_bytes
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from concrete_dropout import ConcreteDropout, ConcreteDropout2d, mc_sampling
from concrete_dropout.dropout.passes import deterministic_pass, stochastic_passes


def mlp(width: int = 16) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(4, width),
        nn.ReLU(),
        ConcreteDropout(0.3),
        nn.Linear(width, width),
        nn.Dropout(0.2),
        nn.Linear(width, 3),
    ).eval()


class ConvNet(nn.Module):
    """Dropouts of several shapes, rows multiplied by windows, and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.drop1, self.drop2, self.drop3 = ConcreteDropout2d(0.4), nn.Dropout(0.2), nn.Dropout2d(0.3)
        self.out = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.drop3(torch.relu(self.conv2(self.drop1(torch.relu(self.conv1(x))))))
        windows = h.unfold(2, 2, 2).unfold(3, 2, 2).permute(0, 2, 3, 1, 4, 5).reshape(-1, 16)  # (rows * windows, ...)
        windows = self.drop2(windows).view(h.shape[0], -1, 4, 4)
        pooled = windows.mean((1, 3))
        return self.out(pooled), h


def loop(model: nn.Module, inputs: tuple[Tensor, ...], samples: int, **arguments: Any) -> list[Tensor]:
    with torch.no_grad(), mc_sampling(model, seed=0, **arguments):
        return [torch.cat([leaf.flatten(1) for leaf in tree_leaves(model(*inputs))], 1) for _ in range(samples)]


def collect(model: nn.Module, inputs: tuple[Tensor, ...], samples: int, **arguments: Any) -> Tensor:
    """(samples, rows, ...) from chunks in any order."""
    by_rows: dict[int, list[Tensor]] = {}
    for rows, output in stochastic_passes(model, inputs, samples, seed=0, **arguments):
        assert all(leaf.shape[1] == rows.stop - rows.start for leaf in tree_leaves(output))
        flat = torch.cat([leaf.flatten(2) for leaf in tree_leaves(output)], 2)
        by_rows.setdefault(rows.start, []).append(flat)
    return torch.cat([torch.cat(by_rows[start]) for start in sorted(by_rows)], 1)


MODELS = {
    "mlp": (mlp, lambda: (torch.randn(13, 4),)),
    "images": (lambda: ConvNet().eval(), lambda: (torch.randn(5, 2, 4, 6),)),
}


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_any_cut_gives_the_plain_loop(name: str, frozen: bool) -> None:
    make, data = MODELS[name]
    model, inputs = make(), data()
    rows, samples = inputs[0].shape[0], 9
    with torch.no_grad(), mc_sampling(model, seed=0, frozen_masks=frozen) as sampler:
        expected = []
        for _ in range(samples):
            expected.append(torch.cat([leaf.flatten(1) for leaf in tree_leaves(model(*inputs))], 1))
            if frozen:
                sampler.resample()
    rng = random.Random(0)
    cuts = [(None, None), (1, 1), (rows, samples), (rows + 5, samples + 5)]
    cuts += [(rng.randint(1, rows), rng.randint(1, samples)) for _ in range(8)]
    for batch_rows, batch_samples in cuts:
        actual = collect(
            model, inputs, samples, batch_rows=batch_rows, batch_samples=batch_samples, frozen_masks=frozen
        )
        torch.testing.assert_close(actual, torch.stack(expected), rtol=1e-5, atol=1e-6)


def test_rows_beyond_one_block_of_streams() -> None:
    """More rows than share a stream: cuts inside of blocks, at their ends and across."""
    model, x = mlp(), torch.randn(600, 4)
    expected = torch.stack(loop(model, (x,), 3))
    for batch_rows in (1000, 300, 256, 255, 17):
        torch.testing.assert_close(
            collect(model, (x,), 3, batch_rows=batch_rows), expected, rtol=1e-5, atol=1e-6, msg=str(batch_rows)
        )


def test_one_value_per_row_can_be_cut_too() -> None:
    class Squeezed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.drop = nn.Linear(4, 1), nn.Dropout(0.5)

        def forward(self, x: Tensor) -> Tensor:
            return self.drop(self.linear(x).squeeze(1)).unsqueeze(1)

    model, x = Squeezed().eval(), torch.randn(9, 4)
    expected = torch.stack(loop(model, (x,), 4))
    for batch_rows in (None, 1, 4):
        torch.testing.assert_close(collect(model, (x,), 4, batch_rows=batch_rows), expected)


def test_masks_of_all_rows_and_samples_differ() -> None:
    model = nn.Sequential(nn.Dropout(0.5))
    masks = collect(model, (torch.ones(300, 40),), 10, batch_rows=70).flatten(0, 1)
    assert masks.unique(dim=0).shape[0] == 3000


def test_order_and_shapes() -> None:
    chunks = [
        (rows, output.shape)
        for rows, output in stochastic_passes(mlp(), (torch.randn(5, 4),), 4, seed=0, batch_rows=3, batch_samples=3)
    ]
    assert chunks == [
        (slice(0, 3), (1, 3, 3)),  # the first pass notes the prefix
        (slice(0, 3), (3, 3, 3)),
        (slice(3, 5), (1, 2, 3)),
        (slice(3, 5), (3, 2, 3)),
    ]


def test_batched_samples_are_bounded() -> None:
    sizes: list[int] = []
    model = mlp()
    model[3].register_forward_pre_hook(lambda module, args: sizes.append(args[0].shape[0]))
    collect(model, (torch.randn(5, 4),), 20, batch_samples=6)
    assert max(sizes) == 30
    assert sum(sizes) == 105  # the first batch is compared with one sample by itself


def test_large_activations_are_not_batched() -> None:
    sizes: list[int] = []
    model = mlp(width=512)
    model[3].register_forward_pre_hook(lambda module, args: sizes.append(args[0].shape[0]))
    collect(model, (torch.randn(300, 4),), 5)
    assert set(sizes) == {300}


class DecidesByValues(nn.Module):
    """The sign of a sum over all rows: not the same for several samples side by side as for each."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.linear = nn.Dropout(0.5), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.linear(self.drop(x))
        return h if float(h.sum()) > 0 else -h


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("make", [DecidesByValues, lambda: nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3))])
def test_what_was_learned_of_a_model_holds_for_later_calls(make: Any, rows: int) -> None:
    model, x = make().eval(), torch.randn(rows, 4)
    reference = torch.stack(loop(model, (x,), 20))
    for batch_samples in (1, 4, 4, None, 1):  # the first call finds that there is no prefix
        torch.testing.assert_close(collect(model, (x,), 20, batch_samples=batch_samples), reference)


def test_a_prefix_that_a_model_gets_later_is_computed() -> None:
    model, x = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3)).eval(), torch.randn(5, 4)
    collect(model, (x,), 20)
    model.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    # Close, not equal: processors may round a product of many rows in another way than that of a few.
    torch.testing.assert_close(collect(model, (x,), 20), torch.stack(loop(model, (x,), 20)))


def test_a_model_without_dropout_makes_one_pass() -> None:
    model, calls = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.0)), []
    model.register_forward_hook(lambda *_: calls.append(1))
    out = collect(model, (torch.randn(5, 4),), 50)
    assert out.shape == (1, 5, 3)
    assert len(calls) == 1


def test_no_gradients_and_no_change_of_the_random_state() -> None:
    model, before = mlp().train(), torch.get_rng_state()
    out = collect(model, (torch.randn(5, 4, generator=torch.Generator().manual_seed(0)).requires_grad_(),), 3)
    assert not out.requires_grad
    assert torch.equal(torch.get_rng_state(), before)
    assert all(module.training for module in model.modules())


def test_deterministic_pass() -> None:
    model, x = ConvNet().train(), torch.randn(5, 2, 4, 4)
    out, hidden = deterministic_pass(model, (x,))
    assert model.drop1.training
    with torch.no_grad():
        expected, expected_hidden = model.eval()(x)
    assert torch.equal(out, expected.unsqueeze(0))
    assert torch.equal(hidden, expected_hidden.unsqueeze(0))


class RowsLast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(x).T


@pytest.mark.parametrize("model", [RowsLast(), nn.Sequential(nn.Dropout(0.5), nn.Flatten(0))])
def test_rows_must_come_first(model: nn.Module) -> None:
    with pytest.raises(ValueError, match=r"must have one row per input row \(5\)"):
        collect(model, (torch.randn(5, 4),), 3)
    with pytest.raises(ValueError, match=r"must have one row per input row \(5\)"):
        deterministic_pass(model, (torch.randn(5, 4),))


@pytest.mark.usefixtures("fresh_compiler")
def test_compiled_models() -> None:
    model, x = mlp(), torch.randn(6, 4)
    expected = torch.stack(loop(model, (x,), 5))
    whole = torch.compile(model, backend="eager")
    torch.testing.assert_close(collect(whole, (x,), 5), expected, rtol=1e-5, atol=1e-6)
    part = nn.Sequential(torch.compile(model[:2], backend="eager"), *model[2:]).eval()
    torch.testing.assert_close(collect(part, (x,), 5), expected, rtol=1e-5, atol=1e-6)


def test_custom_dropouts_without_streams_still_vary() -> None:
    """AlphaDropout draws from torch's default generator: no batching of samples, but other masks in every pass."""
    model = nn.Sequential(nn.Linear(4, 6), nn.AlphaDropout(0.5), nn.Linear(6, 3)).eval()
    out = collect(model, (torch.randn(5, 4),), 10)
    assert out.shape == (10, 5, 3)
    assert len({tuple(sample.flatten().tolist()) for sample in out}) == 10


# -- memory ------------------------------------------------------------------------------------------------------


def _peak(model: nn.Module, x: Tensor, samples: int, **arguments: Any) -> int:
    return peak_bytes(lambda: list(map(len, stochastic_passes(model, (x,), samples, seed=0, **arguments))))


def test_the_instrument_measures_peaks() -> None:
    with PeakMemory() as memory:
        for _ in range(3):
            a = torch.zeros(1000)  # 4 kB
            b = a + 1
            del a, b
    assert 8000 <= memory.peak < 12000


def test_memory_does_not_grow_with_samples() -> None:
    model, x = mlp(64), torch.randn(50, 4)
    # A window of 81 samples at 50 x 64 entries: both runs have whole windows behind the first pass.
    assert _peak(model, x, 325) <= _peak(model, x, 163) * 1.01


def test_memory_budget_divides_large_inputs() -> None:
    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[int] = []
            self.net = nn.Sequential(nn.Conv2d(1, 8, 1), nn.ReLU(), nn.Dropout2d(0.5), nn.Conv2d(8, 1, 1))

        def forward(self, x: Tensor) -> Tensor:
            self.seen.append(x.shape[0])
            return self.net(x)

    model, side = Wide().eval(), 512
    x = torch.randn(16, 1, side, side)
    row = (8 + 8 + 8 + 1) * side**2 * 4  # bytes of activations
    budget = 3 * row + 1
    peak = _peak(model, x, 1, memory_budget=budget)
    seen = model.seen[: len(model.seen) // 2]  # it was done twice
    assert seen[0] == 1  # a pass over one row measures
    assert max(seen[1:]) == 3
    assert sum(seen[1:]) == x.shape[0]
    assert peak <= 1.1 * budget


def test_memory_budget_holds_for_narrow_inputs_too() -> None:
    """A million points on a line through a wide network: a small input, and gigabytes of activations."""
    model, x = mlp(256), torch.randn(4096, 4)
    budget = 1 << 20
    assert _peak(model, x, 2, memory_budget=budget) <= 2 * budget


def test_more_samples_to_a_pass_than_the_budget_allows() -> None:
    """What is asked for is at the most: a pass of a billion samples would take all memory."""
    model, x = mlp(64), torch.randn(10, 4)
    passes = stochastic_passes(model, (x,), 500, seed=0, batch_samples=10**9, memory_budget=1 << 20)
    widths = [output.shape[0] for _, output in passes]
    assert sum(widths) == 500
    assert 1 < max(widths) <= (1 << 20) // (32 * 640)
