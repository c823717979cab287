"""mc_sampling: only dropout is stochastic, reproducibly; everything is put back afterwards."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from concrete_dropout import (
    ConcreteDropout,
    ConcreteDropout1d,
    ConcreteDropout2d,
    ConcreteDropout3d,
    mc_predict,
    mc_sampling,
    swap_dropout,
)

ROWS, FEATURES = 6, 4


def mlp(p: float = 0.5) -> nn.Sequential:
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.ReLU(), nn.Dropout(p), nn.Linear(8, 3))


@pytest.fixture
def x() -> Tensor:
    return torch.randn(ROWS, FEATURES)


@pytest.fixture(autouse=True)
def _no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def traces(model: nn.Module) -> list[Any]:
    """Everything that sampling might leave behind."""
    return [
        (
            name,
            module.training,
            vars(module).get("forward"),
            list(module._forward_hooks),
            list(module._forward_pre_hooks),
            list(module._forward_hooks_always_called),
            list(module._forward_hooks_with_kwargs),
        )
        for name, module in model.named_modules()
    ]


# -- only dropout is stochastic ----------------------------------------------------------------------------------


class Mixed(nn.Module):
    """BatchNorm, a dropout with p = 0, and a functional dropout that follows ``self.training``."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(FEATURES)
        self.idle = nn.Dropout(0.0)
        self.drop = nn.Dropout(0.5)
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        h = self.idle(F.dropout(self.norm(x), 0.9, self.training))
        self.seen.append(h)
        return self.drop(h)


@pytest.mark.parametrize("training", [False, True])
def test_everything_but_dropout_is_in_eval_mode(x: Tensor, training: bool) -> None:
    model = Mixed()
    model.norm.running_mean.uniform_(-1, 1)
    model.norm.running_var.uniform_(0.5, 2)
    state = copy.deepcopy(model.state_dict())
    expected = model.eval().norm(x)
    model.train(training)
    with mc_sampling(model, seed=0):
        assert {name: m.training for name, m in model.named_modules()} == {
            "": False,
            "norm": False,
            "idle": False,
            "drop": True,
        }
        out = [model(x) for _ in range(3)]
    for h in model.seen:
        torch.testing.assert_close(h, expected)
    assert not torch.equal(out[0], out[1])
    for name, value in model.state_dict().items():
        assert torch.equal(value, state[name]), name  # running statistics and the batch counter too


def test_outputs_are_the_input_times_zero_or_scale(x: Tensor) -> None:
    model = Mixed().eval()
    with mc_sampling(model, seed=0):
        out = model(x)
    dropped = out == 0
    assert 0 < dropped.sum() < dropped.numel()
    torch.testing.assert_close(out[~dropped], 2 * model.seen[0][~dropped])


# -- everything is put back --------------------------------------------------------------------------------------


def patchwork() -> nn.Sequential:
    """Modes that differ module by module, and a hook of the user's own."""
    model = nn.Sequential(mlp(), nn.BatchNorm1d(3), nn.Dropout(0.2))
    model[0].train()
    model[0][0].eval()
    model[0][2].eval()
    model[1].eval()
    model[2].train()
    model.register_forward_hook(lambda module, args, out: None)
    return model


def test_modes_overrides_and_hooks_are_put_back(x: Tensor) -> None:
    model = patchwork()
    before = traces(model)
    with mc_sampling(model):
        model(x)
        assert traces(model) != before
    assert traces(model) == before


def test_put_back_after_an_error_in_the_context(x: Tensor) -> None:
    model = patchwork()
    before = traces(model)
    with pytest.raises(KeyError), mc_sampling(model):  # noqa: PT012
        model(x)
        raise KeyError
    assert traces(model) == before


def test_put_back_after_an_error_in_the_model(x: Tensor) -> None:
    model = patchwork()
    before = traces(model)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), mc_sampling(model):
        model(x[:, :2])
    assert traces(model) == before


def test_put_back_after_a_refused_argument() -> None:
    model = patchwork()
    before = traces(model)
    for arguments in ({"mask": "soft"}, {"draws": 2}, {"draws": 0, "frozen_masks": True}):
        with pytest.raises(ValueError), mc_sampling(model, **arguments):  # noqa: PT011
            pytest.fail("must not get here")
    assert traces(model) == before


