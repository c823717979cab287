"""What is exported: a frozen network between inputs and outputs in the units that users know."""

from __future__ import annotations

from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from concrete_dropout.data.recipes import PictureRecipe, SceneRecipe
from concrete_dropout.dropout.kinds import is_channelwise, plain_class
from concrete_dropout.dropout.sampling import active_dropouts
from concrete_dropout.dropout.swap import freeze
from concrete_dropout.scaling import Affine
from concrete_dropout.tasks import RegressionTask, Task
from concrete_dropout.tasks.categorical import CategoricalTask


class DeployedRegression(nn.Module):
    """Encoded rows (rows, D) in original units -> mean and noise variance, each (rows, O), in original units.

    Args:
        network: frozen.
        inputs: scale of inputs.
        targets: scale of targets.
        log_var: (O,) of noise that all inputs share; None where the network predicts it.
    """

    log_var: Tensor | None

    def __init__(self, network: nn.Module, inputs: Affine, targets: Affine, log_var: Tensor | None) -> None:
        super().__init__()
        self.network = network
        for name, scale in (("input", inputs), ("target", targets)):
            self.register_buffer(f"{name}_mean", scale.mean.clone())
            self.register_buffer(f"{name}_std", scale.std.clone())
        self.register_buffer("log_var", log_var)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scaled = ((x.double() - cast(Tensor, self.input_mean)) / cast(Tensor, self.input_std)).float()
        output = self.network(scaled)
        mean, log_var = output if self.log_var is None else (output, self.log_var.expand_as(output))
        std = cast(Tensor, self.target_std)
        return cast(Tensor, self.target_mean) + std * mean.double(), std.square() * log_var.double().exp()


class DeployedClassifier(nn.Module):
    """Pixels (B, channels, H, W) from 0 to 255 -> probabilities (B, classes), or (B, classes, H, W) of every pixel.

    Args:
        network: frozen.
        mean: C numbers, of pixels from 0 to 1.
        std: C numbers.
    """

    def __init__(self, network: nn.Module, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1))

    def forward(self, pixels: Tensor) -> Tensor:
        x = (pixels.float() / 255 - cast(Tensor, self.mean)) / cast(Tensor, self.std)
        logits: Tensor = self.network(x)
        return logits.softmax(1)


def deployed(task: Task, recipe: object) -> nn.Module:
    """The module to export, a copy on the CPU in eval mode."""
    network = plain_network(task)
    if isinstance(task, RegressionTask):
        log_var = None if task.noise is None else -task.noise.tau.log().cpu()
        return DeployedRegression(network, task.inputs.cpu(), task.targets.cpu(), log_var).eval()
    assert isinstance(recipe, PictureRecipe | SceneRecipe)
    return DeployedClassifier(network, recipe.scale.mean, recipe.scale.std).eval()


def plain_network(task: Task) -> nn.Module:
    """A frozen copy with torch's own operations alone."""
    network = freeze(task.network).cpu()
    for module in network.modules():
        if hasattr(module, "fused"):  # operations that are written for eager torch on a CPU
            vars(module)["fused"] = False
    if isinstance(task, CategoricalTask) and task.batch_norm == "batch":
        for module in network.modules():
            if isinstance(module, _BatchNorm):
                module.running_mean = module.running_var = None  # torch's own sign for batch statistics
    return network.eval()


def set_stochastic(module: nn.Module, active: bool) -> list[str]:
    """Make only dropout active, or inactive; the names of the dropouts that there are.

    Masks become operations of their own: onnxruntime takes every Dropout out of a graph, whatever its mode.
    """
    dropouts: dict[str, _DropoutNd] = active_dropouts(module)
    for layer in dropouts.values():
        layer.train(active)
        if plain_class(layer) is not None:
            vars(layer)["forward"] = partial(masked, layer)
    return list(dropouts)


def masked(layer: _DropoutNd, x: Tensor) -> Tensor:
    """What torch's dropout does, by a comparison with uniform numbers; ``layer`` has p and the mode."""
    if not layer.training:
        return x
    noise = torch.rand_like(x[(slice(None), slice(None), *[slice(1)] * (x.dim() - 2))] if is_channelwise(layer) else x)
    return x * (noise >= layer.p) / (1 - layer.p)
