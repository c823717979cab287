"""The compiled masks: their noise against a reference, however the work is shared, and what stands in for them."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from tests.dropout.philox import philox, philox_bits
from torch import Tensor

from concrete_dropout.dropout import concrete_dropout, native

pytestmark = pytest.mark.skipif(not native.available(), reason="there was no C compiler when the package was installed")

KEY = 0x0123456789ABCDEF


def masks(
    shape: tuple[int, ...],
    times: Tensor | None = None,
    *,
    first: int = 0,
    sample: int = 0,
    law: float = 0.0,
    exponent: int = 1,
) -> Tensor:
    """1 - z of soft masks, 1 / (1 - p) where a hard one keeps."""
    out = torch.full(shape, float("nan"))
    native.fill_masks(out, times, native.Place(KEY, sample, shape[0], first), law, exponent)
    return out if times is not None or exponent == 0 else out / (1 + math.exp(law))


def uniforms(size: int, **settings: int) -> Tensor:
    """u of a stream's elements: at p = 1/2 and t = 1, z is u itself."""
    return 1 - masks((1, size), **settings).double().squeeze(0)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_the_reference_gives_the_published_answers() -> None:
    """Known answers of Random123 for ten rounds: of zeros, of ones, and of digits of pi."""
    assert philox((0, 0, 0, 0), (0, 0), 10) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    ones = 0xFFFFFFFF
    assert philox((ones,) * 4, (ones,) * 2, 10) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)
    digits = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)
    assert philox(*digits, 10) == (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)


@pytest.mark.parametrize("sample", [0, 1, 2**32 + 5])
@pytest.mark.parametrize("first", [0, 1, 63, 64, 1000, 2**36 + 17])
def test_noise_is_that_of_the_reference(first: int, sample: int) -> None:
    bits = philox_bits(KEY, 150, first=first, sample=sample)
    expected = (torch.div(bits, 2, rounding_mode="floor").double() + 0.5) / 2**31
    torch.testing.assert_close(uniforms(150, first=first, sample=sample), expected, rtol=0, atol=2e-7)


def test_noise_is_uniform_and_pairs_are_independent() -> None:
    n = 1 << 20
    u = uniforms(n)
    assert (u.mean().item() - 0.5) * math.sqrt(12 * n) == pytest.approx(0, abs=4)
    cells = torch.histc(u, 1024, 0, 1)
    freedom = 1023
    deviation = ((cells - n / 1024).square().sum() * 1024 / n).item()
    assert deviation == pytest.approx(freedom, abs=4 * math.sqrt(2 * freedom))
    for distance in (1, 16, 64, 4096):
        correlation = ((u[:-distance] - 0.5) * (u[distance:] - 0.5)).mean().item() * 12
        assert abs(correlation) < 4 / math.sqrt(n)


@pytest.mark.parametrize("exponent", [1, 2, 3, 7, 10, 64])
@pytest.mark.parametrize("logit", [-80.0, -17.0, -1.0, 0.0, 2.0, 17.0, 80.0])
def test_soft_masks_are_those_of_the_formula(logit: float, exponent: int) -> None:
    u = (torch.div(philox_bits(KEY, 500), 2, rounding_mode="floor").double() + 0.5) / 2**31
    expected = torch.sigmoid(-exponent * (logit + torch.log(u) - torch.log1p(-u)))
    drawn = masks((1, 500), law=logit, exponent=exponent).double().squeeze(0)
    assert torch.isfinite(drawn).all()
    torch.testing.assert_close(drawn, expected, rtol=0, atol=2e-7 * exponent)


@pytest.mark.parametrize("p", [0.0, 1e-9, 0.3, 1.0])
def test_hard_masks_are_the_soft_ones_rounded(p: float) -> None:
    u = uniforms(10_000)
    hard = masks((1, 10_000), law=p, exponent=0).squeeze(0)
    clear = (u - (1 - p)).abs() > 1e-6
    assert torch.equal(hard[clear], torch.where(u < 1 - p, 1 / (1 - min(p, 0.5)), 0.0).float()[clear])
    assert hard.unique().numel() == (2 if 1e-6 < p < 1 else 1)


def test_samples_are_streams_of_their_own() -> None:
    together = masks((3, 1000), sample=4)
    for number in range(3):
        assert torch.equal(together[number : number + 1], masks((1, 1000), sample=4 + number))
    assert not torch.equal(together[0], together[1])


def test_a_tensor_is_multiplied_whatever_its_layout() -> None:
    times = torch.randn(1000, 3).t()
    assert torch.equal(masks((3, 1000), times), 2 * masks((3, 1000)) * times)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_row_that_all_samples_share_is_not_copied(dtype: torch.dtype) -> None:
    row = torch.randn(1, 1000).to(dtype)
    shared = row.expand(3, 1000)
    assert torch.equal(masks((3, 1000), shared), masks((3, 1000), shared.clone()))


@pytest.mark.parametrize("mask_shape", [(32, 64, 50), (32, 64, 1)], ids=["element-wise", "channel-wise"])
def test_threads_do_not_change_a_bit(mask_shape: tuple[int, ...], threads: None) -> None:
    results = []
    for number in (1, 2, 3):
        torch.set_num_threads(number)
        torch.manual_seed(5)
        x, p_logit = torch.randn(32, 64, 50, requires_grad=True), torch.tensor(-1.0, requires_grad=True)
        y = concrete_dropout(x, p_logit, mask_shape=mask_shape)
        y.square().sum().backward()
        assert x.grad is not None
        assert p_logit.grad is not None
        results.append((y.detach(), x.grad, p_logit.grad))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_nothing_is_left_out_where_fewer_threads_work_than_were_asked_for() -> None:
    """OMP_THREAD_LIMIT gives a parallel region one thread, whatever number torch has."""
    script = (
        "import torch; from concrete_dropout.dropout import native; torch.set_num_threads(4);"
        "out = torch.full((1, 100_000), float('nan'));"
        f"native.fill_masks(out, None, native.Place({KEY}, 0, 1), 0.0, 1); print(out.double().sum().item() / 2)"
    )
    environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert float(done.stdout) == masks((1, 100_000)).double().sum().item()


def test_channels_last_and_contiguous_inputs_have_the_same_channel_masks() -> None:
    x, gradient = torch.randn(3, 37, 5, 4), torch.randn(3, 37, 5, 4)
    results = []
    for layout in (torch.contiguous_format, torch.channels_last):
        torch.manual_seed(1)
        given = x.to(memory_format=layout, copy=True).requires_grad_()
        p_logit = torch.tensor(-1.0, requires_grad=True)
        y = concrete_dropout(given, p_logit, mask_shape=(3, 37, 1, 1))
        y.backward(gradient)
        assert y.is_contiguous(memory_format=layout)
        assert given.grad is not None
        results.append((y.detach(), given.grad, p_logit.grad))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(("temperature", "compiled"), [(0.1, True), (0.5, True), (0.3, False), (1e-3, False)])
def test_temperatures_that_are_no_simple_fraction_are_left_to_torch(temperature: float, compiled: bool) -> None:
    y = concrete_dropout(torch.randn(4, 3, requires_grad=True), torch.tensor(0.0), temperature)
    assert hasattr(y.grad_fn, "key") is compiled


@pytest.mark.parametrize("value", ["0", "1"])
def test_the_environment_can_do_without_compiled_code(value: str) -> None:
    asked = "from concrete_dropout.dropout import native; print(native.available())"
    environment = {**os.environ, native.SWITCH: value}
    done = subprocess.run([sys.executable, "-c", asked], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(value == "1")
