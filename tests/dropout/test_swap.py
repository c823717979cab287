"""swap_dropout: which dropouts, of which kind, and that nothing else of the model changes."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils import parametrizations

from concrete_dropout.dropout import (
    ConcreteDropout,
    ConcreteDropout1d,
    ConcreteDropout2d,
    ConcreteDropout3d,
    dropout_probabilities,
    kl_divergence,
    swap_dropout,
    swap_report,
)

X = torch.linspace(-1, 1, 12).view(3, 4)


def mlp(p: float = 0.5) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(4, 8),
        nn.ReLU(),
        nn.Dropout(p),
        nn.Linear(8, 8),
        nn.ReLU(),
        nn.Dropout(p / 2),
        nn.Linear(8, 2),
    )


def plain() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def owned(model: nn.Module) -> dict[str, tuple[tuple[str, ...], int]]:
    return {row.module: (row.owners, row.num_entries) for row in swap_report(model).rows}


def kinds(model: nn.Module) -> dict[str, str]:
    return {row.module: row.kind for row in swap_report(model).rows}


def squared_norm(weight: Tensor) -> float:
    return weight.detach().double().square().sum().item()


def entropy(p: float) -> float:
    return -p * math.log(p) - (1 - p) * math.log(1 - p)


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Modules, modes, hooks, attributes, state and torch's random state are the same afterwards."""

    def snapshot() -> tuple[object, ...]:
        modules = dict(model.named_modules())
        hooks = {
            name: (list(m._forward_pre_hooks.values()), list(m._forward_hooks.values())) for name, m in modules.items()
        }
        attributes = {name: sorted(vars(m)) for name, m in modules.items()}
        return (
            {name: id(m) for name, m in modules.items()},
            {n: m.training for n, m in modules.items()},
            hooks,
            attributes,
        )

    before, state = snapshot(), {name: value.clone() for name, value in model.state_dict().items()}
    rng = torch.get_rng_state()
    yield
    assert snapshot() == before
    after = model.state_dict()
    assert list(after) == list(state)
    assert all(torch.equal(after[name], value) for name, value in state.items())
    assert torch.equal(torch.get_rng_state(), rng)


# -- kinds ----------------------------------------


def test_concrete() -> None:
    model = mlp()
    assert swap_dropout(model, "concrete", init_p=0.3, temperature=0.2, example_input=X) is model
    assert [type(model[i]) for i in (2, 5)] == [ConcreteDropout, ConcreteDropout]
    assert dropout_probabilities(model) == pytest.approx({"2": 0.3, "5": 0.3})
    assert model[2].temperature == model[5].temperature == 0.2
    assert kinds(model) == {"2": "concrete", "5": "concrete"}


def test_fixed_keeps_every_p_or_sets_one() -> None:
    model = swap_dropout(mlp(), "fixed", example_input=X)
    assert [type(model[i]) for i in (2, 5)] == [nn.Dropout, nn.Dropout]
    assert dropout_probabilities(model) == {"2": 0.5, "5": 0.25}
    assert dropout_probabilities(swap_dropout(mlp(), "fixed", p=0.125, example_input=X)) == {
        "2": 0.125,
        "5": 0.125,
    }


def test_none_switches_dropout_off() -> None:
    model = swap_dropout(mlp(), "none", example_input=X).train()
    assert kinds(model) == {"2": "none", "5": "none"}
    assert torch.equal(model(X), model(X))


def test_none_of_a_model_without_dropout_is_no_error() -> None:
    model = swap_dropout(plain(), "none", example_input=X)
    assert str(swap_report(model)) == "no dropout was swapped"
    assert kl_divergence(model).item() == 0


def test_none_needs_no_owner() -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.LayerNorm(4), nn.Linear(4, 1))
    assert kl_divergence(swap_dropout(model, "none", example_input=X)).item() == 0


