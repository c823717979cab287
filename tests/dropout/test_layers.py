"""The layers as drop-ins: for torch's dropouts, and inside everything torch does with a module."""

from __future__ import annotations

import copy
import io
import math
import os
import pickle
import shutil

import pytest
import torch
import torch.distributed
import torch.multiprocessing
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parallel import DistributedDataParallel

from concrete_dropout.dropout import ConcreteDropout, ConcreteDropout1d, ConcreteDropout2d, ConcreteDropout3d

LAYERS = [ConcreteDropout, ConcreteDropout1d, ConcreteDropout2d, ConcreteDropout3d]
every_layer = pytest.mark.parametrize("layer_class", LAYERS)

INPUT_SHAPES = {
    ConcreteDropout: (4, 6),
    ConcreteDropout1d: (4, 6, 3),
    ConcreteDropout2d: (4, 6, 3, 2),
    ConcreteDropout3d: (4, 6, 3, 2, 2),
}


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# -- drop-in -----------------------------------------------------------------------------------------------


@every_layer
def test_is_one_of_torchs_dropouts(layer_class):
    assert isinstance(layer_class(), _DropoutNd)


@every_layer
def test_takes_the_arguments_of_torchs_dropout(layer_class):
    layer = layer_class(0.3, True)
    x = torch.ones(INPUT_SHAPES[layer_class])
    layer(x)
    assert layer.p == pytest.approx(0.3)
    assert torch.equal(x, torch.ones_like(x))  # inplace is accepted, and not acted on


@every_layer
def test_eval_mode_returns_the_input_itself_and_draws_nothing(layer_class):
    x = torch.ones(INPUT_SHAPES[layer_class])
    state = torch.get_rng_state()
    assert layer_class(0.5).eval()(x) is x
    assert torch.equal(torch.get_rng_state(), state)


@every_layer
def test_train_mode_neither_returns_nor_modifies_the_input(layer_class):
    x = torch.randn(INPUT_SHAPES[layer_class])
    before = x.clone()
    y = layer_class(0.5)(x)
    assert y.data_ptr() != x.data_ptr()
    assert torch.equal(x, before)
    assert not torch.equal(y, x)


@every_layer
def test_p_logit_is_the_only_state(layer_class):
    layer = layer_class(0.2)
    layer(torch.ones(INPUT_SHAPES[layer_class]))
    assert {name: tuple(value.shape) for name, value in layer.state_dict().items()} == {"p_logit": ()}
    assert [name for name, _ in layer.named_parameters()] == ["p_logit"]


