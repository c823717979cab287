"""python predict.py --deploy: files that run without this package, and do what the network does."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.prediction.conftest import Trained
from torch import Tensor, nn

from concrete_dropout.cli.predict import predict_command
from concrete_dropout.cli.saved_model import SavedModel, load_saved_model
from concrete_dropout.data.encoding import Encoder, NumericColumn
from concrete_dropout.data.pixels import PixelScale
from concrete_dropout.data.recipes import SceneRecipe, TableRecipe
from concrete_dropout.deployment import package
from concrete_dropout.deployment.export import callable_of, check, export
from concrete_dropout.deployment.modules import deployed, set_stochastic
from concrete_dropout.deployment.package import deploy_task
from concrete_dropout.dropout import dropout_probabilities, swap_dropout
from concrete_dropout.models.vision import smp_model
from concrete_dropout.montecarlo import mc_predict
from concrete_dropout.scaling import Affine
from concrete_dropout.tasks import RegressionTask, SegmentationTask

NAMES = ("csv", "pictures", "scenes")
ONNX = ("csv", "scenes")  # conversions take most of the time
ROWS, CALLS = 400, 10
SIGMAS = 6
# All in one process: importing torch is most of what it takes.
ALONE = """
    import contextlib, io, runpy, sys
    from pathlib import Path

    class Block:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in ("concrete_dropout", "pytorch_lightning", "hydra"):
                raise ImportError(f"{name} is not here")

    sys.meta_path.insert(0, Block())
    import torch
    results = {}
    for folder in map(Path, sys.argv[2:]):
        inputs = torch.load(folder / "inputs.pt")
        found = results[folder.name] = {}
        with torch.no_grad():
            model = torch.export.load(folder / "model_deterministic.pt2").module(check_guards=False)
            found["deterministic"] = [model(x) for x in inputs["several"]]
            model = torch.export.load(folder / "model.pt2").module(check_guards=False)
            found["stochastic"] = [model(inputs["same"]) for _ in range(int(sys.argv[1]))]
        with contextlib.redirect_stdout(io.StringIO()) as text:
            runpy.run_path(str(folder / "example.py"))
        found["example"] = text.getvalue()
        assert "concrete_dropout" not in sys.modules
    torch.save(results, "results.pt")
"""


@dataclass(frozen=True)
class Deployed:
    folder: Path
    model: SavedModel

    @property
    def several(self) -> list[Tensor]:
        """Inputs of several sizes."""
        generator = torch.Generator().manual_seed(0)
        recipe = self.model.recipe
        if isinstance(recipe, TableRecipe):
            return [10 * torch.rand(rows, 4, dtype=torch.float64, generator=generator) for rows in (1, 7)]
        sizes = [(3, 12, 16)] if recipe.kind == "classification" else [(1, 16, 16), (2, 37, 50), (1, 64, 33)]
        shapes = [(n, 3, h, w) for n, h, w in sizes]
        return [torch.randint(256, shape, dtype=torch.uint8, generator=generator) for shape in shapes]

    @property
    def same(self) -> Tensor:
        """One input many times over: every row has masks of its own."""
        first = self.several[0][:1]
        return first.expand(ROWS, *first.shape[1:]).contiguous()

    def scaled(self, x: Tensor) -> Tensor:
        """What the network gets."""
        task, recipe = self.model.task, self.model.recipe
        if isinstance(task, RegressionTask):
            return task.inputs.normalise(x)
        if isinstance(recipe, SceneRecipe):
            return torch.cat([recipe.inputs(pixels.numpy()) for pixels in x])
        assert not isinstance(recipe, TableRecipe)
        return recipe.scale(x)

    def check_samples(self, samples: list[Any]) -> None:
        """Mean and variance over samples are those of mc_predict with Bernoulli masks, within Monte Carlo error."""
        task = self.model.task
        likelihood = "gaussian" if isinstance(task, RegressionTask) else "categorical"
        x = self.scaled(self.same)
        passes = [mc_predict(task.network, x, likelihood, 1, mask="bernoulli", seed=s).mean for s in range(CALLS)]
        wanted = torch.cat(passes).double()
        found = torch.cat([sample[0] if isinstance(sample, tuple) else sample for sample in samples]).double()
        if isinstance(task, RegressionTask):
            wanted = task.targets.restore(wanted)
        assert found.shape == wanted.shape
        assert found.std(0).min() > 0
        assert not torch.equal(samples[0][0], samples[1][0])
        error = (found.var(0) / len(found) + wanted.var(0) / len(wanted)).sqrt()
        assert ((found.mean(0) - wanted.mean(0)).abs() / error).max() < SIGMAS
        assert (found.var(0).mean() / wanted.var(0).mean()).item() == pytest.approx(1, abs=0.15)


@pytest.fixture(scope="module")
def packages(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Deployed]:
    """The packages of one run of each kind, written by the command."""
    place, made = tmp_path_factory.mktemp("deployed"), {}
    for name in NAMES:
        run = trained(name)
        with pytest.MonkeyPatch.context() as patch:
            if name not in ONNX:
                patch.setattr(package, "has_onnx", lambda: False)
            assert predict_command([run.ckpt, "--deploy", f"output={place / name}"]) == 0
        made[name] = Deployed(place / name, load_saved_model(run.folder))
        torch.save({"several": made[name].several, "same": made[name].same}, place / name / "inputs.pt")
    return made


@pytest.fixture(scope="module")
def alone(packages: dict[str, Deployed], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the packages return in a process that cannot import the project."""
    place = tmp_path_factory.mktemp("alone")
    script = place / "alone.py"
    script.write_text(textwrap.dedent(ALONE))
    folders = [str(made.folder) for made in packages.values()]
    subprocess.run(
        [sys.executable, "-W", "error", str(script), str(CALLS), *folders], cwd=place, check=True, timeout=600
    )
    results: dict[str, Any] = torch.load(place / "results.pt")
    return results