@pytest.mark.parametrize(("kind", "p"), [("concrete", 0.2), ("fixed", 0.2), ("none", 0.0)])
def test_every_kind_has_the_same_weight_term(kind: str, p: float) -> None:
    model = swap_dropout(mlp(), kind, init_p=0.2, p=p, length_scale=0.7, example_input=X)
    by_hand = sum(0.7**2 / 2 * squared_norm(model[i].weight) / (1 - p) for i in (3, 6))
    by_hand -= 16 * entropy(p) if p else 0
    assert kl_divergence(model).item() == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.parametrize(
    ("old", "new", "shape"),
    [
        (nn.Dropout, ConcreteDropout, (2, 3, 5)),
        (nn.Dropout1d, ConcreteDropout1d, (2, 3, 5)),
        (nn.Dropout2d, ConcreteDropout2d, (2, 3, 5, 5)),
        (nn.Dropout3d, ConcreteDropout3d, (2, 3, 5, 5, 5)),
    ],
)
def test_the_shape_of_the_mask_is_kept(old: type[nn.Module], new: type[nn.Module], shape: tuple[int, ...]) -> None:
    model = swap_dropout(nn.Sequential(old(0.5)), "concrete", init_p=0.5)
    assert type(model[0]) is new
    torch.manual_seed(0)
    out = model(torch.ones(shape))
    assert out.shape == shape
    assert (out.flatten(2).std(-1) == 0).all().item() == (old is not nn.Dropout)
    assert type(swap_dropout(model, "fixed")[0]) is old


def test_a_range_draws_every_p_for_itself() -> None:
    torch.manual_seed(0)
    layers = [module for _ in range(200) for module in (nn.Linear(2, 2), nn.Dropout(0.5))]
    model = swap_dropout(nn.Sequential(*layers), "concrete", init_p=(0.1, 0.4))
    drawn = torch.tensor(list(dropout_probabilities(model).values()))
    assert drawn.min() >= 0.1 - 1e-6
    assert drawn.max() <= 0.4 + 1e-6
    assert drawn.unique().numel() > 190
    assert drawn.mean().item() == pytest.approx(0.25, abs=4 * 0.3 / math.sqrt(12 * 200))


def test_length_scale_of_the_prior() -> None:
    constant = kl_divergence(swap_dropout(mlp(), "concrete", length_scale=2.0, example_input=X), per_layer=True)
    assert set(constant) == {"2", "5"}
    model = swap_dropout(mlp(), "concrete", length_scale=2.0, length_scale_mode="sqrt_fan_in", example_input=X)
    weight = squared_norm(model[3].weight)
    by_hand = 2.0**2 * 8 / 2 * weight / 0.9 - 8 * entropy(0.1)
    assert kl_divergence(model, per_layer=True)["2"].item() == pytest.approx(by_hand, rel=1e-5)


def test_the_masks_can_come_from_a_generator() -> None:
    outputs = []
    for _ in range(2):
        torch.manual_seed(7)
        generator = torch.Generator().manual_seed(3)
        model = swap_dropout(mlp(), "concrete", init_p=0.5, example_input=X, generator=generator).train()
        torch.seed()
        outputs.append(model(X))
    assert torch.equal(*outputs)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"kind": "learned"}, "kind='learned' must be one of none, fixed, concrete"),
        ({"init_p": 0.0}, "init_p=0.0 must lie strictly between 0 and 1"),
        ({"init_p": 1}, "init_p=1 must lie strictly"),
        ({"init_p": (0.5, 0.1)}, "init_p"),
        ({"init_p": (0.1, 0.2, 0.3)}, "must be a number or a pair"),
        ({"init_p": "high"}, "must be a number or a pair"),
        ({"kind": "fixed", "p": 1.0}, r"p=1.0 of fixed dropout must lie in \[0, 1\)"),
        ({"kind": "fixed", "p": -0.1}, "p=-0.1"),
        ({"temperature": 0.0}, "temperature=0.0 must be a positive number"),
        ({"temperature": -1.0, "place": "*"}, "temperature=-1.0 must be a positive number"),
        ({"length_scale": 0.0}, "length_scale=0.0 must be a positive number"),
        ({"length_scale": math.nan}, "length_scale=nan"),
        ({"length_scale_mode": "fan_in"}, "length_scale_mode='fan_in' must be one of constant, sqrt_fan_in"),
    ],
    ids=str,
)
def test_bad_numbers_are_refused_and_change_nothing(keywords: dict[str, object], message: str) -> None:
    model = mlp()
    with unchanged(model), pytest.raises(ValueError, match=message):
        swap_dropout(model, **({"kind": "concrete", "example_input": X} | keywords))


