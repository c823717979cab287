"""The mask and its gradient against the paper's expression written out, quadrature and closed forms."""

from __future__ import annotations

import math

import pytest
import torch
from tests.dropout.philox import philox_bits
from torch import Tensor

from concrete_dropout.dropout import concrete_dropout, kernels, native
from concrete_dropout.dropout.functional import (
    bernoulli_entropy,
    retain_scale,
    soft_drop_indicator,
    weight_term,
)
from concrete_dropout.dropout.noise import (
    BitGrid,
    integer_power,
    logistic_noise,
    open_interval_margin,
    random_bits_,
    soft_drop_,
)

pytestmark = pytest.mark.usefixtures("code")

F64 = torch.float64
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
PS = [0.01, 0.1, 0.2, 0.5, 0.8]


def written_out(x: Tensor, p_logit: Tensor, u: Tensor, temperature: float) -> Tensor:
    """The paper's expression op by op, with its logarithms of p and u."""
    p = 1 / (1 + torch.exp(-p_logit))
    drop_prob = torch.log(p) - torch.log(1 - p) + torch.log(u) - torch.log(1 - u)
    z = 1 / (1 + torch.exp(-drop_prob / temperature))
    return x * (1 - z) / (1 - p)


def mask_and_output(
    x: Tensor, p_logit: Tensor, temperature: float, mask_shape: tuple[int, ...] | None = None
) -> tuple[Tensor, Tensor]:
    """(y, z) of one draw: z is the last of the tensors kept for backward, or drawn again as backward does."""
    if not (x.requires_grad or p_logit.requires_grad):
        x = x.detach().requires_grad_()
    y = concrete_dropout(x, p_logit, temperature, mask_shape=mask_shape)
    if not hasattr(y.grad_fn, "key"):
        return y, y.grad_fn.saved_tensors[-1].detach()
    like = x.detach() if mask_shape in (None, x.shape) else None
    shape = x.shape if mask_shape is None else mask_shape
    return y, 1 - native.retained(shape, p_logit.item(), temperature, y.grad_fn.key, like)