def test_a_pass_that_fails_does_not_spoil_the_next(x: Tensor) -> None:
    model = mlp()
    with mc_sampling(model, seed=0):
        expected = [model(x) for _ in range(2)]
    with mc_sampling(model, seed=0):
        first = model(x)
        with pytest.raises(RuntimeError):
            model(x[:, :1])
        third = model(x)
    assert torch.equal(first, expected[0])
    assert not torch.equal(third, first)


def test_the_transformer_fast_path_setting_is_put_back() -> None:
    before = torch.backends.mha.get_fastpath_enabled()
    try:
        for enabled in (True, False):
            torch.backends.mha.set_fastpath_enabled(enabled)
            with pytest.raises(KeyError), mc_sampling(mlp()):
                raise KeyError
            assert torch.backends.mha.get_fastpath_enabled() is enabled
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def test_a_forward_of_the_users_own_survives(x: Tensor) -> None:
    """Libraries that move weights between devices wrap ``module.forward`` on the instance."""
    model = mlp()
    original = model[2].forward
    wrapper = lambda input: original(input)  # noqa: E731
    model[2].forward = wrapper
    with mc_sampling(model):
        model(x)
    assert model[2].forward is wrapper


def test_nested_contexts(x: Tensor) -> None:
    model = mlp()
    before = traces(model)
    with mc_sampling(model, seed=0):
        expected = [model(x), model(x)]
    with mc_sampling(model, seed=1):
        inner_expected = model(x)
    with mc_sampling(model, seed=0):
        first = model(x)
        with mc_sampling(model, seed=1):
            inner = model(x)
        second = model(x)
    assert torch.equal(inner, inner_expected)
    assert torch.equal(first, expected[0])
    assert torch.equal(second, expected[1])
    assert traces(model) == before


def test_a_prediction_inside_of_a_context(x: Tensor) -> None:
    model = mlp()
    before = traces(model)
    with mc_sampling(model, seed=0):
        expected = [model(x), model(x)]
    with mc_sampling(model, seed=0):
        first = model(x)
        mc_predict(model, x, "gaussian", samples=5, seed=7)
        second = model(x)
    assert torch.equal(first, expected[0])
    assert torch.equal(second, expected[1])
    assert traces(model) == before


# -- seeds -------------------------------------------------------------------------------------------------------


def passes(model: nn.Module, x: Tensor, n: int = 4, **arguments: Any) -> Tensor:
    with mc_sampling(model, **arguments):
        return torch.stack([model(x) for _ in range(n)])


@pytest.mark.parametrize("seed", [0, 1, -3, 2**63])
def test_the_nth_call_is_the_same_under_the_same_seed(x: Tensor, seed: int) -> None:
    model = mlp()
    first = passes(model, x, seed=seed)
    torch.manual_seed(99)
    assert torch.equal(passes(model, x, seed=seed), first)
    assert len({tuple(out.flatten().tolist()) for out in first}) == 4
    assert not torch.equal(passes(model, x, seed=seed + 1), first)


def test_no_seed_follows_the_default_generator(x: Tensor) -> None:
    model = mlp()
    torch.manual_seed(5)
    first, second = passes(model, x), passes(model, x)
    torch.manual_seed(5)
    assert torch.equal(passes(model, x), first)
    assert not torch.equal(first, second)


def test_a_seed_leaves_the_default_generator_alone(x: Tensor) -> None:
    model, before = swap_dropout(mlp(), "concrete", example_input=x), torch.get_rng_state()
    for seed in (0, 1):
        passes(model, x, seed=seed)
    passes(model, x, seed=0, frozen_masks=True)
    assert torch.equal(torch.get_rng_state(), before)


def test_masks_do_not_depend_on_the_order_of_other_calls(x: Tensor) -> None:
    """The n-th call's masks are its own: what the calls before it were fed does not matter."""
    model = mlp()
    expected = passes(model, x, n=3, seed=0)[2]
    with mc_sampling(model, seed=0):
        model(x[:1])
        model(torch.cat([x, x]))
        assert torch.equal(model(x), expected)


def test_a_submodule_called_by_itself_gets_new_masks_every_time(x: Tensor) -> None:
    model = mlp()
    h = torch.ones(ROWS, 8)
    with mc_sampling(model, seed=0):
        outs = [model[2](h) for _ in range(3)]
        model[0].weight.zero_()
        model[0].bias.fill_(1.0)  # the root's dropout is fed the same ones
        caught: list[Tensor] = []
        handle = model[3].register_forward_pre_hook(lambda module, args: caught.append(args[0]))
        model(x)
        outs += [model[2](h)]
        model(x)
        handle.remove()
    distinct = {tuple(out.flatten().tolist()) for out in [*outs, *caught]}
    assert len(distinct) == 6


