"""Every command in the README and the documentation is one that the project understands."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from concrete_dropout.cli.check import check_command
from concrete_dropout.cli.entry import split

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SCRIPTS = ("predict.py", "evaluate.py", "dashboard.py")
# Words of the documents that stand for a value; those in paths may stay.
STAND_FOR = {"dropout=KIND": "dropout=concrete", "seed=SEED": "seed=0", "seed=S": "seed=0"}
# Settings that are explained, not commands: dots for something left out.
LEFT_OUT = "..."


def commands(text: str) -> list[list[str]]:
    """Commands in console blocks, which begin with a dollar, and in code inside of sentences and tables."""
    blocks = re.findall(r"^```console\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines += [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]
    found = [shlex.split(re.sub(r"\s+#.*", "", line)) for line in lines if line.startswith(("python ", "make "))]
    return [[STAND_FOR.get(word, word) for word in words] for words in found if LEFT_OUT not in words]


@cache
def all_commands() -> tuple[tuple[str, ...], ...]:
    return tuple(dict.fromkeys(tuple(words) for path in DOCUMENTS for words in commands(path.read_text())))


def of(script: str) -> list[tuple[str, ...]]:
    return [words[2:] for words in all_commands() if words[:2] == ("python", script)]


def test_commands_are_found() -> None:
    text = "a `python train.py\nseed=1` b\n```console\n$ python train.py -m seed=1,2  # two\nout\n```\n`make x`\n"
    assert commands(text) == [
        ["python", "train.py", "-m", "seed=1,2"],
        ["python", "train.py", "seed=1"],
        ["make", "x"],
    ]
    assert len(of("train.py")) > 40


@pytest.mark.parametrize("arguments", of("train.py"), ids=" ".join)
def test_train_commands_compose(arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "hydra/launcher=ray" in arguments and find_spec("ray") is None:
        pytest.skip("Ray is not installed (requirements-ray.lock)")
    monkeypatch.chdir(tmp_path)
    given = split([word for word in arguments if not word.startswith("ckpt_path=outputs")])
    if given.starts_jobs:
        check_command(given.overrides, CONF, given.multirun)


@cache
def help_of(script: str, *words: str) -> str:
    command = [sys.executable, script, *words, "--help"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("script", SCRIPTS)
def test_other_commands_have_settings_that_their_help_names(script: str) -> None:
    if not (ROOT / script).is_file():
        pytest.skip(f"there is no {script}")
    assert of(script)
    for arguments in of(script):
        words = arguments[:1] if arguments[:1] == ("wandb",) else ()
        known = help_of(script, *words)
        for word in arguments[len(words) :]:
            if "=" in word or word.startswith("-"):  # others are paths
                assert re.search(rf"(?<![\w-]){re.escape(_as_in_help(word.split('=')[0]))}", known), word


def _as_in_help(name: str) -> str:
    """Settings of a kind of data have the name of none."""
    return "ood.KEY" if name.startswith("ood.") else name if name.startswith("-") else f"{name}="


def test_scripts_and_targets_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for first, second, *_ in (words for words in all_commands() if len(words) > 1):
        if first == "make":
            assert second in targets
        elif second.startswith("benchmarks/"):
            assert (ROOT / second).is_file()


def test_links_to_files_and_pictures_exist() -> None:
    for path in DOCUMENTS[1:]:
        for name in re.findall(r"`((?:notebooks|docker|conf|benchmarks|tools)/[\w./-]+)`", path.read_text()):
            assert (ROOT / name).exists() or "mine" in name, f"{path.name}: {name}"