@pytest.mark.parametrize("p", [1e-5, 0.1, 0.5, 0.9])
def test_p_is_a_float_and_the_sigmoid_of_its_logit(p):
    layer = ConcreteDropout(p)
    assert type(layer.p) is float
    assert layer.p == pytest.approx(p, rel=1e-5)
    assert layer.p_logit.item() == pytest.approx(math.log(p / (1 - p)), rel=1e-6)
    with torch.no_grad():
        layer.p_logit.fill_(1.0)
    assert layer.p == pytest.approx(1 / (1 + math.exp(-1)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_p_logit_has_the_dtype_that_was_asked_for(dtype):
    assert ConcreteDropout(0.2, dtype=dtype).p_logit.dtype == dtype


def test_repr_tells_p_and_temperature():
    assert repr(ConcreteDropout2d(0.25, temperature=0.2)) == "ConcreteDropout2d(p=0.25, temperature=0.2)"


# -- initial values ----------------------------------------------------------------------------------------


def test_a_range_draws_the_initial_p_uniformly_from_it():
    drawn = torch.tensor([ConcreteDropout((0.2, 0.4)).p for _ in range(500)])
    assert drawn.min() >= 0.2
    assert drawn.max() <= 0.4
    # mean and variance of U(0.2, 0.4), the former within 4 standard errors
    assert drawn.mean().item() == pytest.approx(0.3, abs=4 * 0.2 / math.sqrt(12 * 500))
    assert drawn.std().item() == pytest.approx(0.2 / math.sqrt(12), rel=0.1)


def test_init_p_is_another_name_for_p_and_a_range_may_be_a_point():
    assert ConcreteDropout(init_p=0.3).p == pytest.approx(0.3)
    assert ConcreteDropout([0.3, 0.3]).p == pytest.approx(0.3)


@pytest.mark.parametrize("p", [0, 1, -0.1, 1.5, math.nan, "abc", None, (0.2,), (0.5, 0.1), (0.0, 0.5), (0.1, 0.2, 0.3)])
def test_an_invalid_initial_p_is_refused(p):
    with pytest.raises(ValueError, match="init_p="):
        ConcreteDropout(p)


@pytest.mark.parametrize("temperature", [0, -0.1, math.nan, math.inf])
def test_an_invalid_temperature_is_refused(temperature):
    with pytest.raises(ValueError, match="temperature="):
        ConcreteDropout(temperature=temperature)


def test_temperature_is_per_layer():
    # The share of mask values that are neither kept nor dropped grows with the temperature.
    x = torch.ones(20_000)

    def undecided(temperature: float) -> float:
        kept = ConcreteDropout(0.5, temperature=temperature)(x) / 2
        return ((kept > 0.01) & (kept < 0.99)).float().mean().item()

    def expected(temperature: float) -> float:
        # |logit u| < t logit 0.99
        return math.tanh(temperature * math.log(99) / 2)

    for temperature in (0.01, 0.1, 1.0):
        assert undecided(temperature) == pytest.approx(expected(temperature), abs=4 * 0.5 / math.sqrt(20_000))


def soft(layer_class: type[nn.Module]) -> nn.Module:
    """A layer whose mask values spread over the unit interval, so that one can be told from another."""
    return layer_class(0.5, temperature=2.0)


# -- shapes of masks -----------------------------------------------------------------------------------------


SHAPES = {
    "dropout": [(), (7,), (4, 5), (2, 3, 4)],
    "1d": [(4, 5), (3, 4, 5)],
    "2d": [(4, 5), (3, 4, 5), (2, 3, 4, 5)],
    "3d": [(2, 3, 4, 5), (2, 3, 2, 2, 3)],
}
PAIRS = {
    "dropout": (ConcreteDropout, nn.Dropout),
    "1d": (ConcreteDropout1d, nn.Dropout1d),
    "2d": (ConcreteDropout2d, nn.Dropout2d),
    "3d": (ConcreteDropout3d, nn.Dropout3d),
}


@pytest.mark.parametrize(("name", "shape"), [(name, shape) for name, shapes in SHAPES.items() for shape in shapes])
@pytest.mark.filterwarnings("ignore:dropout2d. Received a")  # torch may take 2 and 3 dimensions otherwise some day
def test_entries_that_share_a_mask_value_are_those_of_torchs_layer(name, shape):
    concrete, plain = PAIRS[name]
    # Two entries that torch keeps and drops together in 64 draws share their mask value.
    together = torch.stack([plain(0.5)(torch.ones(shape)) for _ in range(64)]).view(64, -1)
    values = torch.stack([soft(concrete)(torch.ones(shape)) for _ in range(4)]).view(4, -1)
    assert torch.equal(same_columns(values), same_columns(together))


def same_columns(draws: Tensor) -> Tensor:
    """Which pairs of entries are equal in every draw, (entries, entries)."""
    return (draws[:, :, None] == draws[:, None, :]).all(dim=0)


@pytest.mark.parametrize(
    ("layer_class", "num_dims"),
    [(ConcreteDropout1d, 1), (ConcreteDropout1d, 4), (ConcreteDropout2d, 5), (ConcreteDropout3d, 3)],
)
def test_an_input_with_the_wrong_number_of_dimensions_is_refused(layer_class, num_dims):
    with pytest.raises(ValueError, match=f"{layer_class.__name__} takes inputs with"):
        layer_class()(torch.ones((2,) * num_dims))


# -- generators --------------------------------------------------------------------------------------------


@every_layer
def test_masks_follow_the_generator_alone(layer_class):
    x = torch.ones(INPUT_SHAPES[layer_class])
    torch.manual_seed(1)
    first = layer_class(0.5, temperature=1.0, generator=seeded(3))(x)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    again = layer_class(0.5, temperature=1.0, generator=seeded(3))(x)
    other = layer_class(0.5, temperature=1.0, generator=seeded(4))(x)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


@every_layer
def test_masks_follow_torchs_seed_without_a_generator(layer_class):
    layer, x = layer_class(0.5, temperature=1.0), torch.ones(INPUT_SHAPES[layer_class])

    def draw(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return layer(x)

    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))
    assert not torch.equal(layer(x), layer(x))


# -- copies and files --------------------------------------------------------------------------------------


def through_pickle(layer: nn.Module) -> nn.Module:
    return pickle.loads(pickle.dumps(layer))


@every_layer
@pytest.mark.parametrize("copied", [copy.deepcopy, through_pickle])
@pytest.mark.parametrize("own_generator", [False, True])
def test_copies_have_the_same_p_and_masks_and_their_own_parameter(layer_class, copied, own_generator):
    layer = layer_class(0.3, temperature=0.5, generator=seeded(3) if own_generator else None)
    x = torch.ones(INPUT_SHAPES[layer_class])
    layer(x).sum().backward()  # a used layer, with a gradient
    twin = copied(layer)

    def draw(drawn: nn.Module) -> Tensor:
        torch.manual_seed(9)
        return drawn(x)

    assert torch.equal(draw(layer), draw(twin))
    assert twin.p_logit is not layer.p_logit
    with torch.no_grad():
        twin.p_logit.add_(1.0)
    assert layer.p == pytest.approx(0.3)


def test_layers_of_a_copied_model_go_on_sharing_one_generator():
    generator = seeded(3)
    model = nn.Sequential(ConcreteDropout(generator=generator), ConcreteDropout(generator=generator))
    twin = copy.deepcopy(model)
    assert twin[0].generator is twin[1].generator
    assert twin[0].generator is not generator


def test_state_dict_goes_through_a_weights_only_file():
    layer, other, file = ConcreteDropout(0.3), ConcreteDropout(0.1), io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert other.p == layer.p


def test_weights_of_a_plain_model_lack_the_logits_and_nothing_else():
    def network(dropout: type[nn.Module], channel_dropout: type[nn.Module]) -> nn.Sequential:
        return nn.Sequential(
            channel_dropout(0.2),
            nn.Conv2d(2, 3, 1),
            nn.Flatten(),
            nn.Sequential(dropout(0.2), nn.Linear(3, 1)),
        )

    plain, concrete = network(nn.Dropout, nn.Dropout2d), network(ConcreteDropout, ConcreteDropout2d)
    outcome = concrete.load_state_dict(plain.state_dict(), strict=False)
    assert (outcome.missing_keys, outcome.unexpected_keys) == (["0.p_logit", "3.0.p_logit"], [])
    x = torch.randn(5, 2, 1, 1)
    assert torch.equal(concrete.eval()(x), plain.eval()(x))


# -- autocast ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("layer_class", [ConcreteDropout, ConcreteDropout1d])
def test_autocast_keeps_the_narrow_dtype_and_gives_the_float64_gradient_to_rounding(dtype, layer_class):
    model = nn.Sequential(nn.Linear(6, 8), layer_class(0.4, temperature=0.5), nn.Linear(8, 1))
    x = torch.randn(64, 6)
    with torch.autocast("cpu", dtype=dtype):
        h = model[0](x)
        dropped = model[1](h)
        loss = model[2](dropped).float().square().mean()
    loss.backward()
    assert dropped.dtype == h.dtype == dtype
    assert [parameter.grad.dtype for parameter in model.parameters()] == [torch.float32] * 5

    # The same in float64, with the mask that was drawn.
    reference = copy.deepcopy(model).double()
    reference.zero_grad()
    h64 = reference[0](x.double())
    noise = torch.logit(1 - (dropped / h).detach().double() * 0.6, eps=1e-4) * 0.5 - math.log(0.4 / 0.6)
    logit = reference[1].p_logit
    z = torch.sigmoid((logit + noise) / 0.5)
    reference[2](h64 * (1 - z) * (1 + logit.exp())).square().mean().backward()
    for found, expected in zip(model.parameters(), reference.parameters(), strict=True):
        size = expected.grad.abs().max().item()
        torch.testing.assert_close(found.grad.double(), expected.grad, rtol=0.03, atol=0.03 * size)


# -- torch.compile -----------------------------------------------------------------------------------------

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "clang++", "c++"))), reason="inductor needs a C++ compiler"
)
compilers = pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=needs_compiler)])