# -- frozen masks ------------------------------------------------------------------------------------------------


def test_frozen_masks_are_one_function(x: Tensor) -> None:
    model = mlp()
    with mc_sampling(model, seed=0, frozen_masks=True) as sampler:
        whole = model(x)
        torch.testing.assert_close(model(x), whole)
        torch.testing.assert_close(torch.cat([model(x[:1]), model(x[1:5]), model(x[5:])]), whole)
        torch.testing.assert_close(model(torch.cat([x, x, x]))[ROWS : 2 * ROWS], whole)
        sampler.resample()
        second = model(x)
        torch.testing.assert_close(model(x[2:3]), second[2:3])
    assert not torch.allclose(second, whole)
    with mc_sampling(model, seed=0, frozen_masks=True) as sampler:
        torch.testing.assert_close(model(x), whole)
        sampler.resample()
        torch.testing.assert_close(model(x), second)


def test_frozen_masks_against_masked_weights(x: Tensor) -> None:
    """A function draw is the network with columns of its weight masked."""
    model = mlp()
    with mc_sampling(model, seed=3, frozen_masks=True):
        column_scale = model[2](torch.ones(1, 8))
        out = model(x)
    reference = F.linear(F.relu(model[0](x)), model[3].weight * column_scale, model[3].bias)
    torch.testing.assert_close(out, reference)


def test_a_submodule_of_a_frozen_model_belongs_to_the_same_function(x: Tensor) -> None:
    """Rollouts often call the encoder and the head on their own."""
    model = mlp()
    with mc_sampling(model, seed=0, frozen_masks=True):
        before = model[2:](model[:2](x))
        whole = model(x)
        after = model[2:](model[:2](x))
    torch.testing.assert_close(before, whole)
    torch.testing.assert_close(after, whole)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.drop(x), self.drop(x)], 1)


def test_a_dropout_used_twice_has_two_masks() -> None:
    model, x = Twice(), torch.ones(3, 64)
    with mc_sampling(model, seed=0, frozen_masks=True):
        out = model(x)
        assert torch.equal(model(x), out)
        left, right = out.chunk(2, 1)
        assert not torch.equal(left, right)
        assert torch.equal(left[0], left[2])
    with mc_sampling(model, seed=0):
        left, right = model(x).chunk(2, 1)
        assert not torch.equal(left, right)


@pytest.mark.parametrize("rows_per_draw", [1, 3])
def test_draws_divide_the_batch(rows_per_draw: int) -> None:
    model, draws = mlp(), 5
    start = torch.randn(rows_per_draw, FEATURES)
    functions = []
    with mc_sampling(model, seed=0, frozen_masks=True) as sampler:
        for _ in range(2 * draws):
            functions.append(model(start))
            sampler.resample()
    with mc_sampling(model, seed=0, frozen_masks=True, draws=draws) as sampler:
        for _ in range(2):  # two steps of a rollout
            torch.testing.assert_close(model(start.repeat(draws, 1)), torch.cat(functions[:draws]))
        sampler.resample()
        torch.testing.assert_close(model(start.repeat(draws, 1)), torch.cat(functions[draws:]))


def test_draws_that_do_not_divide_the_batch(x: Tensor) -> None:
    model = mlp()
    with (
        mc_sampling(model, frozen_masks=True, draws=4),
        pytest.raises(ValueError, match=r"a batch of 6 rows cannot be divided into draws=4 equal parts"),
    ):
        model(x)


def test_draws_need_frozen_masks() -> None:
    with pytest.raises(ValueError, match=r"draws=3 needs frozen_masks=True"), mc_sampling(mlp(), draws=3):
        pass


def test_draws_below_one() -> None:
    with pytest.raises(ValueError, match=r"draws=0"), mc_sampling(mlp(), frozen_masks=True, draws=0):
        pass


def test_frozen_image_masks_are_shared_over_rows() -> None:
    model, x = ConcreteDropout2d(0.5), torch.ones(3, 5, 4, 4)
    with mc_sampling(model, seed=0, frozen_masks=True):
        out = model(x)
        assert torch.equal(model(torch.ones(1, 5, 7, 9))[0, :, 0, 0], out[0, :, 0, 0])
    assert torch.equal(out, out[:1, :, :1, :1].expand_as(out))


