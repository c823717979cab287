"""Gradient checkpointing: the second forward pass must see the masks of the first."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from concrete_dropout.dropout import ConcreteDropout, preserve_masks

pytestmark = pytest.mark.usefixtures("code")


def batch(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.linspace(-1, 1, 48, dtype=dtype).view(8, 6).requires_grad_()


def network(generator: torch.Generator | None = None, dtype: torch.dtype = torch.float32) -> nn.Sequential:
    """Two segments with two Concrete dropouts each, the same weights every time."""
    torch.manual_seed(1)

    def segment() -> nn.Sequential:
        return nn.Sequential(
            ConcreteDropout(0.3, generator=generator, dtype=dtype),
            nn.Linear(6, 6, dtype=dtype),
            nn.Tanh(),
            ConcreteDropout(0.5, generator=generator, dtype=dtype),
            nn.Linear(6, 6, dtype=dtype),
        )

    return nn.Sequential(segment(), segment())


def gradients(model: nn.Module, output: Tensor, passes: int = 1) -> list[Tensor]:
    for done in range(1, passes + 1):
        output.square().sum().backward(retain_graph=done < passes)
    return [parameter.grad for parameter in model.parameters()]


def assert_same(found: list[Tensor], expected: list[Tensor]) -> None:
    assert all(gradient.abs().sum() > 0 for gradient in expected)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)  # with and without the CPU kernels
def test_default_generator_gives_the_gradients_of_the_model_without_checkpointing(use_reentrant, dtype):
    x = batch(dtype)
    plain, checkpointed = network(dtype=dtype), network(dtype=dtype)
    torch.manual_seed(5)
    y = plain(x)
    expected = gradients(plain, y)
    torch.manual_seed(5)
    h = x
    for segment in checkpointed:
        h = checkpoint(segment, h, use_reentrant=use_reentrant)
    assert torch.equal(h, y)
    assert_same(gradients(checkpointed, h), expected)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_default_generator_goes_on_after_backward_as_if_nothing_had_been_recomputed(use_reentrant):
    model = network()
    torch.manual_seed(5)
    model(batch())
    expected = torch.rand(4)
    torch.manual_seed(5)
    h = batch()
    for segment in model:
        h = checkpoint(segment, h, use_reentrant=use_reentrant)
    h.sum().backward()
    assert torch.equal(torch.rand(4), expected)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_own_generator_without_preserve_masks_is_refused(use_reentrant):
    model = network(torch.Generator().manual_seed(3))
    y = checkpoint(model, batch(), use_reentrant=use_reentrant)
    with pytest.raises(RuntimeError, match=r"own generator .* pass context_fn=preserve_masks\(generator\)"):
        y.sum().backward()


def test_preserving_another_generator_is_refused_as_well():
    model = network(torch.Generator().manual_seed(3))
    context_fn = preserve_masks(torch.Generator())
    y = checkpoint(model, batch(), use_reentrant=False, context_fn=context_fn)
    with pytest.raises(RuntimeError, match="own generator"):
        y.sum().backward()


def test_a_refused_recomputation_does_not_allow_the_next_one():
    generator = torch.Generator().manual_seed(3)
    layer = ConcreteDropout(0.5, generator=generator)
    failing = nn.Sequential(layer, FailsTheSecondTime())
    y = checkpoint(failing, batch(), use_reentrant=False, context_fn=preserve_masks(generator))
    with pytest.raises(ValueError, match="second time"):
        y.sum().backward()
    y = checkpoint(layer, batch(), use_reentrant=False)
    with pytest.raises(RuntimeError, match="own generator"):
        y.sum().backward()


class FailsTheSecondTime(nn.Module):
    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls == 2:
            raise ValueError("second time")
        return x.exp()


def run_preserved(segments: str, passes: int = 1) -> tuple[list[Tensor], Tensor]:
    """(gradients, what the generator draws next) of a model with its own generator, cut into ``segments``."""
    generator = torch.Generator().manual_seed(3)
    model = network(generator)

    def checkpointed(function, x: Tensor) -> Tensor:
        return checkpoint(function, x, use_reentrant=False, context_fn=preserve_masks(generator))

    def nested(x: Tensor) -> Tensor:
        return model[1](checkpointed(model[0], x))

    x = batch()
    forward = {
        "none": lambda: model(x),
        "one": lambda: checkpointed(model, x),
        "two": lambda: checkpointed(model[1], checkpointed(model[0], x)),
        "nested": lambda: checkpointed(nested, x),
    }[segments]
    return gradients(model, forward(), passes), torch.rand(4, generator=generator)


@pytest.mark.parametrize("segments", ["one", "two", "nested"])
def test_preserve_masks_gives_the_gradients_of_the_model_without_checkpointing(segments):
    assert_same(run_preserved(segments)[0], run_preserved("none")[0])


@pytest.mark.parametrize("segments", ["one", "two", "nested"])
def test_own_generator_goes_on_after_backward_as_if_nothing_had_been_recomputed(segments):
    assert torch.equal(run_preserved(segments)[1], run_preserved("none")[1])


@pytest.mark.parametrize("segments", ["one", "two"])
def test_preserve_masks_serves_a_second_backward_pass_over_a_retained_graph(segments):
    assert_same(run_preserved(segments, passes=2)[0], run_preserved("none", passes=2)[0])


def test_preserve_masks_restores_several_generators():
    def run(checkpointing: bool) -> list[Tensor]:
        first, second = torch.Generator().manual_seed(3), torch.Generator().manual_seed(4)
        model = nn.Sequential(ConcreteDropout(0.3, generator=first), ConcreteDropout(0.3, generator=second))
        x = batch()
        if checkpointing:
            y = checkpoint(model, x, use_reentrant=False, context_fn=preserve_masks(first, second))
        else:
            y = model(x)
        return [*gradients(model, y), x.grad]

    assert_same(run(True), run(False))