@pytest.mark.parametrize("name", NAMES)
def test_samples_differ_and_have_the_moments_of_mc_predict(
    name: str, packages: dict[str, Deployed], alone: dict[str, Any]
) -> None:
    packages[name].check_samples(alone[name]["stochastic"])


@pytest.mark.parametrize("name", NAMES)
def test_the_deterministic_model_is_the_network_in_eval_mode(
    name: str, packages: dict[str, Deployed], alone: dict[str, Any]
) -> None:
    package = packages[name]
    task = package.model.task
    for x, found in zip(package.several, alone[name]["deterministic"], strict=True):
        with torch.no_grad():
            output = task.network(package.scaled(x))
        if isinstance(task, RegressionTask):
            mean, log_var = output
            assert torch.allclose(found[0], task.targets.restore(mean), rtol=1e-5)
            assert torch.allclose(found[1], task.targets.restore_variance(log_var.exp()), rtol=1e-5)
        else:
            assert torch.allclose(found, output.softmax(1), atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_the_example_runs_and_the_texts_say_what_goes_in(
    name: str, packages: dict[str, Deployed], alone: dict[str, Any]
) -> None:
    folder = packages[name].folder
    assert "epistemic" in alone[name]["example"]
    text, about = (folder / "README.txt").read_text(), json.loads((folder / "model.json").read_text())
    lines = (folder / "example.py").read_text().splitlines()
    assert len(lines) <= 12
    assert all(f"  {line}" in text for line in lines)
    assert all((folder / file).is_file() for file in about["files"])
    assert about["dropout"] == pytest.approx(dropout_probabilities(packages[name].model.task.network))
    if name == "csv":
        assert about["input"]["columns"] == ["age", "colour=blue", "colour=dark green", "colour=red"]
    else:
        assert about["class_names"] == list(packages[name].model.recipe.spec.class_names)
    if name == "scenes":
        assert about["input"]["shape"] == ["images", 3, "height", "width"]
        assert "trained at 0.5 of the images' height and width" in text


@pytest.mark.parametrize("name", ONNX)
def test_onnx_does_the_same(name: str, packages: dict[str, Deployed]) -> None:
    runtime = pytest.importorskip("onnxruntime")
    package = packages[name]
    random = runtime.InferenceSession(package.folder / "model.onnx")
    key = random.get_inputs()[0].name
    samples = [tuple(map(torch.from_numpy, random.run(None, {key: package.same.numpy()}))) for _ in range(CALLS)]
    package.check_samples(samples)
    fixed = runtime.InferenceSession(package.folder / "model_deterministic.onnx")
    names = [output.name for output in fixed.get_outputs()]
    assert names == (["mean", "variance"] if name == "csv" else ["probabilities"])
    with torch.no_grad():
        for x in package.several:
            found = torch.from_numpy(fixed.run(None, {key: x.numpy()})[0])
            output = package.model.task.network(package.scaled(x))
            wanted = package.model.task.targets.restore(output[0]) if name == "csv" else output.softmax(1)
            assert torch.allclose(found.double(), wanted.double(), rtol=1e-4, atol=1e-5)


def test_without_dropout_there_is_one_model(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(package, "has_onnx", lambda: False)
    assert predict_command([trained("none").ckpt, "deploy=true", f"output={tmp_path}"]) == 0
    out = capsys.readouterr().out
    assert "there is only the deterministic model" in out
    assert "pip install '.[deploy]'" in out
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "README.txt",
        "example.py",
        "model.json",
        "model_deterministic.pt2",
    ]


def test_noise_that_all_inputs_share() -> None:
    network = swap_dropout(nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 1)), "concrete", example_input=torch.zeros(1, 2))
    scales = (
        Affine(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])),
        Affine(torch.tensor([5.0]), torch.tensor([6.0])),
    )
    task = RegressionTask(network, num_train=10, inputs=scales[0], targets=scales[1], noise="homoscedastic").eval()
    recipe = TableRecipe(10, Encoder((NumericColumn("a", 0), NumericColumn("b", 0))), ("y",), "error")
    x = torch.rand(4, 2, dtype=torch.float64)
    with torch.no_grad():
        mean, variance = deployed(task, recipe)(x)
    wanted = task.predict(x, samples=0)
    assert torch.allclose(mean, wanted.mean)
    assert torch.allclose(variance, wanted.aleatoric)


