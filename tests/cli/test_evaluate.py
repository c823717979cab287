from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from concrete_dropout.cli.evaluate import evaluate_command
from concrete_dropout.cli.evaluation_load import names_of
from concrete_dropout.cli.evaluation_request import HELP, READERS, Request, for_agents, parse
from concrete_dropout.errors import UserError

CONF = Path(__file__).parents[2] / "conf"


def test_help_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate_command(["--help"], CONF) == 0
    text = capsys.readouterr().out
    assert all(f"  {key}=" in text for key in READERS)
    assert max(map(len, text.splitlines())) <= 120


def test_examples_in_the_help_are_understood() -> None:
    commands = re.findall(r"^  python evaluate\.py (ckpt=[^\n#\[]+)", HELP, flags=re.MULTILINE)
    assert len(commands) >= 8
    for command in commands:
        assert parse(command.split()).ckpt


def test_settings_are_sorted() -> None:
    request = parse(["ckpt='a b.ckpt'", "starts=3", "video=false", "out=here", "seed=0"])
    assert (request.ckpt, request.starts, request.video, request.out, request.seed) == (
        (Path("a b.ckpt"),),
        3,
        False,
        Path("here"),
        0,
    )
    for_agents(request)
    request = parse(["ckpt=a,b", "mc_samples=[50,0,10,10]", "replica=all", "corruptions=true", "ood.root=x"])
    assert request == Request(
        (Path("a"), Path("b")),
        (0, 10, 50),
        corruptions=True,
        given=frozenset({"ckpt", "mc_samples", "replica", "corruptions", "ood.KEY"}),
        ood_data={"ood.root": "x"},
    )
    with pytest.raises(UserError, match="corruptions is not for agents"):
        for_agents(request)


def test_names_tell_checkpoints_apart() -> None:
    paths = [Path(f"/runs/{name}/checkpoints/last.ckpt") for name in ("a/0", "b/0")]
    assert names_of(paths) == ["a/0", "b/0"]
    with pytest.raises(UserError, match="twice"):
        names_of([paths[0], paths[0]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["starts=3"], "ckpt=... is missing"),
        (["ckpt=a", "starts=1"], "starts=1 must be an integer of at least 2"),
        (["ckpt=a", "starts=many"], "starts=many must be an integer"),
        (["ckpt=a", "video=maybe"], "video=maybe must be true | false"),
        (["ckpt=a", "start=3"], "start is unknown. Did you mean 'starts'?"),
        (["ckpt=a", "mc_samples=-5"], "mc_samples=-5 must be an integer of at least 0"),
        (["ckpt=a", "mc_samples=1,,2"], "mc_samples=1,,2 has no value"),
        (["ckpt=a", "mask=binomial"], "mask=binomial must be concrete | bernoulli"),
        (["ckpt=a", "split=train"], "split=train must be val | test"),
        (["ckpt=a", "severities=6"], "severities=6 must be an integer from 1 to 5"),
        (["ckpt=a", "repeats=0"], "repeats=0 must be an integer of at least 1"),
        (["ckpt=a", "--verbose"], "The options are --help and --traceback"),
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
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
    assert evaluate_command(arguments, CONF) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize("asked", ["option", "environment"])
def test_a_traceback_is_shown_where_it_is_asked_for(
    asked: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if asked == "environment":
        monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    assert evaluate_command(["ckpt=a", "repeats=0", *(["--traceback"] if asked == "option" else [])], CONF) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_checkpoint_of_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"state_dict": {}}, tmp_path / "other.ckpt")
    assert evaluate_command([f"ckpt={tmp_path}/other.ckpt"], CONF) == 2
    assert "is no checkpoint of an agent or of a network" in capsys.readouterr().err
