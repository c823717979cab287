"""The notebooks run from top to bottom, show what they promise, and are kept without outputs."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
import torch
from PIL import Image

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
KEYS = {
    "code": {"cell_type", "execution_count", "id", "metadata", "outputs", "source"},
    "markdown": {"cell_type", "id", "metadata", "source"},
}


def cells(name: str, kind: str = "code") -> list[dict[str, Any]]:
    notebook = json.loads((FOLDER / f"{name}.ipynb").read_text())
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def run(name: str) -> tuple[dict[str, Any], list[Any]]:
    """Execute the cells as a kernel would: names at the end, and what each cell would show."""
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = []
    for number, cell in enumerate(cells(name)):
        tree = ast.parse("".join(cell["source"]))
        where = f"{name}, cell {number}"
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, where, "exec"), names)
        shown.append(eval(compile(ast.Expression(last.value), where, "eval"), names) if last else None)
    return names, shown


@pytest.fixture
def in_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Jupyter starts a kernel."""
    monkeypatch.chdir(FOLDER)


def test_there_are_notebooks() -> None:
    assert {path.stem for path in NOTEBOOKS} == {
        "concrete_distribution",
        "reading_a_run",
        "uncertainty_maps",
        "your_own_model",
    }


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stripped(path: Path) -> None:
    notebook = json.loads(path.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    identities = [cell["id"] for cell in notebook["cells"]]
    assert len(set(identities)) == len(identities)
    for cell in notebook["cells"]:
        assert set(cell) == KEYS[cell["cell_type"]]
        assert (cell.get("outputs", []), cell.get("execution_count"), cell["metadata"]) == ([], None, {})


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_thin(path: Path) -> None:
    assert len(cells(path.stem)) <= 8
    assert sum(len(cell["source"]) for cell in cells(path.stem)) <= 100
    assert "".join(cells(path.stem, "markdown")[0]["source"]).startswith("# ")


def test_concrete_distribution(in_folder: None) -> None:
    names, shown = run("concrete_distribution")
    relation, derivative = (figure for figure in shown if isinstance(figure, go.Figure))
    assert len(relation.data) == len(derivative.data) == len(names["PROBABILITIES"])
    u = names["u"]
    for p, slopes in names["slopes"].items():
        z = names["concrete"](torch.tensor(p), u)
        exact = z * (1 - z) / (names["TEMPERATURE"] * p * (1 - p))  # of sigmoid((logit p + logit u) / t)
        torch.testing.assert_close(slopes, exact, rtol=1e-3, atol=1e-3)
    assert all(abs(mean - p) < 0.01 for p, mean in names["means"].items())


def test_your_own_model(in_folder: None) -> None:
    names, shown = run("your_own_model")
    gap, data = names["grid"].abs() < 0.3, (names["grid"].abs() > 1.7) & (names["grid"].abs() < 2.3)
    epistemic = names["prediction"].epistemic
    assert epistemic[gap].mean() > epistemic[data].mean(), "uncertainty is larger where there are no data"
    assert any(isinstance(figure, go.Figure) for figure in shown)
    assert set(shown[2]) == {"body.2", "body.5"}


@pytest.mark.slow
def test_reading_a_run(in_folder: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTPUT_DIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names, shown = run("reading_a_run")
    assert shown[1] == {"state": "finished", "step": 60, "dropout": "concrete"}
    assert names["last"]["test/nll"] == pytest.approx(names["last"]["test/nll"])
    assert sum(isinstance(figure, go.Figure) for figure in shown) == 3
    assert "test" in names["curves"]
    again, _ = run("reading_a_run")
    assert again["run"].path == names["run"].path, "a run that is there is read"


def test_uncertainty_maps(in_folder: None) -> None:
    names, shown = run("uncertainty_maps")
    assert isinstance(shown[-1], Image.Image)
    prediction = names["prediction"]
    assert prediction.epistemic.max() > 0
    total = prediction.epistemic + prediction.aleatoric
    torch.testing.assert_close(total, prediction.predictive, rtol=1e-4, atol=1e-4)