@compilers
@pytest.mark.usefixtures("fresh_compiler")
def test_compiled_layer_has_the_statistics_and_gradients_of_the_mask(backend, expected_z):
    layer = ConcreteDropout(0.3)
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    x = torch.ones(200, 100, requires_grad=True)
    y = compiled(x)
    y.sum().backward()
    z = 1 - y.detach().double() * 0.7
    error = z.std().item() / math.sqrt(z.numel())
    assert z.mean().item() == pytest.approx(expected_z(0.3, 0.1), abs=4 * error)
    # With x = 1 the slope in x is y, and the one in the logit y (p - z / t), for z as kept: in float16.
    # Inductor does not round between operations that it fuses: there, y itself has a z of full precision.
    z = z.half().double()
    slope = (1 - z) / 0.7
    rounding = torch.finfo(torch.float16).eps
    torch.testing.assert_close(x.grad.double(), slope, rtol=0, atol=rounding)
    torch.testing.assert_close(x.grad, y.detach(), rtol=0, atol=rounding)
    assert layer.p_logit.grad.item() == pytest.approx((slope * (0.3 - z / 0.1)).sum().item(), rel=3e-3)
    assert not torch.equal(compiled(x), y)


@pytest.mark.parametrize("layer_class", [ConcreteDropout, ConcreteDropout1d, ConcreteDropout2d])
@pytest.mark.usefixtures("fresh_compiler")
def test_compiled_with_dynamic_shapes_serves_several_batch_sizes(layer_class):
    layer = layer_class(0.3)
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    for size in (3, 5, 8):
        x = torch.ones(size, *INPUT_SHAPES[layer_class][1:], requires_grad=True)
        y = compiled(x)
        y.sum().backward()
        torch.testing.assert_close(x.grad, y.detach())
        values = y.detach().flatten(2) if x.dim() > 2 else y.detach().unsqueeze(-1)
        assert (values == values[..., :1]).all()


