"""torch.export and ONNX of a module, checked against the module itself."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from concrete_dropout.dropout.sampling import no_fused_transformers

TOLERANCE = 1e-4  # of results that a program and its module may differ by, relative to the largest
ONNX_LIBRARIES = ("onnx", "onnxscript")


class UnfitProgramError(Exception):
    """An exported program does not do what its module does."""


def export(module: nn.Module, example: Tensor, dynamic: Sequence[int]) -> ExportedProgram:
    """The program of a module, as its modes are.

    Args:
        module: takes one tensor.
        example: an input. What it has by chance (a size that can be halved, a single row) must not be what the
            program relies on.
        dynamic: axes that may have any size.
    """
    sizes = dict.fromkeys(dynamic, torch.export.Dim.DYNAMIC)
    with _quiet(), no_fused_transformers(), torch.no_grad():
        return torch.export.export(module, (example,), dynamic_shapes=(sizes,), strict=False)


def callable_of(program: ExportedProgram) -> nn.Module:
    """The program as a module. The guards that tracing leaves are narrower than what it can do: ``check`` tells."""
    return program.module(check_guards=False)


def check(program: ExportedProgram, module: nn.Module, inputs: Sequence[Tensor]) -> None:
    """Compare a program without randomness with its module.

    Raises:
        UnfitProgramError: it fails on one of the inputs, or gives other results.
    """
    run = callable_of(program)
    for x in inputs:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = outputs_of(module(x))
            try:
                found = outputs_of(run(x))
            except Exception as error:  # an operation met a size that was not foreseen
                raise UnfitProgramError(f"{tuple(x.shape)}: {type(error).__name__}") from error
        compare(found, wanted, tuple(x.shape))


def compare(found: Sequence[Tensor], wanted: Sequence[Tensor], shape: tuple[int, ...]) -> None:
    """Refuse results that are not the wanted ones up to rounding."""
    for a, b in zip(found, wanted, strict=True):
        if a.shape != b.shape or float((a - b).abs().max()) > TOLERANCE * max(1e-30, float(b.abs().max())):
            raise UnfitProgramError(f"inputs of {shape} give other results than the network")


def outputs_of(output: Any) -> tuple[Tensor, ...]:
    """The tensors that a module returned."""
    return (output,) if isinstance(output, Tensor) else tuple(output)


def program_bytes(program: ExportedProgram) -> bytes:
    """A .pt2 file."""
    file = io.BytesIO()
    with _quiet():
        torch.export.save(program, file)
    return file.getvalue()


def has_onnx() -> bool:
    """Whether the libraries of the extra ``deploy`` are there."""
    return all(find_spec(name) is not None for name in ONNX_LIBRARIES)


def onnx_bytes(program: ExportedProgram, names: Mapping[str, Sequence[str]]) -> bytes:
    """An .onnx file; ``names`` has those of inputs and outputs. Anything may go wrong in the conversion."""
    with _quiet(), torch.no_grad():
        made = torch.onnx.export(
            program, dynamo=True, input_names=names["inputs"], output_names=names["outputs"], verbose=False
        )
    assert made is not None
    return bytes(made.model_proto.SerializeToString())


def run_onnx(content: bytes, x: Tensor) -> tuple[Tensor, ...] | None:
    """What an .onnx file returns for one input; None without onnxruntime."""
    if find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    session = onnxruntime.InferenceSession(content)
    return tuple(map(torch.from_numpy, session.run(None, {session.get_inputs()[0].name: x.numpy()})))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The remarks of torch.export and of the ONNX libraries on their own workings."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