def test_certain_dropout_cannot_be_kept_as_a_fixed_one() -> None:
    """nn.Dropout(1.0) has an infinite weight term; said at the swap, not by the KL."""
    model = nn.Sequential(nn.Dropout(1.0), nn.Linear(4, 2))
    with unchanged(model), pytest.raises(ValueError, match=r"'?0'?.*p"):
        swap_dropout(model, "fixed", example_input=X)


# -- which dropouts ----------------------------------------


def test_include_and_exclude() -> None:
    assert kinds(swap_dropout(mlp(), "concrete", include="2", example_input=X)) == {"2": "concrete"}
    model = swap_dropout(mlp(), "concrete", exclude=["5"], example_input=X)
    assert kinds(model) == {"2": "concrete"}
    assert model[5].p == 0.25
    assert swap_report(model).skipped == (("5", "excluded"),)
    both = swap_dropout(mlp(), "concrete", include="*", exclude="2", example_input=X)
    assert kinds(both) == {"5": "concrete"}


def test_patterns_reach_through_the_dots() -> None:
    model = nn.ModuleDict({"encoder": mlp(), "decoder": nn.ModuleDict({"deep": mlp()})})
    swap_dropout(model, "concrete", include=["decoder.*", "encoder.2"])
    assert set(dropout_probabilities(model)) == {"encoder.2", "decoder.deep.2", "decoder.deep.5"}


@pytest.mark.parametrize("argument", ["include", "exclude"])
def test_patterns_that_match_nothing(argument: str) -> None:
    model = mlp()
    with (
        unchanged(model),
        pytest.raises(ValueError, match=rf"{argument}='7' matches no dropout; there are: 2, 5"),
    ):
        swap_dropout(model, "concrete", example_input=X, **{argument: ["2", "7"]})


def test_place_pattern_that_matches_nothing() -> None:
    model = plain()
    with (
        unchanged(model),
        pytest.raises(ValueError, match="place='1' matches no Linear or Conv layer; there are: 0, 2"),
    ):
        swap_dropout(model, "concrete", place=["0", "1"], example_input=X)


def test_p_of_zero_marks_a_place_until_it_is_included() -> None:
    model = mlp()
    model[2].p = 0.0
    swap_dropout(model, "concrete", example_input=X)
    assert type(model[2]) is nn.Dropout
    assert dict(swap_report(model).skipped) == {"2": "p = 0 marks a place only; include it to make it active"}
    included = mlp()
    included[2].p = 0.0
    assert kinds(swap_dropout(included, "concrete", include=["2"], example_input=X)) == {"2": "concrete"}


@pytest.mark.parametrize("alpha", [nn.AlphaDropout, nn.FeatureAlphaDropout])
def test_alpha_dropout_is_skipped_with_a_reason(alpha: type[nn.Module]) -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 4), nn.SELU(), alpha(0.1), nn.Linear(4, 1))
    swap_dropout(model, "concrete", example_input=X)
    assert type(model[3]) is alpha
    assert swap_report(model).skipped == (("3", f"{alpha.__name__} has no Concrete counterpart"),)


def test_a_dropout_with_its_own_forward_is_not_replaced_by_another_mask() -> None:
    """Locked dropout, one mask for all time steps: a subclass, but no element-wise mask."""

    class LockedDropout(nn.Dropout):
        def forward(self, input: Tensor) -> Tensor:
            return input * F.dropout(torch.ones_like(input[:, :1]), self.p, self.training)

    model = nn.Sequential(LockedDropout(0.5), nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 1))
    swap_dropout(model, "concrete", example_input=torch.randn(2, 3, 4))
    assert type(model[0]) is LockedDropout
    assert [name for name, _ in swap_report(model).skipped] == ["0"]


def test_a_dropout_under_two_names_stays_one() -> None:
    shared = nn.Dropout(0.5)
    model = nn.ModuleDict({"a": shared, "b": nn.Sequential(nn.Linear(4, 4), shared)})
    swap_dropout(model, "concrete")
    assert model["a"] is model["b"][1]
    assert isinstance(model["a"], ConcreteDropout)
    assert list(dropout_probabilities(model)) == ["a"]


def test_the_model_itself_cannot_be_a_dropout() -> None:
    with pytest.raises(ValueError, match="wrap it"):
        swap_dropout(nn.Dropout(0.5), "concrete")


