"""Loggers: where they write, and whether W&B goes online."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from concrete_dropout.cli.loggers import csv_logger, tensorboard_logger, wandb_key_is_configured, wandb_logger
from concrete_dropout.errors import UserError


@pytest.fixture(autouse=True)
def _nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, and an environment that is put back."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("WANDB_API_KEY", "NETRC", "WANDB_BASE_URL", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_SILENT"):
        monkeypatch.setenv(name, "")


def test_a_key_is_found_where_wandb_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not wandb_key_is_configured()
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine elsewhere login user password secret\n")
    assert not wandb_key_is_configured()
    monkeypatch.setenv("WANDB_BASE_URL", "https://elsewhere:8080/")
    assert wandb_key_is_configured()
    netrc.write_text("not a netrc")
    assert not wandb_key_is_configured()
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    assert wandb_key_is_configured()


@pytest.mark.parametrize(
    ("mode", "key", "environment", "offline"),
    [
        ("auto", False, None, True),
        ("auto", True, None, False),
        ("auto", True, "offline", True),
        ("offline", True, None, True),
        ("online", True, None, False),
    ],
)
def test_online_only_with_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, key: bool, environment: str | None, offline: bool
) -> None:
    pytest.importorskip("wandb")
    if key:
        monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    if environment:
        monkeypatch.setenv("WANDB_MODE", environment)
    logger = wandb_logger(str(tmp_path / "run"), mode=mode)  # type: ignore[arg-type]
    assert logger._offline is offline
    assert logger._wandb_init["name"] == "run"


def test_online_without_a_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"logger.wandb.mode=online needs an API key"):
        wandb_logger(str(tmp_path), mode="online")
    assert list(tmp_path.iterdir()) == []


def test_other_loggers_keep_to_the_folder(tmp_path: Path) -> None:
    assert Path(csv_logger(str(tmp_path)).log_dir) == tmp_path / "csv" / "version_0"
    if any(importlib.util.find_spec(name) for name in ("tensorboard", "tensorboardX")):
        assert Path(tensorboard_logger(str(tmp_path)).log_dir) == tmp_path / "tensorboard"
    else:
        with pytest.raises(UserError, match="pip install tensorboard"):
            tensorboard_logger(str(tmp_path))
