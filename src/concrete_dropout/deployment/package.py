"""A folder with a deployed network: programs, ONNX files, a description and an example."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from concrete_dropout.data.recipes import PictureRecipe, Recipe, SceneRecipe, TableRecipe
from concrete_dropout.deployment.export import (
    UnfitProgramError,
    check,
    compare,
    export,
    has_onnx,
    onnx_bytes,
    outputs_of,
    program_bytes,
    run_onnx,
)
from concrete_dropout.deployment.guide import description, example, names_of, readme
from concrete_dropout.deployment.modules import deployed, set_stochastic
from concrete_dropout.dropout.objective import dropout_probabilities
from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import RunFolder
from concrete_dropout.tasks import Task

STOCHASTIC, DETERMINISTIC = "model", "model_deterministic"
WHAT = {STOCHASTIC: "a stochastic pass at every call", DETERMINISTIC: "dropout inactive: always the same answer"}
ROWS = 3


@dataclass
class _Made:
    """What has been written so far."""

    folder: RunFolder
    files: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, content: bytes, text: str) -> str:
        self.folder.write_bytes(name, content)
        self.files[name] = text
        return f"{name:<26}{len(content) / 1e6:8.2f} MB  {text}"


def deploy_task(task: Task, recipe: Recipe, folder: Path, name: str = "") -> Iterator[str]:
    """Write the files; yields a line for the terminal about each.

    Raises:
        UserError: the network cannot be exported.
    """
    module, made = deployed(task, recipe), _Made(RunFolder(folder))
    dropouts = set_stochastic(module, False)
    program, dynamic = _fitting(module, recipe)
    any_size = 2 in dynamic
    yield made.add(f"{DETERMINISTIC}.pt2", program_bytes(program), WHAT[DETERMINISTIC])
    yield from _onnx(module, program, recipe, made, DETERMINISTIC, dynamic)
    if dropouts:
        set_stochastic(module, True)
        program = export(module, _example(recipe, any_size), dynamic)
        yield made.add(f"{STOCHASTIC}.pt2", program_bytes(program), WHAT[STOCHASTIC])
        yield from _onnx(module, program, recipe, made, STOCHASTIC, dynamic)
    else:
        yield "the network has no dropout: there is only the deterministic model"
    if not has_onnx():
        yield "no ONNX files: these need pip install '.[deploy]'"
    size = (1, 1) if isinstance(recipe, TableRecipe) else _size(recipe, any_size)
    script = example(recipe, f"{STOCHASTIC if dropouts else DETERMINISTIC}.pt2", size)
    made.folder.write_text("example.py", script)
    made.folder.write_text("README.txt", readme(recipe, name, made.files, any_size, script))
    probabilities = {layer: p for layer, p in dropout_probabilities(task.network).items() if p > 0}
    made.folder.write_json("model.json", description(recipe, probabilities, list(made.files), any_size))
    yield f"README.txt, model.json and example.py say how to use {'them' if len(made.files) > 1 else 'it'}: {folder}"


def _fitting(module: nn.Module, recipe: Recipe) -> tuple[ExportedProgram, tuple[int, ...]]:
    """The deterministic program and the axes of its input that may have any size; checked on inputs of others."""
    reasons = []
    for any_size in (True, False) if isinstance(recipe, SceneRecipe) else (False,):
        dynamic = (0, 2, 3) if any_size else (0,)
        try:
            program = export(module, _example(recipe, any_size), dynamic)
            check(program, module, _probes(recipe, any_size))
            return program, dynamic
        except Exception as error:  # tracing raises all kinds
            reasons.append(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
    raise UserError(
        f"--deploy: torch.export cannot take this network ({reasons[-1]}). Its forward must not depend on the values "
        "of its inputs, nor call anything but torch"
    )


def _onnx(
    module: nn.Module, program: ExportedProgram, recipe: Recipe, made: _Made, name: str, dynamic: tuple[int, ...]
) -> Iterator[str]:
    if not has_onnx():
        return
    try:
        content = onnx_bytes(program, names_of(recipe))
        if name == DETERMINISTIC:
            for x in _probes(recipe, 2 in dynamic):
                found = run_onnx(content, x)
                with torch.no_grad():
                    wanted = outputs_of(module(x))
                compare(found or wanted, wanted, tuple(x.shape))
    except UnfitProgramError as error:
        yield f"{name}.onnx is left out: {error}"
    except Exception as error:  # operations that ONNX lacks raise all kinds
        yield f"{name}.onnx is left out: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    else:
        yield made.add(f"{name}.onnx", content, WHAT[name])


def _size(recipe: PictureRecipe | SceneRecipe, any_size: bool) -> tuple[int, int]:
    if isinstance(recipe, PictureRecipe):
        return recipe.shape[1:]
    return recipe.crop if any_size else recipe.image_size


def _input(recipe: Recipe, rows: int, size: tuple[int, int] | None = None) -> Tensor:
    """An input of random numbers, the same every time."""
    generator = torch.Generator().manual_seed(rows)
    if isinstance(recipe, TableRecipe):
        return torch.randn(rows, len(recipe.encoder.outputs), dtype=torch.float64, generator=generator)
    channels = recipe.shape[0] if isinstance(recipe, PictureRecipe) else 3
    size = size or _size(recipe, False)
    return torch.randint(256, (rows, channels, *size), dtype=torch.uint8, generator=generator)


def _example(recipe: Recipe, any_size: bool) -> Tensor:
    """What is traced: several rows, and sizes that no network would take for special."""
    if isinstance(recipe, SceneRecipe) and any_size:
        height, width = recipe.crop
        return _input(recipe, ROWS, (height // 2 * 2 + 1, width // 2 * 2 + 3))
    return _input(recipe, ROWS)


def _probes(recipe: Recipe, any_size: bool) -> list[Tensor]:
    """Inputs of other sizes than the traced one: a single row, sizes that can be halved, and others."""
    if not (isinstance(recipe, SceneRecipe) and any_size):
        return [_input(recipe, rows) for rows in (1, 2, 5)]
    height, width = (-(-side // 32) * 32 for side in recipe.crop)
    return [
        _input(recipe, 1, (height, width)),
        _input(recipe, 2, (height + 5, width)),
        _input(recipe, 1, (height, width + 14)),
    ]
