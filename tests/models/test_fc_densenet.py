"""FC-DenseNet: the published sizes, any input, and the fused passes against plain torch operations."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from concrete_dropout import dropout_probabilities, kl_divergence, mc_predict, swap_dropout, swap_report
from concrete_dropout.models import fused, fused_conv
from concrete_dropout.models.batch_norm import batch_statistics
from concrete_dropout.models.fc_densenet import PRESETS, FCDenseNet

KINDS = ["none", "fixed", "concrete"]


@pytest.fixture(autouse=True)
def _fused_in_many_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small images take the fused passes too, in strips of a few rows."""
    monkeypatch.setattr(fused, "MIN_ELEMENTS", 1)
    monkeypatch.setattr(fused_conv, "STRIP_ELEMENTS", 1000)


FREE = {"blocks": (2, 1, 3, 2, 1), "growth": 5, "first_filters": 7}


def make(kind: str | None = None, seed: int = 0, **options: Any) -> FCDenseNet:
    torch.manual_seed(seed)
    net = FCDenseNet(3, 4, **{**FREE, **options})
    for module in net.modules():  # statistics and scales as they are after some training
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.weight, 1, 0.2)
            nn.init.normal_(module.bias, 0, 0.2)
            nn.init.normal_(module.running_mean, 0, 0.2)
            nn.init.uniform_(module.running_var, 0.5, 2)
    if kind is not None:
        p = 0.2 if kind == "fixed" else None
        swap_dropout(net, kind, p=p, init_p=0.2, length_scale=1.0, example_input=torch.rand(1, 3, 16, 16))
    return net


@contextmanager
def plainly(net: nn.Module) -> Iterator[None]:
    """Without fused operations."""
    fused = [module for module in net.modules() if getattr(module, "fused", False)]
    assert fused
    for module in fused:
        module.fused = False
    try:
        yield
    finally:
        for module in fused:
            module.fused = True


def images(*shape: int, seed: int = 1) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("preset", "number"), [("56", 1_376_795), ("67", 3_463_243), ("103", 9_322_091), ("small", 246_707)]
)
def test_published_numbers_of_parameters(preset: str, number: int) -> None:
    net = FCDenseNet(3, 11, **PRESETS[preset])
    assert sum(parameter.numel() for parameter in net.parameters()) == number


def test_the_103_layers() -> None:
    """103 convolutions: the name of the largest network."""
    net = FCDenseNet(3, 11, **PRESETS["103"])
    assert sum(isinstance(module, nn.Conv2d | nn.ConvTranspose2d) for module in net.modules()) == 103


@pytest.mark.parametrize("size", [(4, 4), (65, 93), (37, 24), (17, 64)])
@pytest.mark.parametrize("training", [True, False])
def test_any_size(size: tuple[int, int], training: bool) -> None:
    net = make().train(training)
    assert net(images(2, 3, *size)).shape == (2, 4, *size)


@pytest.mark.parametrize("mode", ["channel", "element"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fused_training_step_is_the_plain_one(kind: str, mode: Any) -> None:
    """Loss, gradients of inputs and parameters, p among them, and running statistics, under the same masks."""
    net, x, y = make(kind, dropout_mode=mode), images(2, 3, 21, 26), torch.randint(4, (2, 21, 26))
    results = []
    for is_fused in (True, False):
        own, inputs = copy.deepcopy(net).train(), x.clone().requires_grad_()
        torch.manual_seed(5)
        if is_fused:
            logits = own(inputs)
        else:
            with plainly(own):
                logits = own(inputs)
        loss = nn.functional.cross_entropy(logits, y) + kl_divergence(own) / 1000
        loss.backward()
        results.append((own, logits, inputs.grad))
    (ours, logits, grad), (theirs, wanted, wanted_grad) = results
    torch.testing.assert_close(logits, wanted, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(grad, wanted_grad, atol=1e-6, rtol=1e-3)
    expected = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name].grad, atol=2e-5, rtol=2e-3, msg=name)
    for name, buffer in ours.named_buffers():
        torch.testing.assert_close(buffer, dict(theirs.named_buffers())[name], atol=1e-5, rtol=1e-4, msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fused_evaluation_is_the_plain_one(kind: str) -> None:
    net, x = make(kind).eval(), images(2, 3, 21, 26)
    with torch.no_grad():
        fused = net(x)
        with plainly(net):
            torch.testing.assert_close(fused, net(x), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("frozen_masks", [False, True])
@pytest.mark.parametrize("kind", ["fixed", "concrete"])
def test_fused_samples_are_the_plain_ones(kind: str, frozen_masks: bool) -> None:
    net, x = make(kind).eval(), images(2, 3, 21, 26)
    options: dict[str, Any] = {"samples": 5, "seed": 3, "frozen_masks": frozen_masks}
    fused = mc_predict(net, x, "categorical", **options)
    with plainly(net):
        plain = mc_predict(net, x, "categorical", **options)
    torch.testing.assert_close(fused.probabilities, plain.probabilities, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(fused.expected_entropy, plain.expected_entropy, atol=1e-5, rtol=1e-4)
    assert fused.epistemic.mean() > 1e-4


def test_batch_statistics_in_evaluation() -> None:
    net, x = make("none").eval(), images(3, 3, 16, 16)
    with torch.no_grad(), batch_statistics(net):
        ours = net(x)
        with plainly(net):
            torch.testing.assert_close(ours, net(x))
    with torch.no_grad():
        assert not torch.allclose(ours, net(x), atol=1e-3)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("kind", ["fixed", "concrete"])
def test_checkpointing_changes_nothing_but_memory(kind: str, fused: bool) -> None:
    net, x = make(kind).train(), images(2, 3, 16, 16)
    for module in net.modules():
        if hasattr(module, "fused"):
            module.fused = fused
    results = []
    for checkpoint in (False, True):
        own = copy.deepcopy(net)
        own.checkpoint_blocks = checkpoint
        torch.manual_seed(7)
        loss = own(x).square().mean()
        loss.backward()
        results.append(own)
    plain, ours = results
    for (name, a), (_, b) in zip(ours.named_parameters(), plain.named_parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, atol=1e-5, rtol=1e-3, msg=name)
    for (name, a), (_, b) in zip(ours.named_buffers(), plain.named_buffers(), strict=True):
        assert torch.equal(a, b), name


def test_each_dropout_masks_the_rows_of_its_own_convolution() -> None:
    net = make("concrete")
    rows = {row.module: row for row in swap_report(net).rows}
    assert len(dropout_probabilities(net)) == sum(FREE["blocks"]) + 2  # type: ignore[arg-type]
    for name, row in rows.items():
        owner = f"{name.rpartition('.')[0]}.conv"
        assert [own.removesuffix(".weight") for own in row.owners] == [owner]
        assert net.get_submodule(owner).out_channels == row.num_entries


def test_dropouts_are_listed_from_input_to_output() -> None:
    net, called = make("fixed"), []
    for name, module in net.named_modules():
        if name in dropout_probabilities(net):
            module.register_forward_hook(lambda *_, name=name: called.append(name))
    net(images(1, 3, 16, 16))
    assert list(dropout_probabilities(net)) == called


@pytest.mark.parametrize("wrong", [{"blocks": (2, 2)}, {"blocks": (1, 0, 1)}, {"growth": 0}, {"first_filters": 0}])
def test_bad_settings_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        make(**wrong)
