"""Mask streams: the same masks whichever way samples and rows are cut, and independent of each other otherwise."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from concrete_dropout import ConcreteDropout, ConcreteDropout2d
from concrete_dropout.dropout.streams import (
    BLOCK_ELEMENTS,
    MAX_BLOCK_ROWS,
    Block,
    MaskStreams,
    block_rows,
    cut_rows,
    stream_seed,
)

pytestmark = pytest.mark.usefixtures("code")

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def draw(
    layer: nn.Module, x: Tensor, *, seed: int = 0, key: tuple[int, ...] = (0, 0), samples: range = range(1), **cut: int
) -> Tensor:
    blocks = cut_rows(cut.get("first", 0), x.shape[0], cut.get("per_block", 5))
    return MaskStreams(seed, "concrete").draw(layer, x, key, samples, blocks)


# -- cutting ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("per_block", [1, 2, 5, 7, 100])
def test_blocks_cover_every_row_once(per_block: int) -> None:
    for first in (0, 1, 4, 5, 13):
        for rows in (1, 3, 5, 12):
            blocks = cut_rows(first, rows, per_block)
            covered = [b.index * per_block + b.skip + i for b in blocks for i in range(b.rows)]
            assert covered == list(range(first, first + rows))
            assert all(b.skip + b.rows <= per_block for b in blocks)


def test_no_rows_no_blocks() -> None:
    assert cut_rows(3, 0, 5) == ()


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((10, 1), MAX_BLOCK_ROWS),
        ((10,), MAX_BLOCK_ROWS),
        ((10, 0), MAX_BLOCK_ROWS),
        ((3, BLOCK_ELEMENTS // 8), 8),
        ((3, BLOCK_ELEMENTS + 1), 1),
        ((2, 3, 512, 512), 1),
    ],
)
def test_block_rows(shape: tuple[int, ...], expected: int) -> None:
    assert block_rows(torch.empty(shape, device="meta")) == expected


def test_block_rows_ignore_the_number_of_rows() -> None:
    assert block_rows(torch.empty(1, 300)) == block_rows(torch.empty(999, 300))


# -- invariance -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layer", [ConcreteDropout(0.3), nn.Dropout(0.3)], ids=["concrete", "fixed"])
def test_masks_do_not_depend_on_how_rows_are_cut(layer: nn.Module, dtype: torch.dtype) -> None:
    x = torch.ones(23, 3, dtype=dtype)  # an odd number of entries per row: pairs of 32-bit draws straddle rows
    whole = draw(layer, x)
    rng = random.Random(0)
    for _ in range(10):
        cuts = sorted({0, 23, *rng.sample(range(1, 23), 4)})
        parts = [draw(layer, x[a:b], first=a) for a, b in itertools.pairwise(cuts)]
        torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-6, atol=0)  # SIMD rounds ends its own way


@pytest.mark.parametrize("dtype", DTYPES)
def test_masks_do_not_depend_on_how_samples_are_cut(dtype: torch.dtype) -> None:
    layer, x = ConcreteDropout(0.3), torch.ones(7, 5, dtype=dtype)
    whole = draw(layer, x, samples=range(9))
    for cuts in ([0, 9], [0, 1, 9], [0, 4, 5, 9], list(range(10))):
        parts = [draw(layer, x, samples=range(a, b)) for a, b in itertools.pairwise(cuts)]
        torch.testing.assert_close(torch.cat(parts), whole, rtol=1e-6, atol=0)


def test_drawing_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    draw(ConcreteDropout(0.3), torch.ones(20, 5))
    draw(ConcreteDropout(0.3), torch.ones(20, 5, dtype=torch.float64))
    assert torch.equal(torch.get_rng_state(), before)


def test_channelwise_masks_have_one_value_per_row_and_channel() -> None:
    masks = draw(ConcreteDropout2d(0.3), torch.ones(7, 4, 3, 3), samples=range(2))
    assert masks.shape == (2, 7, 4, 1, 1)
    wider = draw(ConcreteDropout2d(0.3), torch.ones(7, 4, 9, 5), samples=range(2))
    assert torch.equal(masks, wider)  # the size of the image is no part of the mask


# -- differences ------------------------------------------------------------------------------------------------


def _correlation(a: Tensor, b: Tensor) -> float:
    return float(torch.corrcoef(torch.stack([a.flatten().double(), b.flatten().double()]))[0, 1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_neighbouring_streams_are_uncorrelated(dtype: torch.dtype) -> None:
    """Adjacent seeds, samples, layers, calls and blocks; 5 standard errors of a correlation of n pairs."""
    layer, x = ConcreteDropout(0.5), torch.ones(40, 250, dtype=dtype)
    base = draw(layer, x, per_block=1000)
    others = {
        "seed": draw(layer, x, seed=1, per_block=1000),
        "negative seed": draw(layer, x, seed=-1, per_block=1000),
        "sample": draw(layer, x, samples=range(1, 2), per_block=1000),
        "layer": draw(layer, x, key=(1, 0), per_block=1000),
        "call": draw(layer, x, key=(0, 1), per_block=1000),
        "block": draw(layer, x, first=1000, per_block=1000),
    }
    for name, other in others.items():
        assert abs(_correlation(base, other)) < 5 / math.sqrt(x.numel()), name
    pairs = list(others.values())
    for i, a in enumerate(pairs):
        for b in pairs[:i]:
            assert abs(_correlation(a, b)) < 5 / math.sqrt(x.numel())


def test_rows_within_a_block_differ_and_are_uncorrelated() -> None:
    masks = draw(nn.Dropout(0.5), torch.ones(100, 1000), per_block=100)[0]
    corr = torch.corrcoef(masks.double())
    off = corr[~torch.eye(100, dtype=torch.bool)]
    assert off.abs().max() < 6 / math.sqrt(1000)
    assert off.square().mean().item() == pytest.approx(1 / 1000, rel=0.1)  # what independence gives


def test_blocks_differ_for_keys_that_read_alike() -> None:
    """1,11 and 11,1 must not be one key; nor may the order of its parts be lost."""
    seeds = {stream_seed(a, b, c) for a in range(13) for b in range(13) for c in range(13)}
    assert len(seeds) == 13**3
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert stream_seed(2**62 + 1, 0) != stream_seed(2**62, 0)


def test_low_bits_of_stream_seeds_are_spread() -> None:
    """torch's CPU generator takes 32 bits of its seed: those alone must already tell streams apart."""
    low = torch.tensor([stream_seed(0, sample, 0, 0, 0) & 0xFFFFFFFF for sample in range(4000)])
    assert low.unique().numel() == 4000
    assert low.double().mean().item() / 2**32 == pytest.approx(0.5, abs=5 / math.sqrt(12 * 4000))


