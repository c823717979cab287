"""From a config and its data to a network and a task that fit them: sizes, names and N come from the data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import torch
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn

from concrete_dropout.cli.factory import factory
from concrete_dropout.cli.typecheck import parameters_of
from concrete_dropout.data import ClassificationSpec, RegressionSpec, SegmentationSpec
from concrete_dropout.errors import UserError
from concrete_dropout.models import GaussianHead
from concrete_dropout.settings import DropoutSettings, OptimSettings
from concrete_dropout.tasks import ClassificationTask, RegressionTask, SegmentationTask, Task

# Settings that make a new network start from published weights, and what they are without.
PUBLISHED_WEIGHTS: Mapping[str, Any] = {"pretrained": False, "encoder_weights": None, "weights": None}
TASKS: dict[type, type[Task]] = {
    RegressionSpec: RegressionTask,
    ClassificationSpec: ClassificationTask,
    SegmentationSpec: SegmentationTask,
}
CHOICES: dict[type[Task], str] = {
    RegressionTask: "regression",
    ClassificationTask: "classification",
    SegmentationTask: "segmentation",
}


class DataFacts(Protocol):
    """What a network and a task need to know of their data: a data module has it, and so has a checkpoint's recipe."""

    @property
    def spec(self) -> Any:
        """Sizes and names."""

    @property
    def example_input(self) -> Tensor:
        """(1, ...)."""


def build_task(cfg: DictConfig, data: DataFacts) -> Task:
    """The task around a new network.

    Raises:
        UserError: data, task and model do not fit together.
    """
    spec = data.spec
    _check_kind(cfg, spec)
    optim: OptimSettings = factory(cfg, "optim")()
    taken = parameters_of(get_object(cfg.task._target_)) or {}
    from_data = {name: value for name, value in vars(spec).items() if name in taken}
    task: Task = factory(cfg, "task")(
        build_network(cfg, data), **from_data, optim=optim, mask=cfg.dropout.mask, seed=cfg.seed
    )
    return task


def build_network(cfg: DictConfig, data: DataFacts) -> nn.Module:
    """The network with its dropouts swapped, of the size that the data ask for."""
    spec, example = data.spec, data.example_input
    network = _bare_network(cfg, spec, example)
    if not isinstance(spec, RegressionSpec):
        _check_logits(cfg, network, example, spec)
    settings: DropoutSettings = factory(cfg, "dropout")()
    return settings.apply(network, example)


def without_downloads(cfg: DictConfig) -> DictConfig:
    """The config of a network that gets its weights from a checkpoint: published ones would be fetched for nothing."""
    given = {key: value for key, value in PUBLISHED_WEIGHTS.items() if cfg.model.get(key)}
    return OmegaConf.merge(cfg, {"model": given})  # type: ignore[return-value]


def sizes_of(spec: Any, example: Tensor) -> dict[str, Any]:
    """What the data tell a model, by the names under which a model may ask for it."""
    if isinstance(spec, RegressionSpec):
        return {"num_inputs": spec.num_inputs, "num_outputs": spec.num_outputs}
    channels, *image_size = example.shape[1:]
    return {
        "num_inputs": math.prod(example.shape[1:]),
        "num_outputs": spec.num_classes,
        "in_channels": channels,
        "num_classes": spec.num_classes,
        "image_size": tuple(image_size),
    }


def _bare_network(cfg: DictConfig, spec: Any, example: Tensor) -> nn.Module:
    sizes = sizes_of(spec, example)
    if isinstance(spec, RegressionSpec) and cfg.task.noise == "heteroscedastic":
        return GaussianHead(_sized(cfg, {**sizes, "num_outputs": 2 * spec.num_outputs}))
    return _sized(cfg, sizes)


def _sized(cfg: DictConfig, sizes: Mapping[str, Any]) -> nn.Module:
    """The model with those sizes that its signature asks for; all where it takes any keyword."""
    taken = parameters_of(get_object(cfg.model._target_))
    given = {name: value for name, value in sizes.items() if taken is None or name in taken}
    if not given:
        raise UserError(
            f"model._target_={cfg.model._target_} takes none of {', '.join(sizes)}, so that it cannot be fitted to "
            f"{_name(cfg, 'data')}: choose another model"
        )
    network: nn.Module = factory(cfg, "model")(**given)
    return network


def _check_kind(cfg: DictConfig, spec: Any) -> None:
    wanted = TASKS[type(spec)]
    if not issubclass(get_object(cfg.task._target_), wanted):
        raise UserError(
            f"task._target_={cfg.task._target_} does not fit the data of {_name(cfg, 'data')}: use "
            f"task={CHOICES[wanted]}"
        )


def _check_logits(cfg: DictConfig, network: nn.Module, example: Tensor, spec: Any) -> None:
    """Refuse a model whose output is not one logit per class and observation."""
    size = tuple(example.shape[2:]) if isinstance(spec, SegmentationSpec) else ()
    advice = f"choose a model such as {'model=fc_densenet56 or model=smp_unet' if size else 'model=mlp or model=timm'}"
    mode = network.training
    network.eval()  # batch normalisation cannot train on one image of one pixel
    try:
        with torch.no_grad():
            output = network(example)
    except (RuntimeError, ValueError) as error:
        shape = " x ".join(map(str, example.shape[1:]))
        raise UserError(f"{_name(cfg, 'model')} cannot take inputs of {shape} ({error}): {advice}") from error
    finally:
        network.train(mode)
    wanted = (1, spec.num_classes, *size)
    found = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
    if found != wanted:
        raise UserError(
            f"{_name(cfg, 'model')} returns {found} where {wanted} is needed for one example of "
            f"{_name(cfg, 'data')}: {advice}"
        )


def _name(cfg: DictConfig, group: str) -> str:
    """Of the class or function that a group builds."""
    return str(cfg[group]._target_).rpartition(".")[2]
