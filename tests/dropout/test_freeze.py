"""freeze: ordinary dropout at the learned p, in a pickle that needs torch alone."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from concrete_dropout.dropout import dropout_probabilities, freeze, swap_dropout
from concrete_dropout.dropout.layers import _ConcreteDropoutNd

SWAPPED_P, PLACED_P = 0.37, 0.62


def network(dropout: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Dropout2d(0.5) if dropout else nn.Identity(),
        nn.Flatten(),
        nn.Linear(8 * 36, 16),
        nn.ReLU(),
        nn.Dropout(0.5) if dropout else nn.Identity(),
        nn.Linear(16, 4),
    )


@pytest.fixture
def x() -> Tensor:
    return torch.randn(5, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def learn(model: nn.Module, p: float) -> nn.Module:
    for layer in model.modules():
        if isinstance(layer, _ConcreteDropoutNd):
            nn.init.constant_(layer.p_logit, torch.logit(torch.tensor(p)).item())
    return model


@pytest.fixture(params=["swapped", "placed"])
def model(request: pytest.FixtureRequest, x: Tensor) -> nn.Module:
    if request.param == "swapped":
        return learn(swap_dropout(network(), "concrete", example_input=x), SWAPPED_P)
    return learn(swap_dropout(network(dropout=False), "concrete", place="*", example_input=x), PLACED_P)


def test_eval_outputs_are_identical(model: nn.Module, x: Tensor) -> None:
    model(x)  # moves the running statistics
    assert torch.equal(freeze(model).eval()(x), model.eval()(x))


def test_p_is_the_learned_one_in_torchs_classes(model: nn.Module) -> None:
    frozen = freeze(model)
    for name, p in dropout_probabilities(model).items():
        layer = frozen.get_submodule(name)
        assert type(layer) in (nn.Dropout, nn.Dropout2d)
        assert layer.p == pytest.approx(p, abs=1e-7)
    assert not any(type(module).__module__.startswith("concrete_dropout") for module in frozen.modules())


def test_channelwise_dropout_stays_channelwise(x: Tensor) -> None:
    frozen = freeze(swap_dropout(network(), "concrete", example_input=x))
    assert (type(frozen[3]), type(frozen[7])) == (nn.Dropout2d, nn.Dropout)


def test_state_dict_has_the_names_of_the_model_before_the_swap(model: nn.Module) -> None:
    assert list(freeze(model).state_dict()) == list(network().state_dict())
    network().load_state_dict(freeze(model).state_dict())


def test_the_original_is_untouched(model: nn.Module, x: Tensor) -> None:
    state = {name: value.clone() for name, value in model.state_dict().items()}
    modules = dict(model.named_modules())
    frozen = freeze(model)
    nn.init.zeros_(frozen[8].weight)
    assert dict(model.named_modules()) == modules
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    model.train()(x).sum().backward()
    assert all(m.p_logit.grad is not None for m in model.modules() if isinstance(m, _ConcreteDropoutNd))


@pytest.mark.parametrize("training", [True, False])
def test_modes_are_kept(model: nn.Module, training: bool) -> None:
    frozen = freeze(model.train(training))
    assert all(module.training is training for module in frozen.modules())


def test_a_frozen_model_is_no_longer_a_swapped_one(model: nn.Module, x: Tensor) -> None:
    frozen = freeze(freeze(model))  # freezing twice changes nothing
    assert torch.equal(frozen.eval()(x), model.eval()(x))
    assert not any("_dropout_swap" in vars(module) for module in frozen.modules())


@pytest.mark.parametrize("kind", ["fixed", "none"])
@pytest.mark.parametrize("place", ["*", ()], ids=["placed", "swapped"])
def test_the_other_kinds_freeze_too(kind: str, place: str, x: Tensor) -> None:
    model = swap_dropout(network(dropout=not place), kind, place=place, example_input=x)
    frozen = pickle.loads(pickle.dumps(freeze(model)))
    assert dropout_probabilities(frozen) == (
        {name: p for name, p in dropout_probabilities(model).items() if kind == "fixed"}
    )
    assert torch.equal(frozen.eval()(x), model.eval()(x))


def test_shared_dropout_stays_shared(x: Tensor) -> None:
    model = network()
    model.append(model[7])  # one module under two names
    frozen = freeze(swap_dropout(model, "concrete", example_input=x))
    assert frozen[7] is frozen[9]


def test_a_copy_of_a_frozen_placed_model_drops_by_itself(x: Tensor) -> None:
    model = learn(swap_dropout(network(dropout=False), "concrete", place="*", example_input=x), PLACED_P)
    frozen = freeze(model).eval()
    for twin in (copy.deepcopy(frozen), pickle.loads(pickle.dumps(frozen))):
        twin.train()
        twin[1].eval()  # running statistics are not the point here
        assert not any(module.training for module in frozen.modules())
        twin[0].dropout.p = twin[5].dropout.p = 0.0
        twin[8].dropout.p = 1.0 - 1e-9
        assert frozen[8].dropout.p == pytest.approx(PLACED_P)
        out = twin(x)
        assert torch.allclose(out, twin[8].bias.expand_as(out))  # its own last input is dropped whole
        assert torch.equal(frozen(x), model.eval()(x))
        assert torch.equal(twin.eval()(x), frozen(x))


def test_frozen_placed_dropout_scales_and_draws_as_dropout_does() -> None:
    model = nn.Sequential(nn.Linear(1000, 1000, bias=False))
    nn.init.eye_(model[0].weight)
    frozen = freeze(learn(swap_dropout(model, "concrete", place="*", example_input=torch.ones(1, 1000)), 0.25)).train()
    out = frozen(torch.ones(8, 1000))
    assert out.unique().tolist() == [0.0, pytest.approx(1 / 0.75)]
    assert (out == 0).float().mean().item() == pytest.approx(0.25, abs=0.025)  # 5 standard errors
    assert not torch.equal(out, frozen(torch.ones(8, 1000)))
    assert torch.equal(frozen.eval()(torch.ones(1, 1000)), torch.ones(1, 1000))


LOADING = """
    import sys

    sys.modules["concrete_dropout"] = None  # any import of it fails
    import torch
    from torch import nn

    x, cases = torch.load("frozen.pt", weights_only=False)
    try:
        import concrete_dropout
    except ImportError:
        pass
    else:
        raise AssertionError("the package was importable")
    for name, (model, expected, p) in cases.items():
        with torch.no_grad():
            assert torch.equal(model.eval()(x), expected), name
            bn = [m.eval() for m in model.train().modules() if isinstance(m, nn.BatchNorm2d)]
            assert not torch.equal(model(x), model(x)), name
            dropouts = [m for m in model.modules() if isinstance(m, (nn.Dropout, nn.Dropout2d))]
            assert all(abs(m.p - p) < 1e-6 for m in dropouts) and dropouts, name
            for m in dropouts:
                m.p = 0.0
            assert torch.equal(model(x), expected), name
    print("loaded", *cases)
"""


def test_a_pickle_loads_where_this_package_is_not(x: Tensor, tmp_path: Path) -> None:
    swapped = learn(swap_dropout(network(), "concrete", example_input=x), SWAPPED_P)
    placed = learn(swap_dropout(network(dropout=False), "concrete", place="*", example_input=x), PLACED_P)
    cases = {
        name: (freeze(model), model.eval()(x).detach(), p)
        for name, model, p in (("swapped", swapped, SWAPPED_P), ("placed", placed, PLACED_P))
    }
    torch.save((x, cases), tmp_path / "frozen.pt")
    done = subprocess.run(
        [sys.executable, "-I", "-c", textwrap.dedent(LOADING)],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["loaded", "swapped", "placed"]


def test_a_swapped_model_itself_needs_the_package(x: Tensor) -> None:
    """The reason for freeze: an unfrozen pickle names our classes."""
    swapped = swap_dropout(network(), "concrete", example_input=x)
    assert b"concrete_dropout" in pickle.dumps(swapped)
    assert b"concrete_dropout" not in pickle.dumps(freeze(swapped))
    placed = swap_dropout(network(dropout=False), "concrete", place="*", example_input=x)
    assert b"concrete_dropout" not in pickle.dumps(freeze(placed))