# -- nothing to swap ----------------------------------------


class FunctionalHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.fc = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(F.dropout(self.body(x).relu(), 0.3, self.training))


@pytest.mark.parametrize("kind", ["concrete", "fixed"])
@pytest.mark.parametrize(
    ("model", "found", "remedy"),
    [
        (FunctionalHead(), r"Found: F\.dropout\(p=0\.3\) in the model itself\.", r"place='fc'"),
        (mlp(p=0.0), r"Found: p = 0 marks a place only; include it to make it active: 2, 5\.", r"place='6'"),
        (
            plain(),
            r"Found: none\.",
            r"place='2' puts one in front of that layer, place='\*' in front of all",
        ),
        (
            nn.Sequential(nn.AlphaDropout(0.1), nn.Linear(4, 1)),
            "AlphaDropout has no Concrete",
            r"place='1'",
        ),
        (
            nn.Sequential(nn.LayerNorm(4)),
            r"Found: none\.",
            "no Linear or Conv layer to place one in front of",
        ),
    ],
    ids=["functional", "inactive", "none", "alpha", "no layer"],
)
def test_nothing_to_swap_says_what_was_found_and_how_to_add_some(
    model: nn.Module, found: str, remedy: str, kind: str
) -> None:
    with unchanged(model), pytest.raises(ValueError, match=f"{found}.*{remedy}"):
        swap_dropout(model, kind, example_input=X)


def test_without_an_example_functional_calls_go_unnoticed_and_that_is_said() -> None:
    with pytest.raises(ValueError, match="functional calls are noticed only with an example_input"):
        swap_dropout(FunctionalHead(), "concrete")


# -- place ----------------------------------------


def test_place_adds_names_and_changes_none() -> None:
    model = plain()
    names, output = list(model.state_dict()), model.eval()(X)
    swap_dropout(model, "concrete", init_p=0.3, place="*", example_input=X)
    assert set(model.state_dict()) - set(names) == {"0.dropout.p_logit", "2.dropout.p_logit"}
    assert set(names) <= set(model.state_dict())
    assert owned(model) == {"0.dropout": (("0.weight",), 4), "2.dropout": (("2.weight",), 8)}
    assert torch.equal(model.eval()(X), output)
    assert not torch.equal(model.train()(X), model(X))


@pytest.mark.parametrize(
    ("layer", "dropout", "entries"),
    [
        (nn.Linear(6, 2), ConcreteDropout, 6),
        (nn.Conv1d(6, 2, 1), ConcreteDropout1d, 6),
        (nn.Conv2d(6, 2, 1, groups=2), ConcreteDropout2d, 6),
        (nn.Conv3d(6, 2, 1), ConcreteDropout3d, 6),
        (nn.ConvTranspose2d(6, 2, 1), ConcreteDropout2d, 6),
        (nn.Conv2d(6, 6, 1, groups=6), ConcreteDropout2d, 6),
    ],
    ids=str,
)
def test_placed_dropouts_drop_whole_channels_of_convolutions(
    layer: nn.Module, dropout: type[nn.Module], entries: int
) -> None:
    model = swap_dropout(nn.Sequential(layer), "concrete", place="0")
    assert type(model[0].dropout) is dropout
    assert owned(model) == {"0.dropout": (("0.weight",), entries)}


def test_placed_dropouts_join_the_ones_that_were_there() -> None:
    model = swap_dropout(mlp(), "concrete", place="0", example_input=X)
    assert set(dropout_probabilities(model)) == {"0.dropout", "2", "5"}
    alone = swap_dropout(mlp(), "concrete", place="0", exclude="*", example_input=X)
    assert set(dropout_probabilities(alone)) == {"0.dropout"}


def test_placed_fixed_dropout_has_a_default_p() -> None:
    assert set(dropout_probabilities(swap_dropout(plain(), "fixed", place="*", example_input=X)).values()) == {0.1}
    assert set(dropout_probabilities(swap_dropout(plain(), "fixed", p=0.4, place="*")).values()) == {0.4}


def test_placing_twice_places_once() -> None:
    model = plain()
    for init_p in (0.1, 0.2):
        swap_dropout(model, "concrete", init_p=init_p, place="*", example_input=X)
    assert dropout_probabilities(model) == pytest.approx({"0.dropout": 0.2, "2.dropout": 0.2})
    assert len(model[0]._forward_pre_hooks) == 1


