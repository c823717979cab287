"""python train.py --help: what it names exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from concrete_dropout.cli.check import check_command
from concrete_dropout.cli.compose import compose_config

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"


@pytest.fixture(scope="module")
def text() -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "train.py"), "--help"], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stderr == ""
    return done.stdout


def test_it_fits_a_terminal(text: str) -> None:
    groups = {path.name for path in CONF.iterdir()}
    lines = [line for line in text.splitlines() if line.partition(":")[0] not in groups]  # lists of choices are long
    assert max(map(len, lines)) <= 120
    assert "$" not in text


def test_every_group_and_choice_is_listed(text: str) -> None:
    for group in (path for path in CONF.iterdir() if path.is_dir() and path.name != "hydra"):
        choices = ", ".join(sorted(path.stem for path in group.glob("*.yaml")))
        assert f"{group.name}: {choices}" in text


def test_commands_are_accepted(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"python train\.py ?([^\n\[]*)$", text, flags=re.MULTILINE)
    assert len(commands) >= 10
    for command in commands:
        words = [word for word in re.split(r" {2,}", command)[0].split() if "ckpt_path" not in word]
        if not {"--cfg", "--hydra-help"} & set(words):
            check_command([word for word in words if word != "-m"], CONF, multirun="-m" in words)


def test_keys_exist_with_their_defaults(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATA_DIR", raising=False)
    monkeypatch.delenv("OUTPUT_DIR", raising=False)
    section = text.partition("KEYS YOU WILL WANT")[2].partition("WHAT A RUN LEAVES")[0]
    keys = re.findall(r"^  ([\w.]+)=(\S+)", section, flags=re.MULTILINE)
    assert len(keys) >= 12
    defaults = compose_config(["~experiment"], CONF)  # an experiment changes some of them
    for key, value in keys:
        assert OmegaConf.select(defaults, key) == OmegaConf.create(f"x: {value}").x, key
