"""Keys on command lines and in configs."""

from __future__ import annotations

from pathlib import Path

import pytest

from concrete_dropout.cli.entry import command
from concrete_dropout.cli.evaluate import evaluate_command
from concrete_dropout.cli.predict import predict_command
from concrete_dropout.cli.secret import known_secrets, refuse_secrets, refuse_secrets_in
from concrete_dropout.errors import UserError

CONF = Path(__file__).parents[2] / "conf"
WANDB = "0123456789abcdef0123456789abcdef01234567"
OTHER, NETRC = "planted-token-of-a-service", "planted-password-of-netrc"


@pytest.fixture(autouse=True)
def _planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "netrc"
    file.write_text(f"machine api.wandb.ai login user password {NETRC}\n")
    file.chmod(0o600)
    monkeypatch.setenv("NETRC", str(file))
    monkeypatch.setenv("WANDB_API_KEY", WANDB)
    monkeypatch.setenv("MY_SERVICE_TOKEN", OTHER)


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        (f"+logger.api_key={WANDB}", r"\+logger\.api_key"),
        ("+logger.wandb.api_key=short", r"\+logger\.wandb\.api_key"),
        (f"logger.wandb.project={'f' * 40}", r"logger\.wandb\.project"),
        (f"+logger.wandb.x='local-{'f' * 40}'", r"\+logger\.wandb\.x"),
        (f"++hydra.job.env_set.WANDB_API_KEY={'f' * 40}", r"\+\+hydra\.job\.env_set\.WANDB_API_KEY"),
        (f"name=run-{WANDB}", "name"),
        (f"data.path=/somewhere/{OTHER}/a.csv", r"data\.path"),
        (f"+data.{OTHER}=1,{OTHER}", "a setting"),
        (f"name={NETRC}", "name"),
        ("data.url=https://me:pa55word@example.org/a.zip", r"data\.url"),
        (WANDB, "an argument of the command"),
        ("+my_password=hunter2", r"\+my_password"),
    ],
)
def test_a_key_is_refused_and_not_repeated(argument: str, named: str) -> None:
    with pytest.raises(UserError, match=rf"^{named} looks like a key or password.*WANDB_API_KEY") as caught:
        refuse_secrets(["seed=1", argument])
    assert not any(secret in str(caught.value) for secret in (WANDB, "f" * 40, OTHER, NETRC, "pa55word", "hunter2"))


@pytest.mark.parametrize(
    "argument",
    [
        "seed=1",
        "experiment=mnist",
        "dropout.owners={layers.0:layers.1}",
        "data.url=https://github.com/a/b/archive/fcaf7c4978dd8d091ec67db7cb7fdd225f5051c5.zip",
        "data.root=a@b",
        "+model.options.api_key=null",
        "+model.max_token=64",
        "model.name=tokenizer",
        "-m",
    ],
)
def test_what_is_no_key(argument: str) -> None:
    refuse_secrets([argument])


def test_what_interpolations_bring_is_found_in_the_config() -> None:
    with pytest.raises(UserError, match=r"^data\.columns\.1 looks like a key or password"):
        refuse_secrets_in({"seed": 1, "data": {"columns": ["a", f"b {OTHER}"]}})
    refuse_secrets_in({"seed": 1, "data": {"columns": ["a", None, 2.5, True]}})


def test_short_values_and_paths_are_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "abc")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/key.json")
    assert known_secrets() == {WANDB, OTHER, NETRC}
    monkeypatch.setenv("NETRC", "/nowhere")
    assert known_secrets() == {WANDB, OTHER}


def test_every_command_refuses_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def started() -> None:
        raise AssertionError("nothing may be started")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
    for argument in (f"+logger.api_key={WANDB}", WANDB, f"name='{OTHER}'", "name=${oc.env:MY_SERVICE_TOKEN}"):
        monkeypatch.setattr("sys.argv", ["train.py", "logger=none", argument])
        assert command(CONF, started) == 2
    assert evaluate_command(["ckpt=a", f"data.root={WANDB}"], CONF) == 2
    assert predict_command(["ckpt=a", f"input={WANDB}"]) == 2
    shown = "".join(capsys.readouterr())
    assert shown.count("looks like a key or password") == 6
    assert WANDB not in shown
    assert OTHER not in shown
    assert [path.name for path in tmp_path.iterdir()] == ["netrc"]
