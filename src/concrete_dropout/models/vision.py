"""Networks of timm, torchvision and segmentation-models-pytorch, under names that configs can give.

They are built without pretrained weights unless these are asked for, which takes a network connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch.nn.functional as F
from torch import Tensor, nn

from concrete_dropout.errors import UserError

Network = TypeVar("Network", bound=nn.Module)
Options = Mapping[str, Any]


class SegmentationNetwork(nn.Module):
    """An encoder, a decoder and a head that take images of any size.

    The encoder halves the size several times, which needs sizes that can be halved: images are padded at the bottom and
    at the right with copies of their edges, and the logits are cut back.

    Args:
        encoder: x -> features of several sizes.
        decoder: features -> features of one size.
        segmentation_head: to logits of the padded size.
        stride: what height and width must be multiples of.

    Shapes: (N, channels, H, W) -> (N, classes, H, W).
    """

    def __init__(self, encoder: nn.Module, decoder: nn.Module, segmentation_head: nn.Module, stride: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.segmentation_head = segmentation_head
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        down, right = -height % self.stride, -width % self.stride
        if down or right:
            x = F.pad(x, (0, right, 0, down), mode="replicate")
        logits: Tensor = self.segmentation_head(self.decoder(self.encoder(x)))
        return logits[..., :height, :width]


def smp_model(
    architecture: str,
    in_channels: int,
    num_classes: int,
    encoder_name: str = "resnet34",
    encoder_weights: str | None = None,
    options: Options | None = None,
) -> SegmentationNetwork:
    """A network of segmentation-models-pytorch.

    Args:
        architecture: "unet", "deeplabv3plus", "segformer", or another of the library.
        in_channels: of the images.
        num_classes: logits per pixel.
        encoder_name: any encoder of the library.
        encoder_weights: for example "imagenet"; None for random ones.
        options: further arguments of the architecture.
    """
    import segmentation_models_pytorch as smp  # takes seconds to import

    model = _made(
        f"model.architecture={architecture} model.encoder_name={encoder_name} model.encoder_weights={encoder_weights}",
        lambda: smp.create_model(
            architecture,
            encoder_name=encoder_name,
            encoder_weights=encoder_weights,
            in_channels=in_channels,
            classes=num_classes,
            **(options or {}),
        ),
    )
    return SegmentationNetwork(model.encoder, model.decoder, model.segmentation_head, model.encoder.output_stride)


def timm_model(
    name: str, in_channels: int, num_classes: int, pretrained: bool = False, options: Options | None = None
) -> nn.Module:
    """A classification network of timm.

    Args:
        name: as ``timm.list_models()`` has it.
        in_channels: of the images.
        num_classes: logits per image.
        pretrained: start from published weights, which are downloaded.
        options: further arguments of the network, such as {drop_rate: 0.1}.
    """
    import timm

    return _made(
        f"model.name={name} model.pretrained={pretrained}",
        lambda: timm.create_model(
            name, pretrained=pretrained, in_chans=in_channels, num_classes=num_classes, **(options or {})
        ),
    )


def torchvision_model(
    name: str, in_channels: int, num_classes: int, weights: str | None = None, options: Options | None = None
) -> nn.Module:
    """A classification network of torchvision.

    Args:
        name: as ``torchvision.models.list_models()`` has it.
        in_channels: of the images; the library's networks take 3.
        num_classes: logits per image.
        weights: None; published ones fit their own classes alone, so they need that many.
        options: further arguments of the network, such as {dropout: 0.2}.
    """
    from torchvision import models

    if in_channels != 3:
        raise UserError(
            f"model.name={name}: networks of torchvision take images of 3 channels, and these have {in_channels}. Set "
            "data.channels=3 where the data have this key, or choose model=timm, which takes any"
        )
    return _made(
        f"model.name={name} model.weights={weights}",
        lambda: models.get_model(name, weights=weights, num_classes=num_classes, **(options or {})),
    )


def _made(settings: str, build: Callable[[], Network]) -> Network:
    """What a library builds; whatever it complains about is put down to the settings."""
    try:
        return build()
    except Exception as error:  # unknown names, options and failed downloads raise anything
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:300].rstrip(".")
        raise UserError(f"{settings} cannot be built: {reason}") from error