def test_placing_again_wakes_a_dropout_that_was_switched_off() -> None:
    model = swap_dropout(plain(), "none", place="*", example_input=X)
    swap_dropout(model, "concrete", place="*", example_input=X)
    assert kinds(model) == {"0.dropout": "concrete", "2.dropout": "concrete"}


def test_place_leaves_a_layer_with_an_attribute_of_that_name_alone() -> None:
    class Taken(nn.Linear):
        dropout = 0.3

    model = nn.Sequential(nn.Linear(4, 4), Taken(4, 2))
    with unchanged(model), pytest.raises(ValueError, match="Taken has an attribute 'dropout' already"):
        swap_dropout(model, "concrete", place="*", example_input=X)


def test_placed_dropout_and_a_layer_that_is_called_by_keyword() -> None:
    class ByKeyword(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(input=x)

    model = swap_dropout(ByKeyword(), "concrete", init_p=0.5, place="fc", example_input=X).train()
    assert not torch.equal(model(X), model(X))


def test_a_placed_dropout_that_is_never_called_is_an_error() -> None:
    model = nn.Sequential(nn.Linear(4, 2))
    model[0].register_module("spare", nn.Linear(4, 2))
    with (
        unchanged(model),
        pytest.raises(ValueError, match=r"'0\.spare\.dropout' masks: it was not reached by the dry pass"),
    ):
        swap_dropout(model, "concrete", place="*", example_input=X)


# -- owners ----------------------------------------


def normed(tail: nn.Module | None = None) -> nn.Sequential:
    """A dropout that the dry pass cannot attribute."""
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.5), nn.LayerNorm(6), tail or nn.Linear(6, 2))


@pytest.mark.parametrize("example", [X, None], ids=["traced", "untraced"])
@pytest.mark.parametrize(
    ("spec", "weights", "entries"),
    [
        ("4", ("4.weight",), 6),
        (["4"], ("4.weight",), 6),
        ("4:columns", ("4.weight",), 6),
        ("4.weight", ("4.weight",), 6),
        ("0:rows", ("0.weight",), 6),
        ("0.weight:rows", ("0.weight",), 6),
        (["0:rows", "4"], ("0.weight", "4.weight"), 6),
    ],
    ids=str,
)
def test_explicit_owners(spec: object, weights: tuple[str, ...], entries: int, example: Tensor | None) -> None:
    model = swap_dropout(normed(), "concrete", length_scale=0.5, owners={"2": spec}, example_input=example)
    assert owned(model) == {"2": (weights, entries)}
    squares = sum(squared_norm(model.get_parameter(name)) for name in weights)
    assert kl_divergence(model).item() == pytest.approx(0.125 * squares / 0.9 - entries * entropy(0.1), rel=1e-5)


def test_the_side_of_an_explicit_owner_follows_from_its_size() -> None:
    model = swap_dropout(normed(), "concrete", owners={"2": "0"}, example_input=X)  # (6, 4): only rows fit
    assert owned(model) == {"2": (("0.weight",), 6)}
    assert model._dropout_swap.entries[0].sites[0].side == "rows"


def test_explicit_owners_win_over_the_dry_pass() -> None:
    model = swap_dropout(mlp(), "concrete", owners={"2": "0:rows"}, example_input=X)
    assert owned(model) == {"2": (("0.weight",), 8), "5": (("6.weight",), 8)}


@pytest.mark.parametrize(
    ("owners", "message"),
    [
        ({"2": "body"}, r"owners\['2'\]: 'body' is no layer with a weight matrix and no such parameter"),
        ({"2": "1"}, r"owners\['2'\]: '1' is no layer with a weight matrix"),
        ({"2": "3"}, "'3' is no layer with a weight matrix"),  # a layer norm's weight is no matrix
        ({"2": "0:cols"}, r"owners\['2'\]='0:cols': what stands behind the colon must be rows or columns"),
        ({"2": []}, r"owners\['2'\] is empty"),
        ({"7": "0"}, "owners names '7', which is not swapped; swapped are: 2"),
    ],
    ids=str,
)
@pytest.mark.parametrize("place", ["0", ()], ids=["placed", "not placed"])
def test_bad_owners_are_refused_and_change_nothing(owners: dict[str, object], message: str, place: str) -> None:
    model = normed()
    message = message if not place else message.replace("swapped are: 2", "swapped are: 0.dropout, 2")
    with unchanged(model), pytest.raises(ValueError, match=message):
        swap_dropout(model, "concrete", owners=owners, place=place, example_input=X)


