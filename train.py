"""python train.py: compose a config, build what it names, fit, test, report. See --help."""

from __future__ import annotations

from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from concrete_dropout.cli.entry import command
from concrete_dropout.cli.occupancy import own_folder
from concrete_dropout.cli.process_end import leave_after

CONF = Path(__file__).parent / "conf"


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="train")
def main(cfg: DictConfig) -> float | None:
    """One job of a sweep, or the only one; returns what a sweeper may minimise."""
    from concrete_dropout.cli.sweep import run_job  # torch and Lightning take seconds to import: not for --help

    folder = Path(HydraConfig.get().runtime.output_dir)
    if HydraConfig.get().mode == RunMode.MULTIRUN:
        return run_job(cfg, folder, run_or_study)
    run_or_study(cfg, folder)
    return None


def run_or_study(cfg: DictConfig, folder: Path) -> None:
    """A study of several runs, or one run."""
    if cfg.study is None:
        run(cfg, folder)
    else:
        from concrete_dropout.cli.study import run_study

        run_study(cfg, folder, run)


def run(cfg: DictConfig, folder: Path) -> None:
    """One run: of an agent, of one model, or of replicas that are trained as one batched model."""
    with own_folder(folder):
        if cfg.agent._target_ is not None:
            from concrete_dropout.cli.agent_run import run_agent

            run_agent(cfg, folder, CONF)
        elif cfg.replicas.grid is None:
            from concrete_dropout.cli.run import run as run_one

            run_one(cfg, folder, CONF)
        else:
            from concrete_dropout.cli.replicated import run_replicas

            run_replicas(cfg, folder, CONF)


if __name__ == "__main__":
    leave_after(lambda: command(CONF, main))
