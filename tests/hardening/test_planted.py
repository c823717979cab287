"""Planted keys are in nothing that a run leaves or prints, and a tampered checkpoint runs no code."""

from __future__ import annotations

import base64
import gzip
import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.hardening import bad_files as bad
from tests.hardening.cases import CSV
from tests.hardening.commands import Result, WarmCommands

KEYS = {
    "WANDB_API_KEY": "c0ffee0123456789abcdef0123456789abcdef01",
    "MY_SERVICE_TOKEN": "planted-token-of-a-service",
    "netrc": "badc0de0123456789abcdef0123456789abcdef0",
}
NUM_FILES = 40  # a run leaves more than that: nobody looks into an empty folder


@dataclass(frozen=True)
class Planted:
    """A folder with a finished and a failed run, and how the commands ended."""

    folder: Path
    results: dict[str, Result]

    @property
    def checkpoint(self) -> Path:
        return self.folder / "outputs/run/checkpoints/last.ckpt"


@pytest.fixture(scope="module")
def planted(commands: WarmCommands, tmp_path_factory: pytest.TempPathFactory) -> Planted:
    folder = tmp_path_factory.mktemp("planted")
    bad.table(folder, bad.good_table())
    (folder / "home").mkdir()
    netrc = folder / "home" / ".netrc"
    netrc.write_text(f"machine api.wandb.ai login user password {KEYS['netrc']}\n")
    netrc.chmod(0o600)
    environment = {"WANDB_MODE": "offline", **{name: key for name, key in KEYS.items() if name != "netrc"}}
    train = [argument for argument in CSV if argument != "logger=none"]
    fails = ["+callbacks.b._target_=tests.probes.Broken", "+callbacks.b={rank:0,seed:0,mended:nothing,step:1}"]
    scripts = {
        "train": ("train.py", [*train, "hydra.run.dir=outputs/run"]),
        "fail": ("train.py", [*train, "hydra.run.dir=outputs/failed", *fails]),
        "evaluate": ("evaluate.py", ["ckpt=outputs/run", "mc_samples=0,2"]),
        "predict": ("predict.py", ["ckpt=outputs/run", "input=my table.csv", "mc_samples=2"]),
        "dashboard": ("dashboard.py", ["outputs"]),
        "refused": ("train.py", [*train, f"+logger.api_key={KEYS['WANDB_API_KEY']}"]),
    }
    results = {}
    for name, (script, arguments) in scripts.items():
        results[name] = commands.run(script, arguments, folder, **environment)
    return Planted(folder, results)


def contents(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """A file, and what is packed in it: checkpoints are zip archives, the dashboard's data compressed base64."""
    yield name, content
    if content.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.namelist():
                yield from contents(f"{name}:{member}", archive.read(member))
    elif content.startswith(b"\x1f\x8b"):
        yield f"{name}:gzip", gzip.decompress(content)
    for packed in re.findall(rb"H4sI[A-Za-z0-9+/=]{40,}", content):
        yield f"{name}:base64", gzip.decompress(base64.b64decode(packed))


def test_the_commands_have_done_their_work(planted: Planted) -> None:
    expected = {"train": 0, "fail": 1, "evaluate": 0, "predict": 0, "dashboard": 0, "refused": 2}
    for name, result in planted.results.items():
        assert result.code == expected[name], f"{name} ended with {result.code}:\n{result.err}"
    assert planted.results.keys() == expected.keys()
    assert "broken on purpose" in planted.results["fail"].err
    assert "looks like a key or password" in planted.results["refused"].message
    names = {path.name for path in planted.folder.rglob("*")}
    assert {"last.ckpt", "report.html", "run.log", "evaluation.html", "predictions.csv", "index.html"} <= names
    assert list(planted.folder.glob("outputs/run/wandb/offline-run-*/*.wandb"))


def test_no_key_is_in_any_file_or_on_the_terminal(planted: Planted) -> None:
    seen, found = set[str](), list[str]()
    for path in planted.folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.name != ".netrc":
            for name, content in contents(str(path.relative_to(planted.folder)), path.read_bytes()):
                seen.add(name)
                found += [f"{name} has {kind}" for kind, key in KEYS.items() if key.encode() in content]
    for name, result in planted.results.items():
        found += [f"output of {name} has {kind}" for kind, key in KEYS.items() if key in result.out + result.err]
    assert not found
    assert len(seen) > NUM_FILES
    assert any("last.ckpt:" in name for name in seen)
    assert any(name.endswith(":base64") for name in seen)


def test_the_search_would_find_one(tmp_path: Path) -> None:
    key = KEYS["netrc"]
    torch.save({"config": {"name": key}}, tmp_path / "a.ckpt")
    packed = base64.b64encode(gzip.compress(f"{key} {'x' * 100}".encode(), mtime=0))
    for content in ((tmp_path / "a.ckpt").read_bytes(), b'data("' + packed + b'")', gzip.compress(key.encode())):
        assert any(key.encode() in part for _, part in contents("file", content))


def tampered(planted: Planted, folder: Path, **changes: Any) -> Path:
    checkpoint = torch.load(planted.checkpoint, weights_only=True)
    for key, value in changes.items():
        checkpoint["config"][key] = value
    path = folder / "tampered.ckpt"
    torch.save(checkpoint, path)
    return path


@pytest.mark.parametrize("script", ["evaluate.py", "predict.py"])
@pytest.mark.parametrize("harm", ["target", "nested", "secret", "pickle"])
def test_a_tampered_checkpoint_runs_no_code(
    planted: Planted, commands: WarmCommands, tmp_path: Path, script: str, harm: str
) -> None:
    mkdir = {"_target_": "os.mkdir", "path": str(tmp_path / "OWNED")}
    if harm == "pickle":
        path = tmp_path / "tampered.ckpt"
        bad.malicious_checkpoint(path)
    elif harm == "secret":
        path = tampered(planted, tmp_path, name="${oc.env:MY_SERVICE_TOKEN}")
    else:
        path = tampered(
            planted, tmp_path, model=mkdir if harm == "target" else {"_target_": "torch.nn.ReLU", "a": mkdir}
        )
    table = planted.folder / "my table.csv"
    more = [f"input={table}"] if script == "predict.py" else ["mc_samples=0"]
    environment = {"MY_SERVICE_TOKEN": KEYS["MY_SERVICE_TOKEN"]}
    result = commands.run(script, [f"ckpt={path}", *more], tmp_path, **environment)
    assert result.code == 2, result.err
    assert "tampered.ckpt" in result.message
    assert "Traceback" not in result.err
    assert not (tmp_path / "OWNED").exists()
    assert KEYS["MY_SERVICE_TOKEN"] not in result.out + result.err
