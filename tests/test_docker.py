"""The images as far as they can be checked without Docker: users, secrets, pinned bases, files, the compose file."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCKERFILE = ROOT / "docker" / "Dockerfile"
COMPOSE = ROOT / "docker" / "compose.yaml"
SECRET = re.compile(r"key|token|secret|password|credential", re.IGNORECASE)


class Instruction(NamedTuple):
    """One instruction with its continuation lines."""

    name: str
    value: str


def instructions() -> list[Instruction]:
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    return [Instruction(name, value) for name, value in lines]


def values(name: str) -> list[str]:
    return [entry.value for entry in instructions() if entry.name == name]


def arguments() -> dict[str, str]:
    return dict(value.split("=", 1) for value in values("ARG"))


def filled(text: str) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda match: arguments()[match[1]], text)


def copied() -> list[str]:
    """What comes from the project's folder into any stage, as it is written there."""
    local = [value.split() for value in values("COPY") if "--from=" not in value]
    return [source for words in local for source in words[:-1]]


def test_images_do_not_run_as_root() -> None:
    assert filled(values("USER")[-1]) == "1000"
    after = instructions()[[entry.name for entry in instructions()].index("USER") :]
    assert not {"RUN", "COPY"} & {entry.name for entry in after}


def test_bases_have_a_full_version() -> None:
    stages: set[str] = set()
    bases = []
    for value in values("FROM"):
        base, _, stage = filled(value).partition(" AS ")
        bases += [base] if base not in stages else []
        stages.add(stage)
    assert len(bases) == 2
    for base in bases:
        assert re.fullmatch(r"python:\d+\.\d+\.\d+-(slim-)?bookworm", base)
    tags = {base.replace("-slim", "") for base in bases}
    assert len(tags) == 1, "the environment is built with one Python and run with another"


@pytest.mark.parametrize("flavour", ["cpu", "cuda"])
def test_both_flavours_are_stages(flavour: str) -> None:
    assert f"build AS dependencies-{flavour}" in values("FROM")
    assert "dependencies-${FLAVOUR} AS dependencies" in values("FROM")


def test_no_secret_is_in_the_image() -> None:
    assert [value for value in values("ENV") + values("ARG") if SECRET.search(value)] == []


def test_everything_that_is_copied_exists_and_is_not_ignored() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert rules[0] == "*", "everything is left out but what is named"
    kept = {rule[1:] for rule in rules if rule.startswith("!")}
    assert set(copied()) == kept
    for source in copied():
        assert list(ROOT.glob(source)), source


def test_entry_points_are_in_the_image_and_tests_are_not() -> None:
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith(("!", "#"))]
    names = {path.name for path in ROOT.glob("*.py") if not any(fnmatch(path.name, rule) for rule in ignored[1:])}
    assert {"train.py", "evaluate.py"} <= names
    assert "conftest.py" not in names


def test_versions_are_those_of_the_lock() -> None:
    installs = [value for value in values("RUN") if "runtime.txt" in value and "pip install" in value]
    assert len(installs) == 2
    assert all("-c requirements.lock" in value for value in installs)


def test_requirements_of_the_image_leave_out_developers_tools() -> None:
    script = ROOT / "docker" / "runtime_requirements.py"
    subprocess.run([sys.executable, "-m", "doctest", str(script)], check=True)
    command = [sys.executable, str(script), str(ROOT / "pyproject.toml")]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    names = {re.split(r"[<>=!;\[ ]", line)[0] for line in lines}
    assert {"torch", "pytorch-lightning", "hydra-core", "wandb", "timm", "gymnasium"} <= names
    assert not names & {"ruff", "mypy", "pytest", "mkdocs-material", "concretedropout"}


def test_the_image_has_a_python_that_the_package_supports() -> None:
    version = filled("${RUN_IMAGE}").partition(":")[2].split(".")[:2]
    assert tuple(map(int, version)) >= (3, 10)


def services() -> dict[str, Any]:
    return yaml.safe_load(COMPOSE.read_text())["services"]


def test_compose_names_files_that_exist() -> None:
    for service in services().values():
        context = (COMPOSE.parent / service["build"]["context"]).resolve()
        assert context == ROOT
        assert (context / service["build"]["dockerfile"]) == DOCKERFILE
        assert set(service["build"]["args"]) <= set(arguments())


def test_compose_has_data_and_outputs_and_takes_the_key_from_the_shell() -> None:
    for service in services().values():
        targets = {volume.rpartition(":")[2] for volume in service["volumes"]}
        assert targets == {"/data", "/outputs"}
        assert service["environment"]["WANDB_API_KEY"] is None


def test_only_the_cuda_service_asks_for_gpus() -> None:
    assert [name for name, service in services().items() if "deploy" in service] == ["cuda"]
    assert services()["cuda"]["build"]["args"]["FLAVOUR"] == "cuda"


def test_hadolint_has_nothing_to_say() -> None:
    beside = Path(sys.executable).parent / "hadolint"
    found = str(beside) if beside.is_file() else shutil.which("hadolint")
    if found is None:
        pytest.skip("hadolint is not installed (the extra dev brings it for Linux on x86-64)")
    done = subprocess.run([found, str(DOCKERFILE)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
