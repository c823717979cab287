"""What lies beside an exported network: a description for programs, a text for people, and an example that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from concrete_dropout.data.encoding import NumericColumn
from concrete_dropout.data.recipes import PictureRecipe, Recipe, SceneRecipe, TableRecipe

INPUTS = {TableRecipe: "x", PictureRecipe: "pixels", SceneRecipe: "pixels"}


def names_of(recipe: Recipe) -> dict[str, list[str]]:
    """Names of inputs and outputs."""
    outputs = ["mean", "variance"] if isinstance(recipe, TableRecipe) else ["probabilities"]
    return {"inputs": [INPUTS[type(recipe)]], "outputs": outputs}


def description(recipe: Recipe, dropout: Mapping[str, float], files: Sequence[str], any_size: bool) -> dict[str, Any]:
    """For model.json: all that is needed to make inputs and to read outputs."""
    common = {"kind": recipe.kind, "files": list(files), "dropout": dict(dropout)}
    if isinstance(recipe, TableRecipe):
        columns = [
            {"name": column.name, "training_mean": column.mean}
            if isinstance(column, NumericColumn)
            else {"name": column.name, "categories": list(column.categories), "encoding": "one-hot, in this order"}
            for column in recipe.encoder.columns
        ]
        return {
            **common,
            "input": {
                "name": "x",
                "dtype": "float64",
                "shape": ["rows", len(recipe.encoder.outputs)],
                "columns": list(recipe.encoder.outputs),
                "units": "original: scaling is part of the model",
            },
            "columns": columns,
            "output": {"names": ["mean", "variance"], "dtype": "float64", "targets": list(recipe.targets)},
        }
    scenes = isinstance(recipe, SceneRecipe)
    size = list(recipe.image_size) if isinstance(recipe, SceneRecipe) else list(recipe.shape[1:])
    channels = 3 if isinstance(recipe, SceneRecipe) else recipe.shape[0]
    classes: dict[str, Any] = {"class_names": list(recipe.class_names)}
    if isinstance(recipe, SceneRecipe):
        classes["class_colours"] = [list(colour) for colour in recipe.class_colours]
        classes["resolution"] = recipe.resolution
    return {
        **common,
        "input": {
            "name": "pixels",
            "dtype": "uint8",
            "shape": ["images", channels, *(["height", "width"] if any_size else size)],
            "scaling": "part of the model: (pixels / 255 - mean) / std",
            "mean": list(recipe.scale.mean),
            "std": list(recipe.scale.std),
        },
        "output": {
            "names": ["probabilities"],
            "dtype": "float32",
            "shape": ["images", len(recipe.class_names), *(["height", "width"] if scenes else [])],
        },
        **classes,
    }


def example(recipe: Recipe, model: str, size: tuple[int, int]) -> str:
    """A script that needs torch and the file ``model`` beside it."""
    head = [
        "# Needs torch, and nothing else. Every call of the model is another stochastic pass.",
        "from pathlib import Path",
        "import torch",
        f'model = torch.export.load(Path(__file__).with_name("{model}")).module(check_guards=False)',
    ]
    if isinstance(recipe, TableRecipe):
        return "\n".join([
            *head,
            f"x = torch.zeros(1, {len(recipe.encoder.outputs)}, dtype=torch.float64)  # {_columns(recipe)}",
            "with torch.no_grad():",
            "    means, variances = map(torch.stack, zip(*(model(x) for _ in range(50))))",
            'print("mean", means.mean(0).tolist())',
            'print("epistemic std", means.std(0, correction=0).tolist())',
            'print("aleatoric std", variances.mean(0).sqrt().tolist())',
            "",
        ])  # fmt: skip
    channels = recipe.shape[0] if isinstance(recipe, PictureRecipe) else 3
    where = "[0, :, 0, 0]" if isinstance(recipe, SceneRecipe) else "[0]"
    return "\n".join([
        *head,
        f"pixels = torch.randint(256, (1, {channels}, {size[0]}, {size[1]}), dtype=torch.uint8)",
        "with torch.no_grad():",
        "    samples = torch.stack([model(pixels) for _ in range(20)])",
        "probabilities = samples.mean(0)",
        "aleatoric = -torch.xlogy(samples, samples).sum(2).mean(0)",
        "epistemic = -torch.xlogy(probabilities, probabilities).sum(1) - aleatoric",
        f'print("probabilities", probabilities{where}.tolist())',
        'print("epistemic", epistemic.mean().item(), "aleatoric", aleatoric.mean().item(), "nats")',
        "",
    ])  # fmt: skip


def readme(recipe: Recipe, name: str, files: Mapping[str, str], any_size: bool, script: str) -> str:
    """README.txt."""
    if isinstance(recipe, TableRecipe):
        inputs = (
            f"x, float64 (rows, {len(recipe.encoder.outputs)}), in original units. Columns: {_columns(recipe)}\n"
            "  Categories are one-hot: 1 in the column of the category, 0 in the others (model.json has them)."
        )
        outputs = (
            f"mean and variance of the noise, float64 (rows, {len(recipe.targets)}), in original units, of "
            f"{', '.join(recipe.targets)}"
        )
    else:
        size = "any height and width" if any_size else f"{_size(recipe)[0]} x {_size(recipe)[1]} (height x width)"
        channels = recipe.shape[0] if isinstance(recipe, PictureRecipe) else 3
        order = "grey" if channels == 1 else "red, green, blue"
        inputs = f"pixels, uint8 (images, {channels}, height, width), {order}, {size}; scaling is part of the model."
        if isinstance(recipe, SceneRecipe) and recipe.resolution != 1:
            inputs += (
                f"\n  The network was trained at {recipe.resolution:g} of the images' height and width: shrink them."
            )
        outputs = f"probabilities, float32, class axis second: {', '.join(recipe.class_names)}"
    listed = "\n".join(f"  {file:<26}{text}" for file, text in files.items())
    return f"""A {recipe.kind} network{f" ({name})" if name else ""}, exported with its dropout left active.

FILES
{listed}

INPUT
  {inputs}

OUTPUT
  {outputs}

UNCERTAINTY
  Every call is one stochastic pass (Bernoulli masks at the learned probabilities): calls differ. Average over some
  tens of them; their spread is what the network does not know (epistemic), the mean of the {_noise(recipe)} is what
  the data do not tell (aleatoric). The deterministic files give one answer with dropout inactive.

EXAMPLE (example.py)
{chr(10).join("  " + line for line in script.splitlines())}
"""


def _size(recipe: PictureRecipe | SceneRecipe) -> tuple[int, int]:
    return recipe.image_size if isinstance(recipe, SceneRecipe) else recipe.shape[1:]


def _noise(recipe: Recipe) -> str:
    return "variances" if isinstance(recipe, TableRecipe) else "entropies"


def _columns(recipe: TableRecipe) -> str:
    return ", ".join(" ".join(name.split()) for name in recipe.encoder.outputs)
