from __future__ import annotations

from pathlib import Path

import pytest
import torch

from concrete_dropout.cli.evaluate import evaluate_command, parse


def test_help_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate_command(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {key}=" in text for key in ("ckpt", "starts", "seed", "video", "out"))


def test_settings_are_sorted() -> None:
    request = parse(["ckpt='a b.ckpt'", "starts=3", "video=false", "out=here", "seed=0"])
    assert (request.ckpt, request.starts, request.video, request.out, request.seed) == (
        Path("a b.ckpt"),
        3,
        False,
        Path("here"),
        0,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["starts=3"], "ckpt=... is missing"),
        (["ckpt=a", "starts=1"], "starts=1 must be an integer of at least 2"),
        (["ckpt=a", "starts=many"], "starts=many must be an integer"),
        (["ckpt=a", "video=maybe"], "video=maybe must be true | false"),
        (["ckpt=a", "start=3"], "start is unknown. Did you mean 'starts'?"),
        (["a.ckpt"], "settings are written key=value"),
        (["ckpt=nowhere.ckpt"], "there is no checkpoint nowhere.ckpt"),
    ],
)
def test_mistakes_are_one_message(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert evaluate_command(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_checkpoint_of_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"state_dict": {}}, tmp_path / "other.ckpt")
    assert evaluate_command([f"ckpt={tmp_path}/other.ckpt"]) == 2
    assert "is no checkpoint of an agent" in capsys.readouterr().err