def test_owners_of_a_recurrent_layer() -> None:
    model = nn.ModuleDict({"drop": nn.Dropout(0.5), "lstm": nn.LSTM(4, 6)})
    swap_dropout(model, "concrete", owners={"drop": ["lstm.weight_ih_l0", "lstm.weight_hh_l0:columns"]})
    assert owned(model) == {"drop": (("lstm.weight_ih_l0", "lstm.weight_hh_l0"), 6)}


@pytest.mark.parametrize(
    "layer",
    [nn.Conv2d(8, 16, 3, groups=2), nn.Conv2d(8, 8, 3, groups=8), nn.ConvTranspose2d(8, 6, 3)],
    ids=str,
)
def test_a_layer_and_its_weight_are_the_same_owner(layer: nn.Module) -> None:
    found = []
    for spec in ("1", "1.weight", "1:columns", "1.weight:columns"):
        model = nn.Sequential(nn.Dropout(0.5), layer)
        swap_dropout(model, "concrete", owners={"0": spec}, example_input=torch.randn(2, 8, 5, 5))
        found.append(model._dropout_swap.entries[0].sites)
    assert found[0][0].num_entries == 8
    assert all(sites == found[0] for sites in found)


def test_tied_and_parametrised_weights_can_be_named() -> None:
    tied = nn.ModuleDict({"embedding": nn.Embedding(9, 4), "drop": nn.Dropout(0.5), "head": nn.Linear(4, 9)})
    tied["head"].weight = tied["embedding"].weight
    assert owned(swap_dropout(tied, "concrete", owners={"drop": "head"})) == {"drop": (("head.weight",), 4)}
    assert owned(swap_dropout(tied, "concrete", owners={"drop": "head.weight"}))["drop"][1] == 4
    model = nn.Sequential(nn.Dropout(0.5), parametrizations.weight_norm(nn.Linear(4, 2)))
    assert owned(swap_dropout(model, "concrete", owners={"0": "1.weight"})) == {"0": (("1.weight",), 4)}


def test_without_owners_the_kl_says_what_is_missing() -> None:
    model = swap_dropout(mlp(), "concrete")
    assert owned(model) == {"2": ((), 0), "5": ((), 0)}
    with pytest.raises(ValueError, match="weights that dropout '2' masks are unknown: give swap_dropout an example"):
        kl_divergence(model)
    model.train()(X).sum().backward()
    assert model[2].p_logit.grad is not None


# -- the dry pass leaves no trace ----------------------------------------


def convolutional() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout2d(0.5), nn.Flatten(), nn.Linear(16, 2)
    )


def test_an_error_after_the_dry_pass_leaves_the_model_as_it_was() -> None:
    model = convolutional()
    model[1].eval()
    model.append(nn.Dropout(0.5)).append(nn.LayerNorm(2)).append(nn.Linear(2, 2))
    model.insert(6, nn.Tanh())
    x = torch.randn(2, 3, 4, 4)
    with unchanged(model), pytest.raises(ValueError, match="cannot tell which weights dropout '7'"):
        swap_dropout(model, "concrete", place=["0", "5"], example_input=x)


def test_an_error_inside_of_the_dry_pass_leaves_the_model_as_it_was() -> None:
    model, x = convolutional(), torch.randn(2, 3, 9, 9)
    message = r"dry forward pass failed on example_input \(RuntimeError"
    with unchanged(model), pytest.raises(ValueError, match=message):
        swap_dropout(model, "concrete", place="*", example_input=x)


