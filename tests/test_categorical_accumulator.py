"""The categorical accumulator works in its own memory: what that must not change, and what it saves."""

from __future__ import annotations

import math

import torch
from benchmarks.timing import peak_bytes
from torch import Tensor

from concrete_dropout import CategoricalAccumulator


def accumulated(logits: Tensor, targets: Tensor | None = None) -> CategoricalAccumulator:
    accumulator = CategoricalAccumulator(targets)
    for sample in logits:
        accumulator.update(sample.unsqueeze(0))
    return accumulator


def test_gradients_are_those_of_the_formulas() -> None:
    logits = torch.randn(4, 5, 3, 2, 2, dtype=torch.float64, requires_grad=True)
    y = torch.randint(3, (5, 2, 2))
    prediction = accumulated(logits, y).compute()
    assert prediction.log_likelihood is not None
    score = (
        prediction.predictive_entropy.sum() + 2 * prediction.expected_entropy.sum() + prediction.log_likelihood.sum()
    )
    p = logits.softmax(2)
    mean = p.mean(0)
    reference = (
        -(mean * mean.log()).sum() - 2 * (p * p.log()).sum(2).mean(0).sum() + mean.gather(1, y.unsqueeze(1)).log().sum()
    )
    (found,), (expected,) = torch.autograd.grad(score, logits), torch.autograd.grad(reference, logits)
    torch.testing.assert_close(score, reference)
    torch.testing.assert_close(found, expected)


def test_samples_of_inference_mode_and_others_may_be_mixed() -> None:
    logits, y = torch.randn(4, 5, 3), torch.randint(3, (5,))
    accumulator = CategoricalAccumulator(y)
    with torch.inference_mode():
        accumulator.update(logits[:1])
    accumulator.update(logits[1:2])
    with torch.inference_mode():
        accumulator.update(logits[2:])
    expected = logits.double().softmax(2).mean(0)
    torch.testing.assert_close(accumulator.compute().probabilities.double(), expected, rtol=1e-5, atol=1e-6)


def test_memory_of_a_map_of_logits() -> None:
    """Beyond the running means, two tensors of the size of the logits at a time: log p and p."""
    logits, y = torch.randn(1, 1, 11, 60, 80), torch.randint(11, (1, 60, 80))
    accumulator = accumulated(logits, y)
    assert peak_bytes(lambda: accumulator.update(logits)) < 2.6 * logits.nbytes  # indices of targets are int64


def test_contiguous_or_not_is_the_same() -> None:
    logits, y = torch.randn(3, 2, 5, 6, 7) * 4, torch.randint(5, (2, 6, 7))
    last = logits.movedim(2, -1).contiguous().movedim(-1, 2)
    assert not last.is_contiguous()
    a, b = accumulated(logits, y).compute(), accumulated(last, y).compute()
    torch.testing.assert_close(a.probabilities, b.probabilities)
    torch.testing.assert_close(a.log_likelihood, b.log_likelihood)
    assert (a.expected_entropy <= math.log(5) + 1e-6).all()
