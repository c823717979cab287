"""The dry pass: which weights does a dropout mask, and how many entries has its mask?"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.nn.utils.rnn import pack_padded_sequence

from concrete_dropout.dropout import kl_divergence, swap_dropout, swap_report

Expected = dict[str, tuple[list[str], int]]
P, LENGTH_SCALE = 0.3, 0.5


class Net(nn.Module):
    """Modules and parameters by name, and a function of them as the forward pass."""

    def __init__(self, forward: Callable[..., object], **members: object) -> None:
        super().__init__()
        for name, member in members.items():
            setattr(self, name, member)
        self.function = forward

    def forward(self, *args: object, **kwargs: object) -> object:
        return self.function(self, *args, **kwargs)


def owned(model: nn.Module) -> Expected:
    return {row.module: (list(row.owners), row.num_entries) for row in swap_report(model).rows}


def sides(model: nn.Module) -> dict[str, list[str]]:
    return {entry.name: [site.side for site in entry.sites] for entry in model._dropout_swap.entries}


def check(model: nn.Module, x: object, expected: Expected) -> nn.Module:
    """Owners and K, one training step, and the KL against a sum by hand."""
    swap_dropout(model, "concrete", init_p=P, length_scale=LENGTH_SCALE, example_input=x)
    assert owned(model) == expected

    out = model.train()(x)
    out.square().mean().backward()
    for name in expected:
        grad = model.get_submodule(name).p_logit.grad
        assert grad is not None, name
        assert torch.isfinite(grad), name

    model.eval()  # spectral normalisation moves in train mode
    entropy = -P * math.log(P) - (1 - P) * math.log(1 - P)
    by_hand = 0.0
    for owners, entries in expected.values():
        for owner in owners:
            path, _, attribute = owner.rpartition(".")
            weight = getattr(model.get_submodule(path), attribute).detach().double()
            by_hand += LENGTH_SCALE**2 / 2 * float(weight.square().sum()) / (1 - P)
        by_hand -= entries * entropy
    assert kl_divergence(model).item() == pytest.approx(by_hand, rel=1e-5)
    return model


def vectors(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


# -- consumers ----------------------------------------

CONVOLUTIONS = [
    nn.Conv2d(8, 4, 3),
    nn.Conv2d(8, 4, 3, padding=1, padding_mode="reflect"),
    nn.Conv2d(8, 6, 3, groups=2),
    nn.Conv2d(8, 8, 3, groups=8),  # depth-wise
    nn.Conv2d(8, 16, 3, groups=8),  # depth-wise with a multiplier
    nn.ConvTranspose2d(8, 4, 2, stride=2),
    nn.ConvTranspose2d(8, 6, 2, stride=2, groups=2),
]


@pytest.mark.parametrize("dropout", [nn.Dropout, nn.Dropout2d])
@pytest.mark.parametrize("conv", CONVOLUTIONS, ids=str)
def test_a_convolution_behind_the_dropout_has_as_many_entries_as_input_channels(
    conv: nn.Module, dropout: type[nn.Module]
) -> None:
    model = check(nn.Sequential(dropout(0.5), conv), vectors(2, 8, 6, 6), {"0": (["1.weight"], 8)})
    (owner,) = model._dropout_swap.entries[0].sites[0].owners
    assert owner.fan_in == 8 // conv.groups
    assert sides(model) == {"0": ["columns"]}


@pytest.mark.parametrize("conv", CONVOLUTIONS, ids=str)
def test_a_convolution_in_front_of_the_dropout_has_as_many_entries_as_output_channels(
    conv: nn.Module,
) -> None:
    tail = nn.Sigmoid()  # no consumer
    model = check(
        nn.Sequential(conv, nn.ReLU(), nn.Dropout2d(0.5), tail),
        vectors(2, 8, 6, 6),
        {"2": (["0.weight"], conv.out_channels)},
    )
    assert sides(model) == {"2": ["rows"]}
    (owner,) = model._dropout_swap.entries[0].sites[0].owners
    assert owner.fan_in == 8 // conv.groups


@pytest.mark.parametrize(
    ("model", "shape", "entries"),
    [
        (nn.Sequential(nn.Dropout1d(0.5), nn.Conv1d(8, 4, 3)), (2, 8, 6), 8),
        (nn.Sequential(nn.Dropout(0.5), nn.ConvTranspose1d(8, 4, 3)), (2, 8, 6), 8),
        (nn.Sequential(nn.Dropout3d(0.5), nn.Conv3d(8, 4, 2)), (2, 8, 3, 3, 3), 8),
        (nn.Sequential(nn.Dropout3d(0.5), nn.ConvTranspose3d(8, 4, 2)), (2, 8, 3, 3, 3), 8),
        (nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 4)), (2, 8), 8),
        (nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 4)), (8,), 8),
        (nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 4)), (2, 3, 5, 8), 8),
    ],
    ids=str,
)
def test_other_dimensions(model: nn.Module, shape: tuple[int, ...], entries: int) -> None:
    check(model, vectors(*shape), {"0": (["1.weight"], entries)})


@pytest.mark.parametrize(
    ("between", "width"),
    [
        (nn.Flatten(), 8 * 16),
        (nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), 8),
        (nn.Sequential(nn.MaxPool2d(2), nn.ReLU(inplace=True), nn.Flatten()), 8 * 4),
    ],
    ids=["flatten", "pool", "max"],
)
def test_whole_channels_stay_whole_on_the_way_to_a_linear_layer(between: nn.Module, width: int) -> None:
    model = nn.Sequential(nn.Dropout2d(0.5), between, nn.Linear(width, 3))
    check(model, vectors(2, 8, 4, 4), {"0": (["2.weight"], 8)})
    elementwise = nn.Sequential(nn.Dropout(0.5), between, nn.Linear(width, 3))
    check(elementwise, vectors(2, 8, 4, 4), {"0": (["2.weight"], width)})


FUNCTIONS_BETWEEN = {
    "relu": F.relu,
    "leaky relu": lambda x: F.leaky_relu(x, 0.1),
    "inplace relu": lambda x: F.relu_(x.clone()),
    "absolute": torch.abs,
    "scaled": lambda x: 2 * x / math.sqrt(3) * 0.5,
    "views": lambda x: x.unsqueeze(1).expand(-1, 3, -1).reshape(-1, 8).contiguous(),
    "steps": lambda x: x[:, None].repeat(1, 3, 1)[:, -1],
    "transposed": lambda x: x.T.t(),
    "float": lambda x: x.double().float().to(torch.float32),
    "mean over steps": lambda x: x[:, None].repeat(1, 3, 1).mean(1),
    "inactive functional dropout": lambda x: F.dropout(x, 0.0, True),
}


@pytest.mark.parametrize("between", FUNCTIONS_BETWEEN.values(), ids=FUNCTIONS_BETWEEN)
def test_functions_that_commute_with_a_mask(between: Callable[[Tensor], Tensor]) -> None:
    model = Net(lambda m, x: m.head(between(m.drop(x))), drop=nn.Dropout(0.5), head=nn.Linear(8, 2))
    check(model, vectors(4, 8), {"drop": (["head.weight"], 8)})
    behind = Net(lambda m, x: torch.sin(m.drop(between(m.stem(x)))), drop=nn.Dropout(0.5), stem=nn.Linear(5, 8))
    check(behind, vectors(4, 5), {"drop": (["stem.weight"], 8)})


@pytest.mark.parametrize(
    "between",
    [
        torch.tanh,
        F.gelu,
        F.relu6,
        lambda x: x + 1,
        lambda x: -1 * x.exp(),
        lambda x: x.clone().add_(1),
        nn.LayerNorm(8),
    ],
    ids=["tanh", "gelu", "relu6", "add", "exp", "inplace add", "norm"],
)
def test_functions_that_do_not_commute_hide_the_weight(between: Callable[[Tensor], Tensor]) -> None:
    model = Net(lambda m, x: m.head(between(m.drop(x))), drop=nn.Dropout(0.5), head=nn.Linear(8, 2))
    with pytest.raises(ValueError, match="cannot tell which weights dropout 'drop' masks"):
        swap_dropout(model, "concrete", example_input=vectors(4, 8))
    # with a layer in front, its rows are what is masked
    stem = Net(
        lambda m, x: m.head(between(m.drop(m.stem(x)))),
        stem=nn.Linear(5, 8),
        drop=nn.Dropout(0.5),
        head=nn.Linear(8, 2),
    )
    check(stem, vectors(4, 5), {"drop": (["stem.weight"], 8)})


def test_consumers_win_over_the_producer() -> None:
    model = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    check(model, vectors(4, 5), {"1": (["2.weight"], 8)})


def test_a_residual_branch_owns_its_last_layer() -> None:
    model = Net(
        lambda m, x: m.norm(x + m.drop(m.layer(x))),
        layer=nn.Linear(8, 8),
        drop=nn.Dropout(0.5),
        norm=nn.LayerNorm(8),
    )
    check(model, vectors(4, 8), {"drop": (["layer.weight"], 8)})


def test_one_dropout_in_several_places_counts_each_mask() -> None:
    model = Net(
        lambda m, x: m.b(m.drop(F.relu(m.a(m.drop(x))))),
        a=nn.Linear(8, 6),
        b=nn.Linear(6, 2),
        drop=nn.Dropout(0.5),
    )
    check(model, vectors(4, 8), {"drop": (["a.weight", "b.weight"], 8 + 6)})


def test_a_layer_called_twice_counts_once() -> None:
    def forward(m: nn.Module, x: Tensor) -> Tensor:
        return m.layer(m.drop(torch.tanh(m.layer(m.drop(x)))))

    check(
        Net(forward, layer=nn.Linear(8, 8), drop=nn.Dropout(0.5)),
        vectors(4, 8),
        {"drop": (["layer.weight"], 8)},
    )
    twice = nn.Linear(8, 8)  # one module under two names
    model = Net(lambda m, x: m.b(m.drop(torch.tanh(m.a(m.drop(x))))), a=twice, b=twice, drop=nn.Dropout(0.5))
    check(model, vectors(4, 8), {"drop": (["a.weight"], 8)})


def test_masks_on_top_of_each_other_both_own_the_weight() -> None:
    model = nn.Sequential(nn.Dropout2d(0.5), nn.Dropout(0.5), nn.Conv2d(8, 2, 1))
    check(model, vectors(2, 8, 4, 4), {"0": (["2.weight"], 8), "1": (["2.weight"], 8)})


def test_a_split_mask_keeps_all_its_entries() -> None:
    """Both halves are masked: eight entries, not the four that each consumer sees."""

    def forward(m: nn.Module, x: Tensor) -> Tensor:
        left, right = m.drop(x).chunk(2, -1)
        return m.a(left) + m.b(right)

    model = Net(forward, drop=nn.Dropout(0.5), a=nn.Linear(4, 2), b=nn.Linear(4, 2))
    check(model, vectors(4, 8), {"drop": (["a.weight", "b.weight"], 8)})


def test_a_part_of_a_layers_outputs_has_as_many_entries_as_it_has_features() -> None:
    def forward(m: nn.Module, x: Tensor) -> Tensor:
        value, gate = m.layer(x).chunk(2, -1)
        return m.drop(value) * torch.sigmoid(gate)

    model = Net(forward, drop=nn.Dropout(0.5), layer=nn.Linear(5, 16))
    swap_dropout(model, "concrete", example_input=vectors(4, 5))
    assert owned(model) == {"drop": (["layer.weight"], 8)}


def test_an_unbatched_volume_has_its_channels_in_front() -> None:
    model = nn.Sequential(nn.Dropout3d(0.5), nn.Conv3d(8, 4, 3))
    swap_dropout(model, "concrete", example_input=vectors(8, 5, 5, 5))
    assert owned(model) == {"0": (["1.weight"], 8)}


# -- how a weight can be written ----------------------------------------

PRODUCTS = {
    "F.linear": lambda m, x: F.linear(m.drop(x), m.W),
    "F.linear by keyword": lambda m, x: F.linear(input=m.drop(x), weight=m.W),
    "@": lambda m, x: m.drop(x) @ m.W.T,
    "matmul": lambda m, x: torch.matmul(m.drop(x), m.W.t()),
    "mm": lambda m, x: torch.mm(m.drop(x), m.W.transpose(0, 1)),
    "scaled weight": lambda m, x: F.linear(m.drop(x), m.W * 0.5),
    "slices": lambda m, x: F.linear(m.drop(x), m.W[:2]),
    "conv1d": lambda m, x: F.conv1d(m.drop(x)[..., None], m.W[..., None]),
}


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
def test_weights_of_custom_modules(product: Callable[..., Tensor]) -> None:
    model = Net(product, drop=nn.Dropout(0.5), W=nn.Parameter(torch.randn(4, 8)))
    check(model, vectors(3, 8), {"drop": (["W"], 8)})


def test_a_batched_matrix_product_of_activations_owns_nothing() -> None:
    """Attention weights: softmax(...) is dropped, and multiplied by values that are no parameter."""

    def forward(m: nn.Module, x: Tensor) -> Tensor:
        return m.drop(torch.softmax(x @ x.mT, -1)) @ m.value(x)

    model = Net(forward, value=nn.Linear(8, 8), drop=nn.Dropout(0.1))
    with pytest.raises(ValueError, match="cannot tell which weights dropout 'drop'"):
        swap_dropout(model, "concrete", example_input=vectors(2, 3, 8))


@pytest.mark.parametrize(
    "wrap", [parametrizations.weight_norm, parametrizations.spectral_norm, parametrizations.orthogonal]
)
def test_parametrised_weights(wrap: Callable[[nn.Module], nn.Module]) -> None:
    model = nn.Sequential(nn.Dropout(0.5), wrap(nn.Linear(8, 4)), nn.ReLU(), nn.Dropout(0.5), nn.Softmax(-1))
    check(model, vectors(3, 8), {"0": (["1.weight"], 8), "3": (["1.weight"], 4)})
    kl_divergence(model).backward()  # reaches the parameters behind the weight
    assert all(q.grad is not None for q in model[1].parametrizations.parameters())


def test_the_kl_leaves_the_state_of_a_parametrisation_alone() -> None:
    model = nn.Sequential(nn.Dropout(0.5), parametrizations.spectral_norm(nn.Linear(8, 4)))
    swap_dropout(model.train(), "concrete", example_input=vectors(3, 8))
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    kl_divergence(model)
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())


def test_weights_computed_by_a_hook() -> None:
    """torch.nn.utils.spectral_norm, the older one, sets a plain attribute before every forward pass."""
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.5), nn.utils.spectral_norm(nn.Linear(8, 4)))
    swap_dropout(model, "concrete", example_input=vectors(3, 5))
    assert sides(model) == {"2": ["columns"]}
    assert owned(model)["2"][1] == 8


# -- recurrent layers and embeddings ----------------------------------------


@pytest.mark.parametrize("recurrent", [nn.RNN, nn.LSTM, nn.GRU])
def test_recurrent_layers_own_their_input_weights(recurrent: type[nn.RNNBase]) -> None:
    model = Net(lambda m, x: m.rnn(m.drop(x))[0], drop=nn.Dropout(0.5), rnn=recurrent(8, 4, num_layers=2))
    check(model, vectors(3, 2, 8), {"drop": (["rnn.weight_ih_l0"], 8)})
    both = Net(lambda m, x: m.rnn(m.drop(x))[0], drop=nn.Dropout(0.5), rnn=recurrent(8, 4, bidirectional=True))
    check(both, vectors(3, 2, 8), {"drop": (["rnn.weight_ih_l0", "rnn.weight_ih_l0_reverse"], 8)})


def test_recurrent_layer_called_by_keyword() -> None:
    model = Net(lambda m, x: m.rnn(input=m.drop(x))[0], drop=nn.Dropout(0.5), rnn=nn.LSTM(8, 4))
    check(model, vectors(3, 2, 8), {"drop": (["rnn.weight_ih_l0"], 8)})


def test_packed_sequences_reach_the_recurrent_layer() -> None:
    """Embedding, dropout, pack, LSTM: the same network as without packing, so the same owner."""

    def forward(m: nn.Module, tokens: Tensor) -> Tensor:
        packed = pack_padded_sequence(m.drop(m.embedding(tokens)), torch.tensor([4, 3]), batch_first=True)
        return m.rnn(packed)[1][0][-1]

    model = Net(forward, embedding=nn.Embedding(20, 8), drop=nn.Dropout(0.5), rnn=nn.LSTM(8, 4, batch_first=True))
    check(model, torch.ones(2, 4, dtype=torch.long), {"drop": (["rnn.weight_ih_l0"], 8)})


def test_an_embedding_in_front_of_a_dropout_is_the_producer() -> None:
    model = Net(
        lambda m, tokens: torch.tanh(m.drop(m.embedding(tokens))),
        embedding=nn.Embedding(20, 8),
        drop=nn.Dropout(0.5),
    )
    model = check(model, torch.ones(2, 4, dtype=torch.long), {"drop": (["embedding.weight"], 8)})
    assert model._dropout_swap.entries[0].sites[0].owners[0].fan_in == 20  # a linear map of one-hot vectors
    followed = nn.Sequential(nn.Embedding(20, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    check(followed, torch.ones(2, 4, dtype=torch.long), {"1": (["2.weight"], 8)})


def test_attention_with_separate_projections() -> None:
    model = Net(
        lambda m, x: m.attention(m.drop(x), x[..., :4], x[..., :6])[0],
        drop=nn.Dropout(0.5),
        attention=nn.MultiheadAttention(8, 2, kdim=4, vdim=6, batch_first=True),
    )
    check(model, vectors(2, 3, 8), {"drop": (["attention.q_proj_weight"], 8)})


# -- functional dropout ----------------------------------------


def test_functional_dropouts_are_named_once_each() -> None:
    def forward(m: nn.Module, x: Tensor) -> Tensor:
        x = F.dropout(F.dropout(m.inner(x), 0.25, m.training), p=0.25, training=m.training)
        return m.head(F.dropout(x, 0.0))

    inner = Net(lambda m, x: F.dropout1d(m.layer(x), 0.5, m.training), layer=nn.Linear(8, 8))
    model = Net(forward, inner=inner, drop=nn.Dropout(0.5), head=nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 2)))
    swap_dropout(model, "concrete", exclude="drop", example_input=vectors(4, 8))
    assert [str(call) for call in swap_report(model).functional] == [
        "F.dropout1d(p=0.5) in inner",
        "F.dropout(p=0.25) in the model itself",
    ]


def test_modules_that_were_left_alone_are_not_functional_calls() -> None:
    model = nn.Sequential(nn.Dropout(0.3), nn.AlphaDropout(0.3), nn.Dropout(0.5), nn.Linear(8, 2))
    swap_dropout(model, "concrete", exclude="0", example_input=vectors(4, 8))
    assert [name for name, _ in swap_report(model).skipped] == ["0", "1"]
    assert swap_report(model).functional == ()
