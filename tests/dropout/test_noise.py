"""Random bits from a grid of sums: as good as independent draws, as far as masks can tell."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from concrete_dropout.dropout import concrete_dropout, kernels
from concrete_dropout.dropout.noise import BitGrid

ROWS, COLUMNS, BLOCKS = 128, BitGrid.COLUMNS, 100
SIZE = ROWS * COLUMNS


@pytest.fixture(scope="module")
def uniforms() -> Tensor:
    """(BLOCKS, ROWS, COLUMNS) values of u, from a grid per block."""
    grid, generator = BitGrid(torch.Size([SIZE])), torch.Generator().manual_seed(1)
    bits = torch.stack([grid.draw_(generator).clone() for _ in range(BLOCKS)])
    return (bits.double() * 2.0**-32 + 0.5).view(BLOCKS, ROWS, COLUMNS)


def standardised(u: Tensor, p: float) -> Tensor:
    """Whether u is above 1 - p, shifted and scaled to mean 0 and variance 1."""
    return ((u > 1 - p).double() - p) / math.sqrt(p * (1 - p))


def excess_over_independence(signs: Tensor) -> float:
    """How far the products around rectangles are from mean 0, in standard errors over blocks.

    The square of an inner product of two rows has the mean COLUMNS; what is above comes from sets of four corners.
    """
    inner = signs @ signs.transpose(1, 2)
    inner.diagonal(dim1=1, dim2=2).zero_()
    per_block = inner.square().sum(dim=(1, 2)) / (ROWS * (ROWS - 1) * COLUMNS) - 1
    return (per_block.mean() / (per_block.std() / math.sqrt(BLOCKS))).item()


def chi_square(first: Tensor, second: Tensor, cells: int = 16) -> float:
    """Of the joint distribution of two uniforms against independence, in standard deviations from its mean."""
    index = (first * cells).long() * cells + (second * cells).long()
    counts = torch.bincount(index.flatten(), minlength=cells**2).double()
    expected = counts.sum() / cells**2
    freedom = cells**2 - 1
    return (((counts - expected) ** 2 / expected).sum().item() - freedom) / math.sqrt(2 * freedom)


@pytest.mark.parametrize("q", [0.001, 0.1, 0.5, 0.9, 0.999])
def test_values_of_a_grid_are_uniform(q, uniforms):
    # Rows and columns share words, so that the shares of blocks, not single values, give the standard error.
    shares = (uniforms < q).double().mean(dim=(1, 2))
    assert abs(shares.mean().item() - q) < 4 * shares.std().item() / math.sqrt(BLOCKS)
    # and their spread is that of independent values
    assert shares.std().item() == pytest.approx(math.sqrt(q * (1 - q) / SIZE), rel=4 / math.sqrt(2 * BLOCKS))


@pytest.mark.parametrize(
    ("down", "right"), [(0, 1), (0, 2), (0, 17), (0, 128), (1, 0), (2, 0), (64, 0), (1, 1), (1, -1)]
)
def test_pairs_at_any_distance_are_independent(down, right, uniforms):
    shifted = uniforms.roll((-down, -right), dims=(1, 2))
    assert abs(chi_square(uniforms, shifted)) < 4


@pytest.mark.parametrize("p", [0.02, 0.1, 0.5, 0.9])
def test_corners_of_rectangles_do_not_give_each_other_away(p, uniforms):
    assert abs(excess_over_independence(standardised(uniforms, p))) < 4


@pytest.mark.parametrize("multiplier", [1, 0x9E3779B1 - 2**32], ids=["sums as they are", "multiplied"])
def test_the_rectangle_test_finds_grids_that_are_not_mixed_well(multiplier):
    words = torch.empty(BLOCKS, (ROWS + COLUMNS) // 2, dtype=torch.int64).random_(-(2**63), None).view(torch.int32)
    poor = (words[:, :ROWS, None] + words[:, None, ROWS:]) * multiplier
    assert excess_over_independence(standardised(poor.double() * 2.0**-32 + 0.5, 0.1)) > 40


def test_grids_drawn_one_after_the_other_are_independent(uniforms):
    assert abs(chi_square(uniforms[:-1], uniforms[1:])) < 4


def test_the_generator_decides_the_values():
    draws = [BitGrid(torch.Size([1000])).draw_(torch.Generator().manual_seed(seed)) for seed in (3, 3, 4)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 1000])
def test_any_number_of_values(size):
    assert BitGrid(torch.Size([size])).draw_().shape == (size,)


def test_masks_can_be_drawn_outside_of_inference_mode_after_being_drawn_inside():
    kernels._workspace._rooms.clear()
    x, p_logit = torch.randn(4, 3), torch.tensor(0.0)
    with torch.inference_mode():
        concrete_dropout(x, p_logit)
    concrete_dropout(x.requires_grad_(), p_logit).sum().backward()
    assert torch.isfinite(x.grad).all()
