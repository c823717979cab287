"""Accumulators: any chunks, any order, any dtype, against stacked float64 references."""

from __future__ import annotations

import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.strategies import pieces, seeds, tensor
from torch import Tensor

from concrete_dropout import CategoricalAccumulator, GaussianAccumulator

counts = st.integers(1, 12)
spreads = st.sampled_from([1e-4, 1.0, 30.0])
offsets = st.sampled_from([0.0, 1.0, 1e4])


def gaussian(mean: Tensor, log_var: Tensor, targets: Tensor, lengths: list[int]) -> GaussianAccumulator:
    accumulator = GaussianAccumulator(targets)
    for part in zip(mean.split(lengths), log_var.split(lengths), strict=True):
        accumulator.update(*part)
    return accumulator


@given(counts, st.integers(1, 5), spreads, offsets, seeds)
def test_gaussian_moments_and_scores(samples: int, rows: int, spread: float, offset: float, seed: int) -> None:
    mean = tensor((samples, rows), seed) * spread + offset
    log_var, targets = tensor((samples, rows), seed + 1), mean[0] + tensor((rows,), seed + 2)
    prediction = gaussian(mean, log_var, targets, pieces(samples, seed)).compute()
    exact_mean, exact_var, y = mean.double(), log_var.double(), targets.double()
    rounding = 1e-6 * (abs(offset) + spread)
    torch.testing.assert_close(prediction.mean.double(), exact_mean.mean(0), rtol=1e-5, atol=rounding)
    variance = exact_mean.var(0, correction=0)
    torch.testing.assert_close(prediction.epistemic.double(), variance, rtol=1e-3, atol=rounding**2 + 1e-12)
    torch.testing.assert_close(prediction.aleatoric.double(), exact_var.exp().mean(0), rtol=1e-5, atol=1e-8)
    density = torch.distributions.Normal(exact_mean, (exact_var / 2).exp()).log_prob(y)
    expected = torch.logsumexp(density, 0) - math.log(samples)
    assert prediction.log_likelihood is not None
    assert prediction.pit is not None
    torch.testing.assert_close(prediction.log_likelihood.double(), expected, rtol=2e-3, atol=2e-3 + 10 * rounding)
    assert bool((prediction.epistemic >= 0).all())
    assert bool(((prediction.pit >= 0) & (prediction.pit <= 1)).all())


@given(counts, st.integers(1, 5), seeds)
def test_gaussian_results_do_not_depend_on_chunks_rows_or_order(samples: int, rows: int, seed: int) -> None:
    mean, log_var, targets = tensor((samples, rows), seed), tensor((samples, rows), seed + 1), tensor((rows,), seed + 2)
    whole = gaussian(mean, log_var, targets, [samples]).compute()
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(seed))
    shuffled = gaussian(mean[order], log_var[order], targets, pieces(samples, seed)).compute()
    row_order = torch.arange(rows).flip(0)
    turned = gaussian(mean[:, row_order], log_var[:, row_order], targets[row_order], [samples]).compute()
    for name in ("mean", "epistemic", "aleatoric", "log_likelihood", "pit"):
        value = getattr(whole, name)
        torch.testing.assert_close(getattr(shuffled, name), value, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(getattr(turned, name), value[row_order])


@given(counts, st.integers(1, 4), st.integers(2, 6), st.sampled_from([0.1, 5.0, 200.0]), seeds)
def test_categorical_probabilities_and_entropies(
    samples: int, rows: int, classes: int, spread: float, seed: int
) -> None:
    logits = tensor((samples, rows, classes), seed) * spread
    targets = torch.randint(classes, (rows,), generator=torch.Generator().manual_seed(seed))
    accumulator = CategoricalAccumulator(targets)
    for part in logits.split(pieces(samples, seed)):
        accumulator.update(part)
    prediction = accumulator.compute()
    p = torch.softmax(logits.double(), 2)
    mean = p.mean(0)
    torch.testing.assert_close(prediction.probabilities.double(), mean, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(
        prediction.expected_entropy.double(), torch.special.entr(p).sum(2).mean(0), rtol=1e-4, atol=1e-5
    )
    assert prediction.log_likelihood is not None
    chosen = torch.log_softmax(logits.double(), 2)[:, torch.arange(rows), targets]
    expected = torch.logsumexp(chosen, 0) - math.log(samples)
    torch.testing.assert_close(prediction.log_likelihood.double(), expected, rtol=1e-4, atol=1e-4)
    assert bool((prediction.mutual_information >= 0).all())
    assert bool((prediction.predictive_entropy <= math.log(classes) + 1e-5).all())
    torch.testing.assert_close(prediction.probabilities.sum(1), torch.ones(rows))


@given(counts, seeds, st.sampled_from([torch.bfloat16, torch.float16, torch.float32]))
def test_duplicated_samples_change_nothing_and_narrow_types_are_summed_in_float32(
    samples: int, seed: int, dtype: torch.dtype
) -> None:
    logits = tensor((samples, 3, 4), seed, dtype)
    once, twice = CategoricalAccumulator(), CategoricalAccumulator()
    once.update(logits)
    twice.update(logits)
    twice.update(logits)
    assert once.compute().probabilities.dtype is torch.float32
    torch.testing.assert_close(once.compute().probabilities, twice.compute().probabilities)
    torch.testing.assert_close(once.compute().expected_entropy, twice.compute().expected_entropy)