# -- distributions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("p", "temperature"), [(0.1, 0.1), (0.5, 0.1), (0.2, 2 / 3), (0.9, 0.3)])
def test_concrete_masks_have_the_right_distribution(p: float, temperature: float, dtype: torch.dtype) -> None:
    """Kolmogorov-Smirnov on a grid: P((1 - z) <= a) = sigmoid(logit p + t logit a)."""
    n = 100_000
    layer = ConcreteDropout(p, temperature=temperature, dtype=torch.float64)
    kept = draw(layer, torch.ones(n // 100, 100, dtype=dtype), per_block=256).flatten().double() * (1 - p)
    grid = torch.sigmoid(torch.linspace(-12, 12, 97, dtype=torch.float64))
    empirical = (kept.unsqueeze(1) <= grid).double().mean(0)
    exact = torch.sigmoid(math.log(p / (1 - p)) + temperature * grid.logit())
    assert (empirical - exact).abs().max() < 1.95 / math.sqrt(n)  # exceeded with probability 0.1 %


@pytest.mark.parametrize(("p", "temperature"), [(0.1, 0.1), (0.5, 0.1), (0.3, 0.5)])
def test_mean_of_concrete_masks(p: float, temperature: float, expected_z: Callable[[float, float], float]) -> None:
    masks = draw(ConcreteDropout(p, temperature=temperature), torch.ones(4000, 100), per_block=256).double()
    error = masks.std().item() / math.sqrt(masks.numel())
    assert masks.mean().item() == pytest.approx((1 - expected_z(p, temperature)) / (1 - p), abs=4 * error)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [1e-3, 0.1, 0.5, 0.77, 0.999])
def test_hard_masks_are_zero_or_the_scale_and_drop_at_p(p: float, dtype: torch.dtype) -> None:
    n = 200_000
    concrete = ConcreteDropout(p, dtype=torch.float64)
    x = torch.ones(n // 100, 100, dtype=dtype)
    blocks = cut_rows(0, x.shape[0], 256)
    for layer in (nn.Dropout(p), concrete):
        masks = MaskStreams(0, "bernoulli").draw(layer, x, (0, 0), range(1), blocks)
        assert masks.dtype == dtype
        expected = torch.tensor([0.0, 1 / (1 - p)], dtype=dtype)
        torch.testing.assert_close(masks.unique(), expected, rtol=4 * torch.finfo(dtype).eps / (1 - p), atol=0)
        dropped = (masks == 0).double().mean().item()
        assert dropped == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / n))


def test_p_of_one_drops_everything() -> None:
    assert not draw(nn.Dropout(1.0), torch.ones(50, 50)).any()


@pytest.mark.parametrize("logit", [-40.0, 40.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_logits_stay_finite(logit: float, dtype: torch.dtype) -> None:
    layer = ConcreteDropout(0.5, dtype=torch.float64)
    with torch.no_grad():
        layer.p_logit.fill_(logit)
    masks = draw(layer, torch.ones(50, 50, dtype=dtype))
    assert torch.isfinite(masks).all()
    if logit < 0:
        torch.testing.assert_close(masks, torch.ones_like(masks))


def test_concrete_and_bernoulli_masks_round_alike() -> None:
    """The hard mask is the soft one's rounding: both come from the same uniforms."""
    layer, x = ConcreteDropout(0.3), torch.ones(50, 40)
    soft = MaskStreams(0, "concrete").draw(layer, x, (0, 0), range(1), [Block(0, 0, 50, 50)])
    hard = MaskStreams(0, "bernoulli").draw(layer, x, (0, 0), range(1), [Block(0, 0, 50, 50)])
    assert torch.equal(soft * 0.7 > 0.5, hard > 0)


def test_default_dtype_has_no_influence() -> None:
    layer, x = ConcreteDropout(0.3, dtype=torch.float32), torch.ones(30, 20, dtype=torch.float32)
    expected = draw(layer, x)
    for dtype in (torch.float64, torch.bfloat16):
        torch.set_default_dtype(dtype)
        try:
            masks = draw(layer, x)
        finally:
            torch.set_default_dtype(torch.float32)
        torch.testing.assert_close(masks, expected)


def test_unknown_mask_name() -> None:
    with pytest.raises(ValueError, match=r"mask='soft' must be one of concrete, bernoulli"):
        MaskStreams(0, "soft")  # type: ignore[arg-type]