class SqueezedRows(nn.Module):
    """Dropout on one value per row."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(x[:, 0])


def test_frozen_masks_on_one_value_per_row_are_the_same_for_all_rows() -> None:
    model = SqueezedRows()
    with mc_sampling(model, seed=0, frozen_masks=True):
        out = model(torch.ones(20, 3))
    assert out.unique().numel() == 1


# -- gradients ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("mask", ["concrete", "bernoulli"])
def test_gradients_flow_to_inputs_and_weights(x: Tensor, frozen: bool, mask: str) -> None:
    model = swap_dropout(mlp(), "concrete", init_p=0.4, example_input=x).double()
    x = x.double()
    with torch.enable_grad():
        x.requires_grad_(True)
        with mc_sampling(model, seed=0, frozen_masks=frozen, mask=mask):
            out = model(x)
        with mc_sampling(model, seed=0, frozen_masks=frozen, mask=mask):
            caught: list[Tensor] = []
            model[2].register_forward_hook(lambda module, args, out: caught.append(out / args[0]))
            h = model[0](x)
            model(x)
        out.sum().backward()
        scale = torch.where(h > 0, caught[0], torch.zeros_like(h)).detach()  # d out / d h, up to the last weight
        reference = (scale * model[3].weight.sum(0)) @ model[0].weight
    torch.testing.assert_close(x.grad, reference.detach())
    assert model[0].weight.grad is not None
    assert model[2].p_logit.grad is None


def test_frozen_masks_drawn_without_gradients_serve_with_gradients(x: Tensor) -> None:
    """A rollout in inference mode first, then a gradient through the same function."""
    model = mlp()
    for quiet in (torch.no_grad, torch.inference_mode):
        with mc_sampling(model, seed=0, frozen_masks=True):
            with quiet():
                expected = model(x).clone()
            with torch.enable_grad():
                leaf = x.clone().requires_grad_(True)
                out = model(leaf)
                out.sum().backward()
        torch.testing.assert_close(out.detach(), expected)
        assert leaf.grad is not None


# -- masks by layer ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", ["concrete", "bernoulli"])
def test_mask_kinds_of_concrete_layers(mask: str) -> None:
    p = 0.3
    layer = ConcreteDropout(p)
    with mc_sampling(layer, seed=0, mask=mask):
        out = layer(torch.ones(2000, 50))
    hard = (out < 1e-6) | torch.isclose(out, torch.tensor(1 / (1 - p)))
    if mask == "bernoulli":
        torch.testing.assert_close(out.unique(), torch.tensor([0.0, 1 / (1 - p)]))
        assert (out == 0).float().mean().item() == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / out.numel()))
    else:
        assert 0.01 < (~hard).float().mean() < 0.5


def test_fixed_layers_are_hard_under_either_mask() -> None:
    for mask in ("concrete", "bernoulli"):
        layer = nn.Dropout(0.25)
        with mc_sampling(layer, seed=0, mask=mask):
            torch.testing.assert_close(layer(torch.ones(50, 50)).unique(), torch.tensor([0.0, 4 / 3]))


FEATURE_LAYERS = [  # the class, the input, its number of spatial dimensions
    (nn.Dropout1d, (40, 30, 5), 1),
    (nn.Dropout2d, (40, 30, 3, 4), 2),
    (nn.Dropout3d, (40, 30, 2, 3, 2), 3),
    (ConcreteDropout1d, (40, 30, 5), 1),
    (ConcreteDropout2d, (40, 30, 3, 4), 2),
    (ConcreteDropout3d, (40, 30, 2, 3, 2), 3),
    (nn.Dropout1d, (30, 5), 1),  # (C, L), without rows
    (nn.Dropout3d, (30, 2, 3, 2), 3),
    (ConcreteDropout1d, (30, 5), 1),
]


@pytest.mark.parametrize(("cls", "shape", "spatial"), FEATURE_LAYERS)
def test_channels_are_dropped_whole(cls: type[nn.Module], shape: tuple[int, ...], spatial: int) -> None:
    layer = cls(0.5)
    with mc_sampling(layer, seed=0, mask="bernoulli"):
        out = layer(torch.ones(shape))
    assert out.shape == shape
    positions = out.flatten(-spatial)  # (..., channels, positions)
    assert torch.equal(positions, positions[..., :1].expand_as(positions))
    channels = positions[..., 0].flatten()
    error = 0.5 / math.sqrt(channels.numel())
    assert (channels == 0).float().mean().item() == pytest.approx(0.5, abs=4 * error)


def test_alpha_dropout_is_active_and_follows_the_default_generator() -> None:
    model = nn.Sequential(nn.Linear(4, 50), nn.AlphaDropout(0.5)).eval()
    x = torch.randn(3, 4)
    with mc_sampling(model, seed=0):
        torch.manual_seed(1)
        first, second = model(x), model(x)
        torch.manual_seed(1)
        assert torch.equal(model(x), first)
        assert not torch.equal(first, second)
    assert torch.equal(model(x), model(x))
    expected = nn.AlphaDropout(0.5)
    torch.manual_seed(1)
    torch.testing.assert_close(first, expected(model[0](x)))


def test_models_without_dropout(x: Tensor) -> None:
    model = nn.Sequential(nn.Linear(FEATURES, 3), nn.BatchNorm1d(3), nn.Dropout(0.0)).train()
    expected = copy.deepcopy(model).eval()(x)
    with mc_sampling(model, seed=0):
        assert torch.equal(model(x), expected)
    assert model.training


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes(x: Tensor, dtype: torch.dtype) -> None:
    model = swap_dropout(mlp(), "concrete", init_p=0.5, example_input=x).to(dtype).eval()
    x = x.to(dtype)
    outs = passes(model, x, seed=0)
    assert outs.dtype == dtype
    assert torch.isfinite(outs).all()
    assert not torch.equal(outs[0], outs[1])


def test_masks_hardly_depend_on_the_width_of_the_float() -> None:
    layer, x = ConcreteDropout(0.4), torch.ones(40, 30)
    with mc_sampling(layer, seed=0):
        full = layer(x)
    with mc_sampling(layer, seed=0):
        half = layer(x.bfloat16())
    torch.testing.assert_close(half.float(), full, rtol=2**-8, atol=2**-8)


# -- architectures -----------------------------------------------------------------------------------------------


def test_transformer_encoder_drops_out() -> None:
    """Its fused kernel for eval mode would run past the dropouts."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(5, 7, 8)
    expected = model(x)
    outs = passes(model, x, seed=0)
    assert torch.equal(passes(model, x, seed=0), outs)
    assert not torch.allclose(outs[0], outs[1])
    torch.testing.assert_close(model(x), expected)