@pytest.mark.usefixtures("fresh_compiler")
def test_a_compiled_model_goes_silent_in_eval_mode_and_trains_again():
    model = nn.Sequential(nn.Linear(4, 4), ConcreteDropout(0.5))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    x = torch.randn(8, 4)
    compiled.train()
    assert not torch.equal(compiled(x), model[0](x))
    compiled.eval()
    torch.testing.assert_close(compiled(x), model[0](x))
    compiled.train()
    assert not torch.equal(compiled(x), model[0](x))


# -- torch.func --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer_class", [ConcreteDropout, ConcreteDropout2d])
def test_vmap_repeats_or_varies_the_mask_as_its_randomness_says(layer_class):
    layer = soft(layer_class)
    x = torch.ones(7, *INPUT_SHAPES[layer_class])
    same = torch.func.vmap(layer, randomness="same")(x)
    different = torch.func.vmap(layer, randomness="different")(x)
    assert (same == same[:1]).all()
    assert different.flatten(1).unique(dim=0).shape[0] == 7
    assert same.shape == different.shape == x.shape


def test_vmap_refuses_randomness_by_default():
    with pytest.raises(RuntimeError, match="randomness"):
        torch.func.vmap(ConcreteDropout(0.5))(torch.ones(7, 3))


@pytest.mark.parametrize("layer_class", [ConcreteDropout, ConcreteDropout1d])
def test_func_grad_gives_the_gradient_of_the_mask(layer_class):
    layer = layer_class(0.3, temperature=0.5)
    x = torch.ones(INPUT_SHAPES[layer_class])

    def total(p_logit: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.func.functional_call(layer, {"p_logit": p_logit}, (x,))
        return y.sum(), y

    (grad_logit, grad_x), y = torch.func.grad(total, argnums=(0, 1), has_aux=True)(layer.p_logit.detach(), x)
    z = 1 - y * 0.7
    torch.testing.assert_close(grad_x, y)
    torch.testing.assert_close(grad_logit, (y * (0.3 - z / 0.5)).sum(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layer_class", [ConcreteDropout, ConcreteDropout1d])
def test_per_sample_gradients_add_up_to_that_of_the_batch(layer_class):
    layer = layer_class(0.3, temperature=0.5)
    samples = torch.randn(9, *INPUT_SHAPES[layer_class][1:])
    weight = torch.randn(samples.shape[1:])

    def total(p_logit: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.func.functional_call(layer, {"p_logit": p_logit}, (x[None],))[0]
        return (y * weight).sum(), y

    per_sample, y = torch.func.vmap(torch.func.grad(total, has_aux=True), in_dims=(None, 0), randomness="different")(
        layer.p_logit.detach(), samples
    )
    z = 1 - y / samples * 0.7
    looped = torch.stack([(w * weight * (0.3 - m / 0.5)).sum() for w, m in zip(y, z, strict=True)])
    assert per_sample.shape == (9,)
    torch.testing.assert_close(per_sample, looped, rtol=1e-3, atol=1e-3)


def test_vmap_over_an_ensemble_of_logits_drops_with_each_ones_p():
    layer = ConcreteDropout(0.3)
    ps = torch.tensor([0.05, 0.5, 0.95])

    def dropped(p_logit: Tensor) -> Tensor:
        return torch.func.functional_call(layer, {"p_logit": p_logit}, (torch.ones(10_000),))

    y = torch.func.vmap(dropped, randomness="different")(torch.logit(ps))
    shares = (y * (1 - ps)[:, None] < 0.5).float().mean(dim=1)
    torch.testing.assert_close(shares, ps, rtol=0, atol=4 * 0.5 / math.sqrt(10_000))


# -- DDP ---------------------------------------------------------------------------------------------------


def train_on_rank(rank: int, results: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{results}/store", rank=rank, world_size=2)
    torch.manual_seed(0)  # as seed_everything does: all ranks alike
    layers = [ConcreteDropout(0.2, temperature=1.0, generator=seeded(100 + rank)), nn.Linear(6, 1)]
    model = DistributedDataParallel(nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    x = torch.ones(16, 6)
    mask = layers[0](x).detach()
    for _ in range(3):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    torch.save({"mask": mask, "p_logit": layers[0].p_logit.detach()}, f"{results}/{rank}.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    # Gloo's threads may hold tensors that Python knows, and abort a process that gives these up while Python ends.
    os._exit(0)


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without distributed")
def test_ddp_ranks_draw_different_masks_and_keep_one_p(tmp_path):
    torch.multiprocessing.spawn(train_on_rank, (str(tmp_path),), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1))
    assert not torch.equal(first["mask"], second["mask"])
    assert torch.equal(first["p_logit"], second["p_logit"])
    assert first["p_logit"].item() != pytest.approx(math.log(0.2 / 0.8))
