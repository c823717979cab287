"""Fused operations against autograd in float64, when they are used, and what they save."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.timing import peak_bytes
from torch import Tensor, nn

from concrete_dropout import mc_predict, swap_dropout
from concrete_dropout.models import fused, fused_conv, fused_evaluation
from concrete_dropout.models.dense_block import DenseBlock
from concrete_dropout.models.fc_densenet import FCDenseNet
from concrete_dropout.models.fused_conv import norm_relu_conv, norm_relu_conv_backward, strips
from concrete_dropout.models.fused_upsampling import upsample

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SHAPES = [(2, 7, 5), (3, 2, 2), (1, 9, 4), (5, 1, 3)]


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def small_net(**options: Any) -> FCDenseNet:
    torch.manual_seed(0)
    return FCDenseNet(3, 4, **{"blocks": (2, 2, 2), "growth": 4, "first_filters": 6, **options})


@pytest.fixture
def always_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "MIN_ELEMENTS", 1)
    monkeypatch.setattr(fused_conv, "STRIP_ELEMENTS", 500)


@pytest.mark.parametrize("strip", [20, 200, 1 << 19])
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_convolution_and_its_gradients(
    shape: tuple[int, int, int], kernel: int, strip: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused_conv, "STRIP_ELEMENTS", strip)
    segments = [numbers(*shape, 4, seed=1).requires_grad_(), numbers(*shape, 6, seed=2)[..., :3].requires_grad_()]
    scale, shift = numbers(7, seed=3), numbers(7, seed=4).requires_grad_()
    weight, bias = numbers(5, 7, kernel, kernel, seed=5).requires_grad_(), numbers(5, seed=6)

    x = torch.cat(segments, dim=-1)
    affine = x * scale + shift
    y = torch.conv2d(affine.relu().permute(0, 3, 1, 2), weight, bias, padding=kernel // 2).permute(0, 2, 3, 1)
    grad = numbers(*y.shape, seed=7)
    *wanted, wanted_weight, wanted_shift, g = torch.autograd.grad(y, [*segments, weight, shift, affine], grad)

    with torch.no_grad():
        torch.testing.assert_close(norm_relu_conv(segments, scale, shift, weight, bias), y)
        found = [torch.ones_like(segment) for segment in segments]  # to be added to
        result = norm_relu_conv_backward(grad, segments, found, scale, shift, weight)
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours - 1, theirs)
    torch.testing.assert_close(result.weight, wanted_weight)
    torch.testing.assert_close(result.sums, wanted_shift)
    torch.testing.assert_close(result.products, (g * x).sum((0, 1, 2)))


@pytest.mark.parametrize(("count", "height", "width", "channels"), [(1, 300, 400, 90), (7, 9, 8, 5000), (64, 2, 2, 3)])
def test_strips_cover_every_pixel_once(count: int, height: int, width: int, channels: int) -> None:
    seen = torch.zeros(count, height, width)
    for images, rows in strips(count, height, width, channels):
        seen[images, rows] += 1
        assert seen[images, rows].numel() * channels <= max(fused_conv.STRIP_ELEMENTS, width * channels)
    assert bool((seen == 1).all())


@pytest.mark.parametrize("size", [(8, 10), (9, 10), (8, 11), (9, 11)])
def test_upsampling_and_its_gradients(size: tuple[int, int]) -> None:
    x, weight, bias = (numbers(*shape).requires_grad_() for shape in ((2, 3, 4, 5), (3, 6, 3, 3), (6,)))
    wanted = torch.conv_transpose2d(x, weight, bias, stride=2)[:, :, : size[0], : size[1]]
    y = upsample(x, weight, bias, size)
    torch.testing.assert_close(y, wanted)
    grad = numbers(*y.shape, seed=1)
    ours, theirs = (torch.autograd.grad(out, [x, weight, bias], grad) for out in (y, wanted))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.usefixtures("always_fused")
def test_a_block_takes_its_input_in_parts() -> None:
    block, x = DenseBlock(6, num_layers=2, growth=3, dropout=0.0, mode="channel"), torch.rand(2, 6, 5, 4)
    torch.testing.assert_close(block(*x.split([1, 3, 2], dim=1)), block(x))


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.usefixtures("always_fused")
def test_running_statistics_are_those_of_batch_norm(momentum: float | None) -> None:
    block = DenseBlock(3, num_layers=1, growth=2, dropout=0.0, mode="channel")
    ours, theirs = block.layers[0].norm, nn.BatchNorm2d(3, momentum=momentum)
    ours.momentum = momentum
    for seed in range(3):
        x = numbers(2, 3, 6, 5, seed=seed).float() + seed
        block(x)
        theirs(x)
    for (name, a), (_, b) in zip(ours.named_buffers(), theirs.named_buffers(), strict=True):
        torch.testing.assert_close(a, b, msg=name)


@pytest.mark.usefixtures("always_fused")
def test_a_dropout_placed_in_front_of_a_convolution_is_called() -> None:
    net, x = small_net(dropout=0.0), torch.rand(2, 3, 8, 8)
    before = net.train()(x)
    swap_dropout(net, "fixed", p=0.5, place="down.0.block.layers.1.conv", example_input=x)
    assert not torch.allclose(net(x), before, atol=1e-3)


@pytest.mark.parametrize("module", ["down.0.block.layers.1", "up.0.block.layers.0.norm", "head.conv"])
@pytest.mark.usefixtures("always_fused")
def test_hooks_are_called(module: str) -> None:
    net, called = small_net(), []
    net.get_submodule(module).register_forward_hook(lambda *_: called.append(module))
    net(torch.rand(2, 3, 8, 8))
    assert called == [module]


@pytest.mark.usefixtures("always_fused")
def test_other_dtypes_and_gradients_in_eval_mode() -> None:
    net, x = small_net().eval(), torch.rand(1, 3, 8, 8, requires_grad=True)
    net(x).sum().backward()
    with torch.no_grad():
        torch.testing.assert_close(net.double()(x.double()).float(), net.float()(x), atol=1e-5, rtol=1e-4)
        with torch.autocast("cpu", torch.bfloat16):
            assert net(x).dtype is torch.bfloat16
    assert bool((x.grad != 0).any())  # type: ignore[union-attr]


def test_small_inputs_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(fused, "train_features", lambda layers, parts: calls.append(parts[0].shape[-1]))
    block = DenseBlock(4, num_layers=1, growth=2, dropout=0.0, mode="channel")
    block(torch.rand(1, 4, 8, 8))
    assert not calls
    block(torch.rand(1, 4, 256, 256))
    assert calls == [256]


@pytest.mark.usefixtures("always_fused")
def test_the_share_of_the_stem_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three fused stacks read the stem: the first block, its transition and the last block."""
    shares: list[int] = []
    affine = fused_evaluation._affine
    monkeypatch.setattr(
        fused_evaluation, "_affine", lambda *args: (shares.append(len(args[0])), affine(*args))[1]
    )  # by the number of channels: those of the stem alone, or of all that a layer reads
    net, x = small_net(dropout=0.5), torch.rand(1, 3, 8, 8)
    counts = []
    for samples in (3, 9):
        shares.clear()
        mc_predict(net, x, "categorical", samples, seed=0, batch_samples=1)
        counts.append((shares.count(6), len(shares)))
    (few, some), (many, more) = counts
    assert many - few == 6  # the first layer of the first block reads nothing but the stem
    assert few - 3 == 2 + 1 + 2
    assert more > some


