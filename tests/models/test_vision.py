"""Networks of other libraries: any size of image, the flag, and what cannot be built."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from concrete_dropout import dropout_probabilities, kl_divergence, mc_predict, swap_dropout, swap_report
from concrete_dropout.errors import UserError
from concrete_dropout.models.vision import smp_model, timm_model, torchvision_model

ARCHITECTURES = ["unet", "deeplabv3plus", "segformer"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_images_of_any_size(architecture: str) -> None:
    network = smp_model(architecture, 3, 5, encoder_name="resnet18").eval()
    with torch.no_grad():
        assert network(torch.rand(2, 3, 45, 70)).shape == (2, 5, 45, 70)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_logits_are_those_of_the_library_where_nothing_is_padded(architecture: str) -> None:
    import segmentation_models_pytorch as smp

    network = smp_model(architecture, 3, 5, encoder_name="resnet18").eval()
    theirs = smp.create_model(architecture, encoder_name="resnet18", encoder_weights=None, in_channels=3, classes=5)
    theirs.load_state_dict(network.state_dict())  # the same names
    x = torch.rand(1, 3, 64, 96)
    with torch.no_grad():
        assert torch.equal(network(x), theirs.eval()(x))


@pytest.mark.parametrize("kind", ["fixed", "concrete"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_flag_and_placed_dropout(architecture: str, kind: str) -> None:
    network = smp_model(architecture, 3, 4, encoder_name="resnet18")
    x = torch.rand(2, 3, 64, 64)
    swap_dropout(
        network, kind, p=0.2 if kind == "fixed" else None, place="decoder.*", length_scale=1.0, example_input=x
    )
    placed = dropout_probabilities(network)
    convolutions = [n for n, m in network.decoder.named_modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(placed) >= len(convolutions)
    assert all(name.startswith("decoder.") for name in placed)
    assert kl_divergence(network).isfinite()
    nn.functional.cross_entropy(network(x), torch.zeros(2, 64, 64).long()).backward()
    prediction = mc_predict(network, x, "categorical", samples=4, seed=0)
    assert (prediction.epistemic > -1e-6).all()
    assert prediction.epistemic.mean() > 1e-6
    assert str(swap_report(network))


@pytest.mark.parametrize(
    ("build", "place"),
    [
        (lambda: timm_model("resnet18", 1, 10), ["layer4.*", "fc"]),
        (lambda: timm_model("vit_tiny_patch16_224", 1, 10, options={"img_size": 32, "proj_drop_rate": 0.1}), None),
        (lambda: torchvision_model("resnet18", 3, 10), ["fc"]),
        (lambda: torchvision_model("mobilenet_v3_small", 3, 10), None),
    ],
    ids=["timm resnet", "timm vit", "torchvision resnet", "torchvision mobilenet"],
)
def test_classifiers_learn_p(build: Callable[[], nn.Module], place: list[str] | None) -> None:
    network = build()
    channels = 1 if "timm" in type(network).__module__ else 3
    x = torch.rand(4, channels, 32, 32)
    assert network(x).shape == (4, 10)
    swap_dropout(network, "concrete", place=place or (), length_scale=1e-2, example_input=x)
    assert dropout_probabilities(network)
    loss = nn.functional.cross_entropy(network(x), torch.arange(4)) + kl_divergence(network) / 100
    loss.backward()
    logits = [p for name, p in network.named_parameters() if name.endswith("p_logit")]
    assert logits
    assert all(p.grad is not None and p.grad.isfinite() for p in logits)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: smp_model("unett", 3, 5), ["model.architecture=unett"]),
        (lambda: smp_model("unet", 3, 5, encoder_name="resnet19"), ["model.encoder_name=resnet19"]),
        (lambda: smp_model("unet", 3, 5, options={"encoder_depth": 9}), ["model.architecture=unet"]),
        (lambda: timm_model("resnet18", 3, 5, options={"depht": 3}), ["model.name=resnet18", "depht"]),
        (lambda: timm_model("resnet19", 3, 5), ["model.name=resnet19"]),
        (lambda: torchvision_model("resnet19", 3, 5), ["model.name=resnet19"]),
        (lambda: torchvision_model("resnet18", 1, 5), ["3 channels", "model=timm"]),
    ],
)
def test_what_cannot_be_built_is_refused_by_name(build: Callable[[], nn.Module], words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        build()
    assert all(word in str(caught.value) for word in words)
    assert len(str(caught.value)) < 500