def scene_task(network: nn.Module, batch_norm: Any = "running") -> tuple[SegmentationTask, SceneRecipe]:
    recipe = SceneRecipe(
        10, ("a", "b"), ((1, 2, 3), (4, 5, 6)), 1.0, (32, 32), (40, 48), PixelScale((0.0,) * 3, (1.0,) * 3)
    )
    task = SegmentationTask(network, num_train=10, num_classes=2, batch_norm=batch_norm)
    return task.eval(), recipe


def test_batch_statistics_are_exported_as_such() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Dropout2d(0.5), nn.Conv2d(4, 2, 1))
    task, recipe = scene_task(swap_dropout(network, "concrete", example_input=torch.zeros(1, 3, 8, 8)), "batch")
    module = deployed(task, recipe)
    set_stochastic(module, False)
    x = torch.randint(256, (3, 3, 9, 11), dtype=torch.uint8)
    program = export(module, x, dynamic=(0, 2, 3))
    other = torch.randint(256, (1, 3, 16, 8), dtype=torch.uint8)
    check(program, module, [other])
    wanted = task.predict(other / 255, samples=0).probabilities
    with torch.no_grad():
        assert torch.allclose(callable_of(program)(other), wanted, atol=1e-5)


@pytest.mark.slow
def test_networks_of_smp_take_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "has_onnx", lambda: False)
    network = smp_model("unet", in_channels=3, num_classes=2, encoder_name="resnet18")
    network = swap_dropout(network, "concrete", place="decoder.*", example_input=torch.zeros(1, 3, 32, 32))
    task, recipe = scene_task(network)
    lines = list(deploy_task(task, recipe, tmp_path))
    assert json.loads((tmp_path / "model.json").read_text())["input"]["shape"][2:] == ["height", "width"]
    assert len(lines) == 4
    model = torch.export.load(tmp_path / "model_deterministic.pt2").module(check_guards=False)
    pixels = torch.randint(256, (1, 3, 50, 71), dtype=torch.uint8)
    with torch.no_grad():
        assert np.allclose(model(pixels), task.predict(pixels / 255, samples=0).probabilities, atol=1e-5)


def test_a_network_that_cannot_be_traced(trained: Trained, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Undecided(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Dropout(0.5), nn.Conv2d(3, 2, 1))

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.layers(x if x.sum().item() > 0 else -x)
            return out

    task, recipe = scene_task(swap_dropout(Undecided(), "concrete", example_input=torch.zeros(1, 3, 8, 8)))
    with pytest.raises(package.UserError, match=r"--deploy: torch\.export cannot take this network"):
        list(deploy_task(task, recipe, tmp_path))
    assert not list(tmp_path.iterdir())
