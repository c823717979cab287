"""mc_predict on random architectures: cuts, order, duplicates and dtypes, against the plain loop in float64."""

from __future__ import annotations

import copy

import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.architectures import architecture
from tests.properties.strategies import pieces, seeds
from torch import Tensor, nn

from concrete_dropout import mc_predict, mc_sampling, swap_dropout
from concrete_dropout.predictive import CategoricalPrediction, GaussianPrediction

kinds = st.sampled_from(["fixed", "concrete"])
masks = st.sampled_from(["concrete", "bernoulli"])
few = st.integers(1, 12)


def network(seed: int, kind: str) -> tuple[nn.Module, Tensor]:
    net = architecture(seed)
    swap_dropout(net.model, kind, example_input=net.x)  # type: ignore[arg-type]
    return net.model, net.x


class MeanAndVariance(nn.Module):
    """A network for regression, from one with any outputs."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        out: Tensor = self.body(x)
        return out, torch.tanh(out)


@given(seeds, few, st.integers(1, 4), st.integers(1, 20), kinds, masks)
def test_a_prefix_that_is_computed_once_and_cuts_change_nothing(
    seed: int, samples: int, batch_rows: int, batch_samples: int, kind: str, mask: str
) -> None:
    """Of what mc_predict saves itself nothing shows: it is the plain loop over passes, in float64."""
    model, x = network(seed, kind)
    arguments = {"seed": seed, "mask": mask, "batch_rows": batch_rows, "batch_samples": batch_samples}
    found = mc_predict(model, x, "categorical", samples, **arguments)  # type: ignore[arg-type]
    assert isinstance(found, CategoricalPrediction)
    with torch.no_grad(), mc_sampling(model, seed=seed, mask=mask):  # type: ignore[arg-type]
        p = torch.stack([torch.softmax(model(x).double(), dim=1) for _ in range(samples)])
    torch.testing.assert_close(found.probabilities.double(), p.mean(0), rtol=1e-4, atol=1e-5)
    entropy = torch.special.entr(p).sum(2).mean(0)
    torch.testing.assert_close(found.expected_entropy.double(), entropy, rtol=1e-4, atol=1e-5)


@given(seeds, few, st.integers(1, 4), kinds)
def test_gaussian_moments_are_those_of_the_plain_loop(seed: int, samples: int, batch_rows: int, kind: str) -> None:
    body, x = network(seed, kind)
    model = MeanAndVariance(body)
    found = mc_predict(model, x, "gaussian", samples, seed=seed, batch_rows=batch_rows)
    assert isinstance(found, GaussianPrediction)
    with torch.no_grad(), mc_sampling(model, seed=seed):
        means, log_vars = (torch.stack(part).double() for part in zip(*(model(x) for _ in range(samples)), strict=True))
    torch.testing.assert_close(found.mean.double(), means.mean(0), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.epistemic.double(), means.var(0, correction=0), rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(found.aleatoric.double(), log_vars.exp().mean(0), rtol=1e-4, atol=1e-5)


@given(seeds, few, kinds)
def test_rows_that_are_permuted_or_repeated(seed: int, samples: int, kind: str) -> None:
    """Function draws see rows one by one; with masks of their own, rows keep theirs when others come behind them."""
    model, x = network(seed, kind)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    twice = torch.cat([x, x[order]])
    one = mc_predict(model, x, "categorical", samples, seed=seed, frozen_masks=True).mean
    both = mc_predict(model, twice, "categorical", samples, seed=seed, frozen_masks=True).mean
    torch.testing.assert_close(both, torch.cat([one, one[order]]), rtol=1e-4, atol=1e-5)
    own = mc_predict(model, x, "categorical", samples, seed=seed).mean
    longer = mc_predict(model, twice, "categorical", samples, seed=seed).mean
    torch.testing.assert_close(longer[: len(x)], own, rtol=1e-4, atol=1e-5)


@given(seeds, st.sampled_from([torch.float64, torch.bfloat16]), kinds)
def test_dtypes(seed: int, dtype: torch.dtype, kind: str) -> None:
    """Results are float32 at least, finite, and without dropout those of float32 up to rounding."""
    model, x = network(seed, kind)
    other = copy.deepcopy(model).to(dtype)
    expected = mc_predict(model, x, "categorical", 0).mean
    tolerance = 1e-5 if dtype is torch.float64 else 0.1
    torch.testing.assert_close(
        mc_predict(other, x.to(dtype), "categorical", 0).mean.float(), expected, rtol=tolerance, atol=tolerance
    )
    found = mc_predict(other, x.to(dtype), "categorical", 5, seed=seed)
    assert isinstance(found, CategoricalPrediction)
    assert found.probabilities.dtype is torch.promote_types(dtype, torch.float32)
    assert bool(found.probabilities.isfinite().all())
    torch.testing.assert_close(found.probabilities.sum(1), torch.ones_like(found.probabilities.sum(1)))
    assert bool((found.mutual_information >= 0).all())


@given(seeds, st.integers(2, 10))
def test_samples_in_parts_are_a_mixture_in_any_order(seed: int, samples: int) -> None:
    """Predictions of parts of the samples, mixed by their sizes, are the prediction of all."""
    from concrete_dropout.predictive import CategoricalAccumulator, mixed

    model, x = network(seed, "concrete")
    with torch.no_grad(), mc_sampling(model, seed=seed):
        logits = torch.stack([model(x) for _ in range(samples)])
    targets = torch.zeros(logits.shape[1:2] + logits.shape[3:], dtype=torch.long)
    sizes = pieces(samples, seed)
    parts = []
    for part in logits.split(sizes):
        accumulator = CategoricalAccumulator(targets)
        accumulator.update(part)
        parts.append(accumulator.compute())
    whole = CategoricalAccumulator(targets)
    whole.update(logits)
    for way in (1, -1):
        joined = mixed(parts[::way], sizes[::way])
        for name in ("probabilities", "expected_entropy", "log_likelihood"):
            value = getattr(whole.compute(), name)
            torch.testing.assert_close(getattr(joined, name), value, rtol=1e-4, atol=1e-5)