def test_modes_statistics_and_random_state_survive_a_swap() -> None:
    model = convolutional().train()
    model[1].eval()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    modes = {name: module.training for name, module in model.named_modules()}
    x = torch.randn(2, 3, 4, 4)
    rng = torch.get_rng_state()
    swap_dropout(model, "concrete", example_input=x)
    assert torch.equal(torch.get_rng_state(), rng)
    assert {name: module.training for name, module in model.named_modules()} == modes
    assert all(torch.equal(model.state_dict()[name], value) for name, value in state.items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert not any("forward" in vars(module) for module in model.modules())


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", ["concrete", "fixed", "none"])
def test_new_layers_have_the_mode_of_the_old(kind: str, training: bool) -> None:
    model = swap_dropout(mlp().train(training), kind, place="0", example_input=X)
    assert all(module.training is training for module in model.modules())


class Keywords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop, self.fc = nn.Dropout(0.5), nn.Linear(4, 2)

    def forward(self, x: Tensor, scale: Tensor, *, shift: float = 0.0) -> Tensor:
        return self.fc(self.drop(x)) * scale + shift


@pytest.mark.parametrize(
    "example",
    [(X, torch.ones(1)), [X, torch.ones(1)], {"x": X, "scale": torch.ones(1), "shift": 1.0}],
    ids=["tuple", "list", "dict"],
)
def test_example_inputs_of_several_arguments(example: object) -> None:
    assert owned(swap_dropout(Keywords(), "concrete", example_input=example)) == {"drop": (("fc.weight",), 4)}


@pytest.mark.parametrize("example", [X, {"y": X}, (X, X, X), torch.ones(3, 5)], ids=["few", "name", "many", "shape"])
def test_a_wrong_example_input_says_what_the_model_said(example: object) -> None:
    model = Keywords()
    with (
        unchanged(model),
        pytest.raises(ValueError, match=r"dry forward pass failed on example_input \(\w+Error: .*give a batch"),
    ):
        swap_dropout(model, "concrete", example_input=example)


# -- again and again ----------------------------------------


def test_from_kind_to_kind_and_back() -> None:
    model = swap_dropout(mlp(), "concrete", init_p=0.3, example_input=X)
    owners = owned(model)
    swap_dropout(model, "fixed", example_input=X)
    assert [type(model[i]) for i in (2, 5)] == [nn.Dropout, nn.Dropout]
    assert dropout_probabilities(model) == pytest.approx({"2": 0.3, "5": 0.3})  # the learned p stays
    swap_dropout(model, "none", example_input=X)
    assert kinds(model) == {"2": "none", "5": "none"}
    with pytest.raises(ValueError, match="p = 0 marks a place only"):
        swap_dropout(model, "concrete", example_input=X)
    swap_dropout(model, "concrete", include="*", example_input=X)
    assert kinds(model) == {"2": "concrete", "5": "concrete"}
    assert owned(model) == owners
    assert set(model.state_dict()) == {*mlp().state_dict(), "2.p_logit", "5.p_logit"}


def test_two_swaps_for_two_parts() -> None:
    model = mlp()
    swap_dropout(model, "concrete", init_p=0.2, length_scale=1.0, include="2", example_input=X)
    swap_dropout(model, "fixed", p=0.4, length_scale=3.0, include="5", example_input=X)
    assert kinds(model) == {"2": "concrete", "5": "fixed"}
    assert swap_report(model).skipped == ()  # what another swap did is not left alone
    kl = kl_divergence(model, per_layer=True)
    for name, weight, p, scale in (("2", model[3].weight, 0.2, 1.0), ("5", model[6].weight, 0.4, 3.0)):
        by_hand = scale**2 / 2 * squared_norm(weight) / (1 - p) - 8 * entropy(p)
        assert kl[name].item() == pytest.approx(by_hand, rel=1e-5)


def test_a_swap_of_the_whole_renews_the_swap_of_a_part() -> None:
    model = nn.Sequential(nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 4)), nn.Dropout(0.5), nn.Linear(4, 1))
    swap_dropout(model[0], "concrete", length_scale=9.0, example_input=X)
    swap_dropout(model, "concrete", length_scale=0.5, example_input=X)
    assert [row.module for row in swap_report(model).rows] == ["0.0", "1"]
    squares = sum(squared_norm(weight) for weight in (model[0][1].weight, model[2].weight))
    assert kl_divergence(model).item() == pytest.approx(0.125 * squares / 0.9 - 8 * entropy(0.1), rel=1e-5)


