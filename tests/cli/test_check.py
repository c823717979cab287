"""Commands that cannot work are refused before anything is built, by the name of what is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from concrete_dropout.cli.check import check_command
from concrete_dropout.errors import UserError

CONF = Path(__file__).parents[2] / "conf"


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OUTPUT_DIR", raising=False)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("drpout=concrete", "no key or group 'drpout'. Did you mean 'dropout'?"),
        ("dropout=concret", "dropout=concret is no choice. Did you mean 'concrete'? There is: concrete, fixed, none"),
        ("dropout.init_p=abc", "dropout.init_p='abc' must be a number or a list of numbers"),
        ("dropout.init_p=1.5", "dropout.init_p=1.5 must lie strictly between 0 and 1"),
        ("dropout.init_p=[0.1,0.2,0.3]", "dropout.init_p"),
        ("dropout.temperature=0", "dropout.temperature=0 must be above 0"),
        ("dropout.initp=0.1", "dropout has no 'initp'. Did you mean 'init_p'?"),
        ("+dropout.initp=0.1", "dropout.initp is no setting of DropoutSettings. Did you mean 'init_p'?"),
        ("trainer.max_step=5", "trainer has no 'max_step'. Did you mean 'max_steps'?"),
        ("trainer.max_steps=1.5", "trainer.max_steps=1.5 must be an integer"),
        ("data.num_data=0", "data.num_data=0 must be a whole number of at least 1"),
        ("data.num_data=1.5", "data.num_data=1.5 must be an integer"),
        ("data.num_data='5'", "data.num_data='5' must be an integer"),
        ("model.hidden=50", "model.hidden=50 must be a list of integers, as in model.hidden=[50]"),
        ("model.hidden.0=50", "model.hidden has no '0'"),
        ("task.noise=foo", "task.noise='foo' must be heteroscedastic | homoscedastic"),
        ("optim.p_lr=abc", "optim.p_lr='abc' must be a number or null"),
        ("optim.lr=-1", "optim.lr=-1 must be above 0"),
        ("seed=x", "seed='x' must be an integer"),
        ("experiment=unknown", "experiment=unknown is no choice. There is: camvid,"),
        ("experiment=csv", "data.path has no value yet"),
        ("experiment=uci data.split=-1", "data.split=-1 must be a whole number of at least 0"),
        ("logger.wandb.mode=sometimes", "logger.wandb.mode='sometimes' must be auto | online | offline"),
        ("logger=none logger.wandb.mode=offline", "logger has no 'wandb'. There is: nothing"),
        ("a=b=c", "'a=b=c' is not understood: settings are written key=value"),
        ("key", "'key' is not understood: settings are written key=value"),
        ("seed=1,2", "seed=1,2 has several values, which makes a sweep: add -m"),
        ("sweep=init_p", "sweep=init_p makes several runs: add -m"),
        ("model._target_=nowhere.Net", "model._target_=nowhere.Net cannot be imported"),
        ("paths.output_dir=/proc/nowhere", "Choose another place with paths.output_dir=..."),
        ("hydra/launcher=nope", "Could not find 'hydra/launcher/nope'"),
    ],
)
def test_refused(command: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as refusal:
        check_command(command.split(), CONF)
    assert message in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("dropout=none,concret", "dropout=concret is no choice"),
        ("data.num_data=10,100,ten", "data.num_data='ten' must be an integer"),
        ("dropout.init_p=0.1,0.5,1", "dropout.init_p=1 must lie strictly between 0 and 1"),
        ("seed=0,1 data=synthetic,uci data.num_data=5", "data.num_data"),
        ("sweep=init_p dropout.init_p=0.5,2", "dropout.init_p=2"),
    ],
)
def test_every_value_of_a_sweep_is_checked(command: str, message: str) -> None:
    with pytest.raises(UserError) as refusal:
        check_command(command.split(), CONF, multirun=True)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("command", "multirun"),
    [
        ([], False),
        (["dropout.init_p=[0.05,0.5]", "optim.p_lr=null", "trainer.max_time='00:01:00:00'", "name='my run'"], False),
        (["~callbacks.progress", "+trainer.detect_anomaly=true"], False),
        (["experiment=csv", "data.path='my file.csv'", "data.target=[a,b]"], False),
        (["seed=range(0,40)", "dropout=glob(*)", "dropout.init_p=choice(0.1,0.2)"], True),
        (["sweep=length_scale"], True),
    ],
)
def test_accepted(command: list[str], multirun: bool) -> None:
    check_command(command, CONF, multirun)


def test_misspelled_names_are_refused_without_importing_lightning() -> None:
    code = (
        "import sys, pathlib\n"
        "from concrete_dropout.cli.entry import command\n"
        "sys.argv = ['train.py', 'drpout=concrete']\n"
        f"code = command(pathlib.Path({str(CONF)!r}), lambda: None)\n"
        "assert 'pytorch_lightning' not in sys.modules and 'wandb' not in sys.modules\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 2
    assert "Did you mean 'dropout'?" in done.stderr
