"""The house's rules: who may import whom, docstrings, lengths of files, and names that the README promises."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from pathlib import Path

import pytest

import concrete_dropout
import concrete_dropout.dropout

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "concrete_dropout"
CORE = sorted((SOURCE / "dropout").rglob("*.py"))
ALL = sorted(SOURCE.rglob("*.py"))
MAX_LINES = 300


def imports(path: Path) -> set[str]:
    """Every module that a file imports, at any depth, also under TYPE_CHECKING; relative ones by full name."""
    package = ["concrete_dropout", *path.relative_to(SOURCE).parent.parts]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            found.add(".".join([*base, *([node.module] if node.module else [])]))
    return found


def is_allowed(module: str, allowed: tuple[str, ...]) -> bool:
    top = module.partition(".")[0]
    inside = any(module == name or module.startswith(f"{name}.") for name in allowed)
    return inside or top == "torch" or top in sys.stdlib_module_names


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def test_there_is_something_to_check() -> None:
    assert {"dropout/sampling.py", "dropout/swap.py", "predictive.py"} <= {name_of(path) for path in ALL}


@pytest.mark.parametrize("path", CORE, ids=name_of)
def test_the_core_imports_torch_the_standard_library_and_itself(path: Path) -> None:
    assert [m for m in imports(path) if not is_allowed(m, ("concrete_dropout.dropout",))] == []


def test_predictive_imports_the_core_only() -> None:
    found = imports(SOURCE / "predictive.py")
    assert [m for m in found if not is_allowed(m, ("concrete_dropout.dropout",))] == []


# package -> the packages of this project that it may import; imports go one way
LAYERS = {
    "errors": (),
    "memory": ("errors",),
    "runfolder": (),
    "heartbeat": ("runfolder",),
    "folderlock": ("errors",),
    "signals": (),
    "scaling": (),
    "dropout": (),
    "predictive": ("dropout",),
    "montecarlo": ("dropout", "predictive"),
    "settings": ("dropout", "errors"),
    "models": ("dropout", "errors"),
    "metrics": ("predictive",),
    "data": ("errors", "scaling"),
    "tasks": ("dropout", "errors", "metrics", "models", "montecarlo", "predictive", "scaling", "settings"),
    "evaluation": ("data", "dropout", "errors", "metrics", "predictive", "runfolder", "tasks"),
    "plots": (),
    "control": ("data", "dropout", "errors", "tasks"),
    "callbacks": ("dropout", "errors", "metrics", "plots", "predictive", "runfolder", "tasks"),
    "report": ("errors", "plots", "runfolder", "signals"),
    "prediction": ("data", "dropout", "errors", "memory", "plots", "runfolder", "tasks"),
    "deployment": ("data", "dropout", "errors", "models", "runfolder", "scaling", "tasks"),
    "dashboard": ("errors", "folderlock", "heartbeat", "plots", "report", "runfolder"),
    "cli": (
        "callbacks",
        "control",
        "dashboard",
        "data",
        "deployment",
        "errors",
        "evaluation",
        "folderlock",
        "heartbeat",
        "memory",
        "models",
        "prediction",
        "report",
        "runfolder",
        "settings",
        "signals",
        "tasks",
    ),
}
LIGHTNING = {"data", "tasks", "callbacks", "control", "cli"}
WITHOUT_TORCH = {"errors", "memory", "runfolder", "heartbeat", "folderlock", "signals", "plots", "report", "dashboard"}


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


MODULES = [path for path in ALL if package_of(path) != "__init__"]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_one_way(path: Path) -> None:
    package = package_of(path)
    ours = {m.split(".")[1] for m in imports(path) if m.startswith("concrete_dropout.")}
    assert ours - {package} - set(LAYERS[package]) == set()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_frameworks_keep_to_their_packages(path: Path) -> None:
    package, tops = package_of(path), {m.partition(".")[0] for m in imports(path)}
    assert package in LIGHTNING or "pytorch_lightning" not in tops
    assert package == "cli" or not tops & {"hydra", "omegaconf"}
    assert package not in WITHOUT_TORCH or not tops & {"torch", "torchmetrics", "pytorch_lightning"}


@pytest.mark.parametrize("path", ALL, ids=name_of)
def test_files_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_LINES


def test_no_cycles_between_the_modules_of_the_core() -> None:
    names = {f"concrete_dropout.dropout.{path.stem}": path for path in CORE if path.stem != "__init__"}
    graph = {name: imports(path) & set(names) for name, path in names.items()}
    while graph:
        free = [name for name, needs in graph.items() if not needs & set(graph)]
        assert free, f"these import each other: {sorted(graph)}"
        for name in free:
            del graph[name]


@pytest.mark.parametrize("package", [concrete_dropout, concrete_dropout.dropout], ids=lambda package: package.__name__)
def test_public_names_exist_and_are_documented(package: object) -> None:
    names = package.__all__  # type: ignore[attr-defined]
    assert names == sorted(names)
    assert len(set(names)) == len(names)
    for name in names:
        thing = getattr(package, name)
        assert (inspect.getdoc(thing) or "").strip(), name
        assert not (thing.__doc__ or "").startswith(f"{name}("), f"{name}: only a dataclass's own signature"


def test_public_methods_are_documented() -> None:
    for name in concrete_dropout.__all__:
        thing = getattr(concrete_dropout, name)
        if not inspect.isclass(thing):
            continue
        for method, value in vars(thing).items():
            if method.startswith("_") or not (inspect.isfunction(value) or isinstance(value, property)):
                continue
            assert inspect.getdoc(getattr(thing, method)), f"{name}.{method}"


@pytest.mark.parametrize("path", ALL, ids=name_of)
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_names_in_the_readme_exist() -> None:
    text = (ROOT / "README.md").read_text()
    imported = {
        name.strip()
        for names in re.findall(r"from concrete_dropout import ([\w, ]+)", text)
        for name in names.split(",")
    }
    called = set(re.findall(r"^\| `(\w+)\(", text, flags=re.MULTILINE))
    assert imported
    assert {name for name in imported | called if not hasattr(concrete_dropout, name)} == set()


def test_links_in_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)]+)\)", (ROOT / "README.md").read_text()):
        path, _, heading = target.partition("#")
        assert (ROOT / path).exists(), target
        assert not heading or heading in anchors((ROOT / path).read_text()), target


def anchors(markdown: str) -> set[str]:
    """The addresses of a page's headings."""
    titles = re.findall(r"^#+ (.+)$", markdown, flags=re.MULTILINE)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", title).lower()) for title in titles}


def test_commands_in_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([\w-]+):", makefile, flags=re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z][\w-]*)\b", (ROOT / "README.md").read_text()))
    assert named <= targets