def generator(seed: int = 7) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# -- against the expression written out --------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.1, 0.5])
@pytest.mark.parametrize("p", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("mask_shape", [(6, 5, 4), (6, 5, 1), (1, 5, 4), (5, 1), ()])
def test_values_and_gradients_are_those_of_the_expression_written_out(temperature, p, mask_shape):
    x = torch.randn(6, 5, 4, dtype=F64, requires_grad=True)
    p_logit = torch.logit(torch.tensor(p, dtype=F64)).requires_grad_()
    grad_y = torch.randn(6, 5, 4, dtype=F64)
    u = torch.rand(mask_shape, dtype=F64, generator=generator())

    y = concrete_dropout(x, p_logit, temperature, mask_shape=mask_shape, generator=generator())
    reference = written_out(x, p_logit, u, temperature)

    torch.testing.assert_close(y, reference)
    torch.testing.assert_close(
        torch.autograd.grad(y, (x, p_logit), grad_y), torch.autograd.grad(reference, (x, p_logit), grad_y)
    )


@pytest.mark.parametrize("mask_shape", [(5, 4), (5, 1)])
def test_float32_values_and_gradients_are_those_of_the_expression_on_the_same_bits(mask_shape, code):
    x = torch.randn(5, 4, requires_grad=True)
    p_logit = torch.tensor(-1.0, requires_grad=True)
    size = math.prod(mask_shape)
    if code == "compiled":
        bits = philox_bits(native.draw_key(generator()), size) - 2**31
    elif mask_shape == x.shape:
        bits = BitGrid(torch.Size([size])).draw_(generator())
    else:
        bits = random_bits_(torch.empty((size + 1) // 2, dtype=torch.int64), generator())[:size]
    u = (bits.to(F64) * 2.0**-32 + 0.5).view(mask_shape)
    x64, logit64 = (tensor.detach().to(F64).requires_grad_() for tensor in (x, p_logit))

    y = concrete_dropout(x, p_logit, mask_shape=mask_shape, generator=generator())
    reference = written_out(x64, logit64, u, 0.1)
    y.square().sum().backward()
    reference.square().sum().backward()

    # z is kept in float16; what follows from the rounded z is compared to float32 accuracy further down.
    rounding = 20 * torch.finfo(torch.float16).eps
    torch.testing.assert_close(y.to(F64), reference, rtol=0, atol=torch.finfo(torch.float16).eps * x.abs().max().item())
    torch.testing.assert_close(x.grad.to(F64), x64.grad, rtol=0, atol=rounding)
    torch.testing.assert_close(p_logit.grad.to(F64), logit64.grad, rtol=rounding, atol=rounding)


@pytest.mark.parametrize("mask_shape", [(3, 4, 2), (3, 4, 1), (4, 2)])
@pytest.mark.parametrize("check", [torch.autograd.gradcheck, torch.autograd.gradgradcheck])
def test_first_and_second_derivatives_match_finite_differences(check, mask_shape):
    x = torch.randn(3, 4, 2, dtype=F64, requires_grad=True)
    p_logit = torch.tensor(-0.5, dtype=F64, requires_grad=True)

    def dropped(x: Tensor, p_logit: Tensor) -> Tensor:
        return concrete_dropout(x, p_logit, 0.4, mask_shape=mask_shape, generator=generator())

    assert check(dropped, (x, p_logit))


def test_p_logit_per_channel_gets_a_gradient_per_channel():
    x = torch.randn(6, 3, 4, dtype=F64, requires_grad=True)
    p_logit = torch.tensor([[-2.0], [0.0], [1.0]], dtype=F64, requires_grad=True)

    def dropped(x: Tensor, p_logit: Tensor) -> Tensor:
        return concrete_dropout(x, p_logit, 0.4, mask_shape=(6, 3, 1), generator=generator())

    assert torch.autograd.gradcheck(dropped, (x, p_logit))


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gradient_for_a_single_p_logit_has_its_shape_and_dtype(shape, dtype):
    p_logit = torch.full(shape, -1.0, dtype=dtype, requires_grad=True)
    concrete_dropout(torch.randn(4, 3), p_logit).sum().backward()
    assert (p_logit.grad.shape, p_logit.grad.dtype) == (shape, dtype)


@pytest.mark.parametrize("size", [1.0, 1000.0])  # the gradient for z passes the range of float16
def test_second_derivative_is_right_in_float32(size):
    x = size * torch.rand(4, 3)

    p_logit = torch.tensor(-0.5, requires_grad=True)
    y, z = mask_and_output(x, p_logit, 0.4)
    (first,) = torch.autograd.grad(y.square().sum(), p_logit, create_graph=True)
    (second,) = torch.autograd.grad(first, p_logit)
    a, z, x64 = p_logit.detach().to(F64), z.to(F64), x.to(F64)
    # With e(a) = log of y's square: d/da = 2 (p - z/t), d2/da2 = 2 (p(1-p) - z(1-z)/t^2).
    p = torch.sigmoid(a)
    y_squared = (x64 * (1 - z) / (1 - p)).square()
    rate = 2 * (p - z / 0.4)
    expected = (y_squared * (rate.square() + 2 * (p * (1 - p) - z * (1 - z) / 0.4**2))).sum()
    torch.testing.assert_close(second.to(F64), expected, rtol=1e-4, atol=1e-4 * size**2)


@pytest.mark.parametrize("needs", ["x", "p_logit"])
@pytest.mark.parametrize("mask_shape", [(6, 4), (6, 1)])
def test_only_the_gradient_that_is_needed_is_computed(needs, mask_shape):
    x = torch.randn(6, 4, requires_grad=needs == "x")
    p_logit = torch.tensor(-1.0, requires_grad=needs == "p_logit")
    y, z = mask_and_output(x, p_logit, 0.1, mask_shape)
    y.sum().backward()
    p, z = torch.sigmoid(p_logit.detach()), z.float()
    kept = (1 - z) / (1 - p)
    if needs == "x":
        assert p_logit.grad is None
        torch.testing.assert_close(x.grad, kept.expand(6, 4))
    else:
        assert x.grad is None
        torch.testing.assert_close(p_logit.grad, (x * kept * (p - z / 0.1)).sum(), rtol=1e-4, atol=1e-5)


# -- the float32 CPU kernels -------------------------------------------------------------------------------


def channels_last(*shape: int) -> Tensor:
    return torch.randn(shape).to(memory_format=torch.channels_last)


LAYOUTS = {
    "vector of odd length": (lambda: torch.randn(7), None),
    "one element": (lambda: torch.randn(1, 1), None),
    "no dimension": (lambda: torch.randn(()), None),
    "no element": (lambda: torch.randn(0, 3), None),
    "more than one block": (lambda: torch.randn(kernels.BLOCK + 3), None),
    "exactly one block": (lambda: torch.randn(2, kernels.BLOCK // 2), None),
    "channels last": (lambda: channels_last(2, 3, 4, 5), None),
    "transposed": (lambda: torch.randn(5, 6).t(), None),
    "every other column": (lambda: torch.randn(5, 8)[:, ::2], None),
    "a slice with an offset": (lambda: torch.randn(9, 4)[3:7], None),
    "expanded": (lambda: torch.randn(1, 4).expand(5, 4), None),
    "channel-wise": (lambda: torch.randn(3, 5, 4, 4), (3, 5, 1, 1)),
    "channel-wise, channels last": (lambda: channels_last(3, 5, 4, 4), (3, 5, 1, 1)),
    "channel-wise, permuted": (lambda: torch.randn(4, 3, 5).permute(1, 2, 0), (3, 5, 1)),
    "channel-wise, expanded": (lambda: torch.randn(3, 5, 1, 1).expand(3, 5, 4, 4), (3, 5, 1, 1)),
    "channel-wise, unbatched": (lambda: torch.randn(5, 4, 4), (5, 1, 1)),
    "channel-wise, more than one block": (lambda: torch.randn(3, 2, kernels.BLOCK // 2 + 1), (3, 2, 1)),
    "channel-wise, rows longer than a block": (lambda: torch.randn(3, 1, kernels.BLOCK + 1), (3, 1, 1)),
    "channel-wise, no sample": (lambda: torch.randn(0, 3, 4, 4), (0, 3, 1, 1)),
    "channel-wise, no position": (lambda: torch.randn(2, 3, 0), (2, 3, 1)),
    "one mask per sample": (lambda: torch.randn(3, 5, 4), (3, 1, 1)),
    "one mask for all rows": (lambda: torch.randn(4, 3), (1, 3)),
    "one mask for all rows, lower rank": (lambda: torch.randn(4, 3), (3,)),
    "one mask for all samples of a map": (lambda: torch.randn(2, 3, 4), (1, 3, 1)),
    "one mask value": (lambda: torch.randn(4, 3), ()),
}


@pytest.mark.parametrize("expanded_gradient", [False, True], ids=["gradient", "expanded gradient"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_float32_on_the_cpu_follows_the_expression_for_the_mask_it_drew(layout, expanded_gradient):
    make, mask_shape = LAYOUTS[layout]
    x = make().detach().requires_grad_()
    p_logit = torch.tensor(-1.0, requires_grad=True)
    y, z = mask_and_output(x, p_logit, 0.1, mask_shape)
    grad_y = torch.randn(()).expand(x.shape) if expanded_gradient else torch.randn(x.shape)
    y.backward(grad_y)

    assert z.shape == (x.shape if mask_shape is None else mask_shape)
    p, z64, x64, grad64 = (tensor.detach().to(F64) for tensor in (torch.sigmoid(p_logit), z, x, grad_y))
    kept = (1 - z64) / (1 - p)
    products = grad64 * x64 * kept * (p - z64 / 0.1)
    torch.testing.assert_close(y.to(F64), x64 * kept, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(x.grad.to(F64), (grad64 * kept).expand(x.shape), rtol=1e-5, atol=1e-6)
    rounding = 1e-6 * products.abs().sum().item() + 1e-12
    torch.testing.assert_close(p_logit.grad.to(F64), products.sum(), rtol=0, atol=rounding)


def test_every_element_has_noise_of_its_own_across_blocks():
    _, z = mask_and_output(torch.ones(3 * kernels.BLOCK), torch.tensor(0.0), 10.0)
    first, second, third = z.float().view(3, -1)
    assert not torch.equal(first, second)
    assert not torch.equal(second, third)
    # A random walk over 2^17 values leaves the correlation of independent blocks within 4 / sqrt(2^17).
    assert abs(torch.corrcoef(torch.stack([first, second]))[0, 1]) < 4 / math.sqrt(kernels.BLOCK)


def test_output_keeps_the_layout_of_a_channels_last_input():
    x = channels_last(2, 3, 4, 5)
    y = concrete_dropout(x, torch.tensor(0.0))
    assert y.is_contiguous(memory_format=torch.channels_last)


def test_input_and_gradient_are_not_modified():
    x, grad_y = torch.randn(50, 3, requires_grad=True), torch.randn(50, 3)
    x_before, grad_before = x.detach().clone(), grad_y.clone()
    y = concrete_dropout(x, torch.tensor(0.0, requires_grad=True))
    y.backward(grad_y)
    assert torch.equal(x, x_before)
    assert torch.equal(grad_y, grad_before)


# -- finite everywhere -------------------------------------------------------------------------------------


@pytest.mark.parametrize("logit", [-40.0, -20.0, -10.0, 0.0, 5.0, 10.0, 16.0, 20.0, 40.0])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("mask_shape", [(64, 32), (64, 1)], ids=["element-wise", "channel-wise"])
def test_values_and_gradients_are_finite_for_any_logit_and_dtype(logit, dtype, mask_shape):
    x = torch.randn(64, 32, dtype=dtype, requires_grad=True)
    p_logit = torch.tensor(logit, requires_grad=True)
    y = concrete_dropout(x, p_logit, mask_shape=mask_shape)
    y.float().sum().backward()
    assert y.dtype == x.dtype
    assert x.grad.dtype == x.dtype
    for tensor in (y, x.grad, p_logit.grad):
        assert torch.isfinite(tensor).all()


@pytest.mark.parametrize("logit", [5.0, 10.0, 16.0])
def test_finite_in_float16_where_the_only_kept_entry_has_the_smallest_noise(logit):
    x = torch.full((1,), 100.0, dtype=torch.float16, requires_grad=True)
    p_logit = torch.tensor(logit, requires_grad=True)
    margin = open_interval_margin(torch.float32)
    smallest = math.log(margin) - math.log1p(-margin)
    z = torch.sigmoid((smallest + p_logit.detach()) / 0.1).to(torch.float16)
    y = x * ((1 - z) * retain_scale(p_logit, torch.float16)).to(torch.float16)
    (grad_x,) = torch.autograd.grad(y.sum(), x)
    assert z.item() < 0.01  # the entry is kept
    assert torch.isfinite(y).all()
    assert torch.isfinite(grad_x).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_p_near_zero_is_the_identity_and_near_one_drops_everything(dtype):
    x = torch.randn(64, 32).to(dtype)
    assert torch.equal(concrete_dropout(x, torch.tensor(-40.0)), x)
    assert torch.equal(concrete_dropout(x, torch.tensor(40.0)), torch.zeros_like(x))


LIMITS = torch.iinfo(torch.int32)
EXTREME_BITS = torch.tensor(
    [LIMITS.min, LIMITS.min + 1, LIMITS.min + 500, -1, 0, 1, LIMITS.max - 500, LIMITS.max - 1, LIMITS.max],
    dtype=torch.int32,
)


@pytest.mark.parametrize("temperature", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("logit", [-80.0, -40.0, -17.0, -1.0, 0.0, 1.0, 17.0, 40.0, 80.0])
def test_mask_from_extreme_random_bits_is_that_of_a_u_strictly_inside_the_unit_interval(logit, temperature):
    size = EXTREME_BITS.numel()
    z = soft_drop_(torch.empty(size), EXTREME_BITS, torch.empty(size), logit, temperature)
    smallest = 2.0**-26  # float32 tells u from 1 down to 2^-25
    u = (EXTREME_BITS.to(F64) * 2.0**-32 + 0.5).clamp(smallest, 1 - smallest)

    def at(u: Tensor) -> Tensor:
        return torch.sigmoid((logit + torch.log(u) - torch.log1p(-u)) / temperature)

    assert torch.isfinite(z).all()
    assert (z.diff() >= 0).all()
    # The last digits of u are lost at its ends: z lies between what u gives a quarter and four times as far.
    low, high = torch.where(u < 0.5, u / 4, 1 - 4 * (1 - u)), torch.where(u < 0.5, 4 * u, 1 - (1 - u) / 4)
    middle = (u - 0.5).abs() < 0.1
    ends = z.to(F64)[~middle]
    assert (ends >= at(low[~middle]) - 1e-20).all()
    assert (ends <= at(high[~middle]) + 1e-7).all()
    torch.testing.assert_close(z.to(F64)[middle], at(u[middle]), rtol=1e-5, atol=1e-20)


@pytest.mark.parametrize("exponent", range(1, 18))
def test_integer_power_multiplies(exponent):
    base = torch.tensor([0.0, 0.5, 1.0, 1.25, 3.0])
    expected = torch.tensor([value**exponent for value in base.tolist()])
    torch.testing.assert_close(integer_power(base, exponent, out=torch.empty(5)), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_uniform_bits_of_zero_and_one_give_finite_noise(dtype, monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda shape, **kwargs: torch.tensor([0.0, 1.0], dtype=kwargs["dtype"]))
    noise = logistic_noise((2,), dtype=dtype)
    assert torch.isfinite(noise).all()
    assert noise[0] < -10
    assert noise[1] > 10


def test_random_bits_are_uniform():
    # Shares below quantiles, within 4 binomial standard errors, for both halves of an int64.
    bits = random_bits_(torch.empty(100_000, dtype=torch.int64)).view(-1, 2).double() * 2.0**-32 + 0.5
    for half in bits.unbind(dim=1):
        for q in (0.001, 0.1, 0.5, 0.9, 0.999):
            share = (half < q).double().mean().item()
            assert abs(share - q) < 4 * math.sqrt(q * (1 - q) / half.numel())
    correlation = torch.corrcoef(bits.t())[0, 1]
    assert abs(correlation) < 4 / math.sqrt(bits.shape[0])


# -- memory ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("mask_shape", [(8, 6, 10, 10), (8, 6, 1, 1)], ids=["element-wise", "channel-wise"])
def test_backward_keeps_x_one_mask_and_the_logit(dtype, mask_shape, code):
    x = torch.randn(8, 6, 10, 10, dtype=dtype, requires_grad=True)
    p_logit = torch.tensor(0.0, requires_grad=True)
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        _, z = mask_and_output(x, p_logit, 0.1, mask_shape)
    assert z.shape == mask_shape
    drawn_again = code == "compiled" and dtype == torch.float32
    assert drawn_again or z.element_size() <= x.element_size()
    assert sum(kept.values()) == x.nbytes + p_logit.nbytes + (0 if drawn_again else z.nbytes)


# -- statistics --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "bias"), [(0.1, -0.00131), (0.15, -0.00172), (0.2, -0.00195)])
def test_bias_of_the_relaxation_at_temperature_a_tenth_is_below_a_fifth_of_a_percent(p, bias, expected_z):
    relative = (1 - expected_z(p, 0.1)) / (1 - p) - 1
    assert relative == pytest.approx(bias, abs=1e-5)
    assert abs(relative) < 0.002


@pytest.mark.parametrize(("p", "bias"), [(0.1, -0.0503), (0.2, -0.0611)])
def test_bias_of_the_relaxation_at_temperature_two_thirds_is_five_percent_and_more(p, bias, expected_z):
    assert (1 - expected_z(p, 2 / 3)) / (1 - p) - 1 == pytest.approx(bias, abs=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("p", PS)
def test_mean_of_the_mask_is_its_expectation(p, dtype, expected_z):
    n = 100_000
    p_logit = torch.logit(torch.tensor(p, dtype=F64))
    y, z = mask_and_output(torch.ones(n, dtype=dtype), p_logit, 0.1)
    error = z.double().std().item() / math.sqrt(n)
    assert z.double().mean().item() == pytest.approx(expected_z(p, 0.1), abs=4 * error)
    # (1 - z) / (1 - p) is rounded to the dtype, alike for every kept entry: that does not average out.
    rounding = torch.finfo(dtype).eps / 2
    expected_y = (1 - expected_z(p, 0.1)) / (1 - p)
    assert y.double().mean().item() == pytest.approx(expected_y, abs=4 * error / (1 - p) + rounding / (1 - p))


@pytest.mark.parametrize("p", PS)
def test_mean_of_the_channel_mask_is_its_expectation(p, expected_z):
    n = 100_000
    _, z = mask_and_output(torch.ones(n // 10, 10, 2), torch.logit(torch.tensor(p)), 0.1, (n // 10, 10, 1))
    error = z.double().std().item() / math.sqrt(n)
    assert z.double().mean().item() == pytest.approx(expected_z(p, 0.1), abs=4 * error)


@pytest.mark.parametrize("p", PS)
def test_the_entry_is_more_dropped_than_kept_with_probability_p(p):
    # z > 1/2 exactly when logit p + logit u > 0, at every temperature.
    n = 100_000
    z = soft_drop_indicator(torch.logit(torch.tensor(p)), 0.7, (n,), dtype=torch.float32)
    assert (z > 0.5).double().mean().item() == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / n))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_mask_of_any_precision_comes_from_float32_noise(dtype):
    z = soft_drop_indicator(torch.tensor(-2.0), 0.1, (1000,), dtype=dtype, generator=generator())
    u = torch.rand(1000, generator=generator()).to(F64)
    expected = torch.sigmoid((torch.logit(u) - 2.0) / 0.1)
    torch.testing.assert_close(z.to(F64), expected, rtol=0, atol=torch.finfo(torch.float16).eps)


# -- the two terms of the KL -------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1e-6, 0.01, 0.3, 0.5, 0.77, 0.999])
def test_entropy_is_that_of_the_formula(p):
    logit = torch.logit(torch.tensor(p, dtype=F64))
    expected = -p * math.log(p) - (1 - p) * math.log(1 - p)
    assert bernoulli_entropy(logit).item() == pytest.approx(expected, rel=1e-10)
    assert bernoulli_entropy(logit.float()).item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("logit", [-1000.0, -100.0, 100.0, 1000.0])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_entropy_and_its_gradient_vanish_far_out(logit, dtype):
    p_logit = torch.tensor(logit, dtype=dtype, requires_grad=True)
    entropy = bernoulli_entropy(p_logit)
    entropy.backward()
    assert entropy.item() == pytest.approx(0, abs=1e-30)
    assert p_logit.grad.item() == pytest.approx(0, abs=1e-30)


@pytest.mark.parametrize("logit", [-30.0, -3.0, -0.2, 0.0, 1.5, 30.0])
def test_gradient_of_the_entropy_is_minus_logit_times_p_times_one_minus_p(logit):
    p_logit = torch.tensor(logit, dtype=F64, requires_grad=True)
    bernoulli_entropy(p_logit).backward()
    p, q = 1 / (1 + math.exp(-logit)), 1 / (1 + math.exp(logit))
    assert p_logit.grad.item() == pytest.approx(-logit * p * q, rel=1e-9)


@pytest.mark.parametrize("p", [1e-4, 0.2, 0.95])
@pytest.mark.parametrize("length_scale", [1e-2, 3.0])
def test_weight_term_is_that_of_the_formula(p, length_scale):
    squared_norm = torch.tensor(7.0, dtype=F64, requires_grad=True)
    p_logit = torch.logit(torch.tensor(p, dtype=F64)).requires_grad_()
    term = weight_term(squared_norm, p_logit, length_scale)
    term.backward()
    assert term.item() == pytest.approx(length_scale**2 / 2 * 7.0 / (1 - p))
    assert squared_norm.grad.item() == pytest.approx(length_scale**2 / 2 / (1 - p))
    # d/dlogit of 1 / (1 - p) is p / (1 - p)
    assert p_logit.grad.item() == pytest.approx(length_scale**2 / 2 * 7.0 * p / (1 - p))