@pytest.mark.parametrize("size", [(16, 16), (21, 26)])
@pytest.mark.usefixtures("always_fused")
def test_the_reference_of_the_benchmark_is_the_same_network(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import segmentation

    net, x = small_net(dropout=0.3).train(), torch.rand(2, 3, *size)
    reference = segmentation.ConcatenatingDenseNet(net)
    outputs = []
    for model in (net, reference):
        torch.manual_seed(1)
        outputs.append(model(x))
        outputs[-1].square().mean().backward()
    torch.testing.assert_close(outputs[0], outputs[1], atol=1e-5, rtol=1e-4)
    for (name, a), b in zip(net.named_parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, atol=1e-5, rtol=1e-3, msg=name)
    for (name, a), b in zip(net.named_buffers(), reference.buffers(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4, msg=name)


def test_a_training_step_takes_less_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "MIN_ELEMENTS", 1)
    monkeypatch.setattr(fused_conv, "STRIP_ELEMENTS", 1 << 14)
    block = DenseBlock(16, num_layers=6, growth=8, dropout=0.2, mode="channel")
    x = torch.rand(2, 16, 48, 48, requires_grad=True)
    peaks = {}
    for block.fused in (True, False):
        peaks[block.fused] = peak_bytes(lambda: block(x).sum().backward())
    assert peaks[True] < 0.5 * peaks[False]
