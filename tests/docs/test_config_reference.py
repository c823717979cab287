"""The configuration reference has every group, choice, key, default and comment of conf/."""

from __future__ import annotations

import doctest
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
FILES = sorted(CONF.glob("*/**/*.yaml"))


def load(name: str) -> ModuleType:
    """A module of tools/, which is no package."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


reference = load("config_reference")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference.pages(CONF)


def section(page: str, title: str) -> str:
    return page.split(f"## `{title}`\n")[1].split("\n## ")[0]


def test_examples_hold() -> None:
    assert doctest.testmod(reference).attempted > 0
    assert doctest.testmod(reference).failed == 0


def test_every_group_and_choice_has_its_place(pages: dict[str, str]) -> None:
    for path in FILES:
        group = path.parent.relative_to(CONF).as_posix()
        assert f"## `{group}={path.stem}`" in pages[reference.page_name(group)]
        assert f"`{path.stem}`" in pages["index"]
    assert len(pages) == len({path.parent for path in FILES}) + 1


def test_every_group_is_explained() -> None:
    groups = {path.parent.name for path in FILES if path.parent.parent == CONF}
    assert groups <= set(reference.ABOUT)


def test_keys_are_those_of_the_files() -> None:
    for path in (CONF / "train.yaml", *FILES):
        found = {entry.key for entry in reference.read_choice(path).entries}
        keys = {key for key in walk(yaml.safe_load(path.read_text()), "") if not is_hidden(key)}
        # A mapping in braces is one value of the reference.
        assert {key for key in keys if not any(key == one or key.startswith(f"{one}.") for one in found)} == set(), path
        assert {one for one in found if not any(key == one or key.startswith(f"{one}.") for key in keys)} == set(), path


def is_hidden(key: str) -> bool:
    return key.startswith(("defaults", "help.")) or key.rpartition(".")[2] == "_partial_"


def walk(node: object, prefix: str) -> list[str]:
    if isinstance(node, dict) and node:
        return [key for name, value in node.items() for key in walk(value, f"{prefix}{name}.")]
    return [prefix.rstrip(".")] if prefix else []


def test_defaults_and_comments_stand_beside_their_keys(pages: dict[str, str]) -> None:
    concrete = section(pages["dropout"], "dropout=concrete")
    assert "| `dropout.temperature` | `0.1` | concrete: of the relaxation |" in concrete
    csv = section(pages["data"], "data=csv")
    assert "| `data.path` | **required** | the file |" in csv
    assert r"| `data.missing` | `error` | error \| drop \| mean: empty cells |" in csv
    assert "| `seed` | `0` | of weights, masks, batches and generated data |" in pages["index"]


def test_choices_with_the_same_keys_show_what_differs(pages: dict[str, str]) -> None:
    fixed = section(pages["dropout"], "dropout=fixed")
    assert "As `concrete`, but:" in fixed
    assert "`dropout.kind` | `fixed`" in fixed
    assert "temperature" not in fixed


def test_experiments_show_their_command_and_what_they_take(pages: dict[str, str]) -> None:
    scenes = section(pages["experiment"], "experiment=scenes")
    assert "    python train.py experiment=scenes\n" in scenes
    assert "Takes `data: scenes`, `model: fc_densenet_light`, `task: segmentation`." in scenes


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_made_up_config(tmp_path: Path) -> None:
    write(tmp_path / "train.yaml", "defaults:\n  - _self_\n  - one: b\nseed: 0  # of all\n")
    write(
        tmp_path / "one" / "a.yaml", '# About a | b\nx: "#1"  # not <the> comment: "#"\ny: [1,\n    2]  # two lines\n'
    )
    write(tmp_path / "one" / "b.yaml", "x: 2\ny: 3\n")
    page = reference.pages(tmp_path)["one"]
    assert page.index("`one=b`") < page.index("## `one=a`"), "the default comes first"
    assert r"About a \| b" in page
    assert '| `one.x` | `"#1"` | not &lt;the&gt; comment: "#" |' in page
    assert "| `one.y` | `[1, 2]` | two lines |" in page
    assert "| `one.x` | `2` | not &lt;the&gt;" in page, "comments that are there once explain the key everywhere"


def test_a_file_that_is_no_mapping_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"list\.yaml is no mapping"):
        reference.read_choice(write(tmp_path / "list.yaml", "- 1\n"))
