"""The swap on whole networks: who owns what, that a training step works, and what the KL comes to."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from concrete_dropout.dropout import freeze, kl_divergence, swap_dropout, swap_report
from concrete_dropout.dropout.layers import _ConcreteDropoutNd
from concrete_dropout.dropout.sampling import mc_sampling

P, LENGTH_SCALE = 0.2, 0.3
Expected = dict[str, tuple[list[str], int]]


def owned(model: nn.Module) -> Expected:
    return {row.module: (list(row.owners), row.num_entries) for row in swap_report(model).rows}


def expected_kl(model: nn.Module, expected: Expected) -> float:
    """Equation 3 of the paper, summed by hand in double precision."""
    entropy = -P * math.log(P) - (1 - P) * math.log(1 - P)
    total = 0.0
    for owners, entries in expected.values():
        for owner in owners:
            path, _, attribute = owner.rpartition(".")
            weight = getattr(model.get_submodule(path), attribute).detach().double()
            total += LENGTH_SCALE**2 / 2 * float((weight * weight).sum()) / (1 - P)
        total -= entries * entropy
    return total


def outputs_of(out: object) -> list[Tensor]:
    if isinstance(out, Tensor):
        return [out]
    values = out.values() if isinstance(out, dict) else out
    return [tensor for value in values for tensor in outputs_of(value)]


def check_swapped(model: nn.Module, x: object, expected: Expected, **keywords: object) -> nn.Module:
    """Swap; owners and K as expected; one training step reaches every p; the KL is the closed form."""
    names = list(model.state_dict())
    swap_dropout(model, "concrete", init_p=P, length_scale=LENGTH_SCALE, example_input=x, **keywords)
    assert owned(model) == expected
    added = {f"{name}.p_logit" for name in expected}
    assert set(model.state_dict()) == set(names) | added

    model.train()
    loss = sum(out.float().square().mean() for out in outputs_of(model(*x) if isinstance(x, tuple) else model(x)))
    loss.backward()
    for name in expected:
        layer = model.get_submodule(name)
        assert isinstance(layer, _ConcreteDropoutNd)
        assert layer.p_logit.grad is not None, name
        assert torch.isfinite(layer.p_logit.grad), name

    model.eval()  # parametrisations may move in train mode
    kl = kl_divergence(model)
    assert kl.item() == pytest.approx(expected_kl(model, expected), rel=1e-4)
    kl.backward()
    assert all(torch.isfinite(model.get_submodule(name).p_logit.grad) for name in expected)
    return model


@pytest.fixture
def images() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(2, 3, 64, 64)


# -- networks from libraries ----------------------------------------


def test_torchvision_vgg16(images: Tensor) -> None:
    models = pytest.importorskip("torchvision.models")
    model = models.vgg16(weights=None, num_classes=10, init_weights=False)
    expected = {
        "classifier.2": (["classifier.3.weight"], 4096),
        "classifier.5": (["classifier.6.weight"], 4096),
    }
    check_swapped(model, images, expected)


def test_torchvision_deeplab_v3_with_auxiliary_head(images: Tensor) -> None:
    models = pytest.importorskip("torchvision.models")
    model = models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=5, aux_loss=True)
    expected = {
        "classifier.0.project.3": (["classifier.1.weight"], 256),  # ASPP, element-wise on its feature map
        "aux_classifier.3": (["aux_classifier.4.weight"], 256),
    }
    check_swapped(model, images, expected)


def test_timm_vit(images: Tensor) -> None:
    timm = pytest.importorskip("timm")
    model = timm.create_model(
        "vit_tiny_patch16_224", img_size=64, depth=2, num_classes=10, proj_drop_rate=0.1, drop_rate=0.1
    )
    expected: Expected = {}
    for block in ("blocks.0", "blocks.1"):
        expected |= {
            f"{block}.attn.proj_drop": ([f"{block}.attn.proj.weight"], 192),  # behind its layer: rows
            f"{block}.mlp.drop1": ([f"{block}.mlp.fc2.weight"], 768),
            f"{block}.mlp.drop2": ([f"{block}.mlp.fc2.weight"], 192),  # rows, of the residual branch
        }
    expected["head_drop"] = (["head.weight"], 192)
    model = check_swapped(model, images, expected)
    skipped = [name for name, _ in swap_report(model).skipped]
    assert skipped == ["pos_drop", "blocks.0.attn.attn_drop", "blocks.1.attn.attn_drop"]


def test_timm_vit_attention_dropout_is_refused_by_name(images: Tensor) -> None:
    """The fused attention reads attn_drop.p and never calls the module: a learned p would get no gradient."""
    timm = pytest.importorskip("timm")
    model = timm.create_model("vit_tiny_patch16_224", img_size=64, depth=1, attn_drop_rate=0.1)
    with pytest.raises(ValueError, match=r"'blocks\.0\.attn\.attn_drop' masks: it was not reached .*exclude="):
        swap_dropout(model, "concrete", example_input=images)


def test_timm_convnext(images: Tensor) -> None:
    timm = pytest.importorskip("timm")
    model = timm.create_model("convnext_atto", num_classes=10, drop_rate=0.2)
    check_swapped(model, images, {"head.drop": (["head.fc.weight"], 320)})


@pytest.mark.parametrize(
    ("name", "head", "features"), [("efficientnet_b0", "classifier", 1280), ("resnet18", "fc", 512)]
)
def test_timm_functional_dropout_is_named_and_place_is_the_way(
    images: Tensor, name: str, head: str, features: int
) -> None:
    timm = pytest.importorskip("timm")
    model = timm.create_model(name, num_classes=10, drop_rate=0.25)
    names = list(model.state_dict())
    with pytest.raises(ValueError, match=rf"F\.dropout\(p=0\.25\) in the model itself.*place='{head}'"):
        swap_dropout(model, "concrete", example_input=images)
    assert list(model.state_dict()) == names

    check_swapped(model, images, {f"{head}.dropout": ([f"{head}.weight"], features)}, place=head)
    report = swap_report(model)
    assert [(call.module, call.function, call.p) for call in report.functional] == [("", "F.dropout", 0.25)]
    assert "out of reach: F.dropout(p=0.25) in the model itself" in str(report)


def test_timm_resnet18_through_place(images: Tensor) -> None:
    timm = pytest.importorskip("timm")
    model = timm.create_model("resnet18", num_classes=10)
    expected = {
        "layer4.0.conv1.dropout": (["layer4.0.conv1.weight"], 256),
        "layer4.0.conv2.dropout": (["layer4.0.conv2.weight"], 512),
        "layer4.1.conv1.dropout": (["layer4.1.conv1.weight"], 512),
        "layer4.1.conv2.dropout": (["layer4.1.conv2.weight"], 512),
        "fc.dropout": (["fc.weight"], 512),
    }
    check_swapped(model, images, expected, place=["layer4.*.conv*", "fc"])


def test_smp_deeplab_v3_plus(images: Tensor) -> None:
    smp = pytest.importorskip("segmentation_models_pytorch")
    model = smp.DeepLabV3Plus("resnet18", encoder_weights=None, classes=4)
    # ASPP's dropout goes into the depth-wise half of a separable convolution
    check_swapped(model, images, {"decoder.aspp.0.project.3": (["decoder.aspp.1.0.weight"], 256)})


def test_smp_unet_through_place(images: Tensor) -> None:
    smp = pytest.importorskip("segmentation_models_pytorch")
    model = smp.Unet("resnet18", encoder_weights=None, classes=4)
    channels = {  # skip connections widen the first convolution of each block
        "decoder.blocks.0": (768, 256),
        "decoder.blocks.1": (384, 128),
        "decoder.blocks.2": (192, 64),
        "decoder.blocks.3": (128, 32),
        "decoder.blocks.4": (32, 16),
    }
    expected = {
        f"{block}.conv{i}.0.dropout": ([f"{block}.conv{i}.0.weight"], entries)
        for block, pair in channels.items()
        for i, entries in enumerate(pair, start=1)
    }
    check_swapped(model, images, expected, place="decoder.*")


def test_smp_segformer_through_place(images: Tensor) -> None:
    smp = pytest.importorskip("segmentation_models_pytorch")
    model = smp.Segformer("mit_b0", encoder_weights=None, classes=4)
    expected = {
        f"decoder.mlp_stage.{i}.linear.dropout": ([f"decoder.mlp_stage.{i}.linear.weight"], width)
        for i, width in enumerate((256, 160, 64, 32))
    }
    expected["decoder.fuse_stage.0.dropout"] = (["decoder.fuse_stage.0.weight"], 1024)
    check_swapped(model, images, expected, place="decoder.*")


def test_the_dry_pass_agrees_with_place_on_every_layer_of_segformer(images: Tensor) -> None:
    """Placed dropouts know their layer; a second swap finds the same by tracing."""
    smp = pytest.importorskip("segmentation_models_pytorch")
    model = smp.Segformer("mit_b0", encoder_weights=None, classes=4)
    layers = {name: m for name, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    swap_dropout(model, "concrete", place="*", example_input=images)
    placed = owned(model)
    assert placed == {
        f"{name}.dropout": ([f"{name}.weight"], m.in_features if isinstance(m, nn.Linear) else m.in_channels)
        for name, m in layers.items()
    }
    swap_dropout(model, "concrete", example_input=images)
    assert owned(model) == placed


# -- networks of one's own ----------------------------------------


def mlp(width: int = 16) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(4, width), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(width, width), nn.Tanh(), nn.Dropout(0.5),
        nn.Linear(width, 2),
    )  # fmt: skip


def test_mlp() -> None:
    check_swapped(mlp(), torch.randn(8, 4), {"2": (["3.weight"], 16), "5": (["6.weight"], 16)})


class DenseBlock(nn.Module):
    """FC-DenseNet: BN-ReLU-Conv-Dropout, whose output is concatenated to its input."""

    def __init__(self, channels: int = 6, growth: int = 4, depth: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(channels + i * growth),
                nn.ReLU(inplace=True),
                nn.Conv2d(channels + i * growth, growth, 3, padding=1),
                nn.Dropout2d(0.2),
            )
            for i in range(depth)
        )
        self.head = nn.Conv2d(channels + depth * growth, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return self.head(x)


def test_dense_block_owns_the_rows_of_its_own_convolutions() -> None:
    expected = {f"layers.{i}.3": ([f"layers.{i}.2.weight"], 4) for i in range(3)}
    check_swapped(DenseBlock(), torch.randn(2, 6, 8, 8), expected)


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5))
        self.mean, self.log_var = nn.Linear(8, 1), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.trunk(x)
        return self.mean(features), self.log_var(features)


def test_heads_that_share_a_dropout_share_its_entropy() -> None:
    check_swapped(TwoHeads(), torch.randn(8, 4), {"trunk.2": (["mean.weight", "log_var.weight"], 8)})


class LSTMClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.input_dropout = nn.Dropout(0.1)
        self.lstm = nn.LSTM(6, 5, batch_first=True)
        self.output_dropout = nn.Dropout(0.5)
        self.head = nn.Linear(5, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.lstm(self.input_dropout(self.embedding(tokens)))
        return self.head(self.output_dropout(states[:, -1]))


def test_lstm_classifier() -> None:
    expected = {"input_dropout": (["lstm.weight_ih_l0"], 6), "output_dropout": (["head.weight"], 5)}
    check_swapped(LSTMClassifier(), torch.randint(20, (3, 7)), expected)


class SharedWeights(nn.Module):
    """One layer called twice, and an output layer tied to the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.layer = nn.Linear(6, 6)
        self.dropout = nn.Dropout(0.5)
        self.output_dropout = nn.Dropout(0.5)
        self.output = nn.Linear(6, 20, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for _ in range(2):
            x = torch.tanh(self.layer(self.dropout(x)))
        return self.output(self.output_dropout(x))


def test_shared_weights_count_once() -> None:
    model = SharedWeights()
    expected = {"dropout": (["layer.weight"], 6), "output_dropout": (["embedding.weight"], 6)}
    check_swapped(model, torch.randint(20, (3, 7)), expected)
    swap_dropout(
        model,
        "concrete",
        example_input=torch.randint(20, (3, 7)),
        length_scale=1.0,
        length_scale_mode="sqrt_fan_in",
    )
    weight = model.embedding.weight.detach().double()
    entropy = -0.1 * math.log(0.1) - 0.9 * math.log(0.9)
    # tied, but used as the output layer here: K_in is 6, not the vocabulary's 20
    by_hand = 6 / 2 * float(weight.square().sum()) / 0.9 - 6 * entropy
    assert kl_divergence(model, per_layer=True)["output_dropout"].item() == pytest.approx(by_hand, rel=1e-5)


def test_transformer_encoder() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    expected: Expected = {}
    for name in ("layers.0", "layers.1"):
        expected |= {
            f"{name}.dropout": ([f"{name}.linear2.weight"], 16),
            f"{name}.dropout1": ([f"{name}.self_attn.out_proj.weight"], 8),  # rows: behind the attention
            f"{name}.dropout2": ([f"{name}.linear2.weight"], 8),  # rows
        }
    check_swapped(model, torch.randn(2, 3, 8), expected)


def test_transformer_encoder_samples_in_eval_mode() -> None:
    """torch's fused encoder layer, taken in eval mode without gradients, never calls its dropouts."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    model, x = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(2, 3, 8)
    swap_dropout(model, "concrete", init_p=0.5, example_input=x).eval()
    with torch.no_grad(), mc_sampling(model):
        assert not torch.equal(model(x), model(x))
    assert torch.equal(model(x), model(x))


def test_transformer_with_positions_and_decoder() -> None:
    class Seq2Seq(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.position = nn.Parameter(torch.randn(1, 3, 8))
            self.dropout = nn.Dropout(0.1)
            self.body = nn.TransformerDecoderLayer(8, 2, 16, dropout=0.1, batch_first=True)

        def forward(self, x: Tensor, memory: Tensor) -> Tensor:
            return self.body(self.dropout(x + self.position), memory)

    expected = {
        "dropout": (["body.self_attn.in_proj_weight"], 8),  # one mask for query, key and value
        "body.dropout": (["body.linear2.weight"], 16),
        "body.dropout1": (["body.self_attn.out_proj.weight"], 8),
        "body.dropout2": (["body.multihead_attn.out_proj.weight"], 8),
        "body.dropout3": (["body.linear2.weight"], 8),
    }
    check_swapped(Seq2Seq(), (torch.randn(2, 3, 8), torch.randn(2, 4, 8)), expected)


def test_a_dropout_without_a_weight_is_an_error_that_says_what_to_do() -> None:
    class NormFirst(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dropout = nn.Dropout(0.5)
            self.norm = nn.LayerNorm(4)
            self.head = nn.Linear(4, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.norm(self.dropout(x)))

    model = NormFirst()
    with pytest.raises(ValueError, match=r"which weights dropout 'dropout' masks.*owners=\{'dropout': .*exclude="):
        swap_dropout(model, "concrete", example_input=torch.randn(2, 4))
    assert isinstance(model.dropout, nn.Dropout)
    # what it says to do
    check_swapped(model, torch.randn(2, 4), {"dropout": (["head.weight"], 4)}, owners={"dropout": ["head"]})


def test_every_own_network_freezes_to_its_old_names() -> None:
    for model, x in (
        (mlp(), torch.randn(2, 4)),
        (DenseBlock(), torch.randn(2, 6, 8, 8)),
        (TwoHeads(), torch.randn(2, 4)),
        (LSTMClassifier(), torch.randint(20, (3, 7))),
        (SharedWeights(), torch.randint(20, (3, 7))),
    ):
        names = list(model.state_dict())
        frozen = freeze(swap_dropout(model, "concrete", example_input=x))
        assert list(frozen.state_dict()) == names