def test_swaps_of_parts_add_up() -> None:
    model = nn.ModuleDict({"encoder": mlp(), "decoder": mlp()})
    parts = [
        kl_divergence(swap_dropout(part, "concrete", length_scale=scale, example_input=X)).item()
        for part, scale in ((model["encoder"], 1.0), (model["decoder"], 2.0))
    ]
    assert set(dropout_probabilities(model)) == {"encoder.2", "encoder.5", "decoder.2", "decoder.5"}
    assert owned(model)["decoder.5"] == (("decoder.6.weight",), 8)
    assert kl_divergence(model).item() == pytest.approx(sum(parts))


# -- the report ----------------------------------------


def test_the_report_is_a_table() -> None:
    model = nn.Sequential(
        nn.Dropout2d(0.5),
        nn.Conv2d(3, 6, 3),
        nn.Dropout(0.0),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(24, 2),
    )
    swap_dropout(model, "concrete", init_p=0.25, example_input=torch.zeros(1, 3, 4, 4))
    swap_dropout(model, "fixed", include="4", example_input=torch.zeros(1, 3, 4, 4))
    assert str(swap_report(model)).splitlines() == [
        "module  kind      p       owners    K",
        "------  --------  ------  --------  --",
        "0       concrete  0.2500  1.weight  3",
        "4       fixed     0.2500  5.weight  24",
        "left alone, not included: 2",
    ]


def test_the_report_shows_p_as_it_is_now() -> None:
    model = swap_dropout(mlp(), "concrete", example_input=X)
    nn.init.constant_(model[2].p_logit, 0.0)
    assert [row.p for row in swap_report(model).rows] == [0.5, pytest.approx(0.1)]


def test_the_report_lists_functional_calls() -> None:
    model = swap_dropout(FunctionalHead(), "concrete", place="fc", example_input=X)
    assert str(swap_report(model)).splitlines()[-1] == "out of reach: F.dropout(p=0.3) in the model itself"


def test_a_report_needs_a_swap() -> None:
    with pytest.raises(ValueError, match="this model was not swapped"):
        swap_report(mlp())


# -- what a swapped model goes through ----------------------------------------


@pytest.mark.parametrize("place", [(), "*"], ids=["swapped", "placed"])
def test_copies_and_pickles_keep_the_kl(place: str) -> None:
    model = swap_dropout(mlp() if not place else plain(), "concrete", place=place, length_scale=0.5, example_input=X)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert kl_divergence(twin).item() == kl_divergence(model).item()
        assert str(swap_report(twin)) == str(swap_report(model))
        before = kl_divergence(model).item()
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter.add_(1.0)
        assert kl_divergence(model).item() == before
        assert kl_divergence(twin).item() != before
        assert not torch.equal(twin.train()(X), twin(X))


def test_state_dicts_travel() -> None:
    first, second = (swap_dropout(mlp(), "concrete", init_p=p, example_input=X) for p in (0.1, 0.4))
    second.load_state_dict(first.state_dict())
    assert dropout_probabilities(second) == dropout_probabilities(first)
    missing = first.load_state_dict(mlp().state_dict(), strict=False)
    assert missing.missing_keys == ["2.p_logit", "5.p_logit"]
    assert missing.unexpected_keys == []


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("place", [(), "*"], ids=["swapped", "placed"])
def test_models_of_other_dtypes(dtype: torch.dtype, place: str) -> None:
    model = (mlp() if not place else plain()).to(dtype)
    swap_dropout(model, "concrete", place=place, example_input=X.to(dtype))
    assert all(layer.p_logit.dtype in (torch.float32, dtype) for layer in model.modules() if hasattr(layer, "p_logit"))
    assert dropout_probabilities(model) == pytest.approx(dict.fromkeys(dropout_probabilities(model), 0.1), rel=1e-3)
    out = model.train()(X.to(dtype))
    assert out.dtype == dtype
    (out.float().square().sum() + kl_divergence(model)).backward()
    for parameter in model.parameters():
        assert parameter.grad is not None
        assert parameter.grad.dtype == parameter.dtype
        assert torch.isfinite(parameter.grad).all()


def test_learned_probabilities_live_where_the_weights_do() -> None:
    """On a (here: pretended) GPU the p logits belong there too: DDP and fused optimisers want one device."""
    with FakeTensorMode():
        model = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 2, device="cuda"))
        swap_dropout(model, "concrete", owners={"0": "1"})
        assert model[0].p_logit.device.type == "cuda"