def test_keyword_inputs(x: Tensor) -> None:
    class Keyword(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, *, scale: float, features: Tensor) -> Tensor:
            return self.drop(features) * scale

    model = Keyword()
    with mc_sampling(model, seed=0):
        first = model(features=x, scale=2.0)
    with mc_sampling(model, seed=0):
        assert torch.equal(model(scale=2.0, features=x), first)


def test_rows_that_are_multiplied_inside_of_the_model() -> None:
    """Windows of an image, say: (batch * windows, ...) at the dropout."""

    class Windows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, x: Tensor) -> Tensor:
            return self.drop(x.reshape(-1, 2)).reshape(x.shape)

    model, x = Windows(), torch.ones(40, 16)
    with mc_sampling(model, seed=0):
        out = model(x)
    assert len({tuple(row.tolist()) for row in out}) == 40
    assert out.eq(0).float().mean().item() == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(out.numel()))


def test_shared_dropout_module_is_one_layer(x: Tensor) -> None:
    drop = nn.Dropout(0.5)
    model = nn.Sequential(drop, nn.Linear(FEATURES, FEATURES), drop)
    before = traces(model)
    outs = passes(model, x, seed=0)
    assert not torch.equal(outs[0], outs[1])
    assert traces(model) == before


@pytest.mark.usefixtures("fresh_compiler")
def test_compiled_models(x: Tensor) -> None:
    model = mlp().eval()
    compiled = torch.compile(model, backend="eager")
    expected = passes(model, x, n=3, seed=0)
    compiled(x)
    assert torch.equal(passes(compiled, x, n=3, seed=0), expected)
    assert torch.equal(passes(model, x, n=3, seed=0), expected)
    torch.testing.assert_close(compiled(x), model(x))


def test_unknown_mask_name() -> None:
    with (
        pytest.raises(ValueError, match=r"mask='soft' must be one of concrete, bernoulli"),
        mc_sampling(mlp(), mask="soft"),
    ):
        pass
