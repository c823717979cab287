"""Scalars, figures, tables and line charts for whatever loggers a trainer has.

Scalars go to every logger. W&B also gets plotly figures, tables and line-series charts. Every figure is kept in
the run folder, where reports find it. Rank zero only.

Steps: Lightning leaves W&B's own step alone (it counts the calls) and logs ``trainer/global_step`` as the x axis of
everything. It numbers the k-th batch k - 1, and logs it after the callbacks' ``on_train_batch_end``. A callback that
logs step k there would jump ahead of it; callbacks log in ``on_train_batch_start`` and at the end instead,
so that the axis never goes back.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
from pytorch_lightning.loggers import WandbLogger

from concrete_dropout.runfolder import FIGURES, RunFolder

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Series = Mapping[str, tuple[Sequence[float], Sequence[float]]]
MAX_CHART_POINTS = 500


def wandb_environment(folder: str | Path) -> dict[str, str]:
    """Environment variables that keep W&B inside of the run folder; for the entry point, before the logger is made.

    By default tables are staged in the user's home directory, where an offline run looks for them when it is synced:
    a run that was copied to another machine, or whose home was cleaned, would have lost them.
    """
    place = Path(folder).absolute() / "wandb"
    return {"WANDB_DATA_DIR": str(place / "data"), "WANDB_CACHE_DIR": str(place / "cache")}


def logging_interval(trainer: pl.Trainer) -> int:
    """``Trainer(log_every_n_steps=...)``; 0 for never."""
    return int(getattr(trainer, "log_every_n_steps", 0))


def log_scalars(trainer: pl.Trainer, scalars: Mapping[str, float], step: int) -> None:
    """Numbers, to every logger."""
    if trainer.is_global_zero and scalars:
        for logger in trainer.loggers:
            logger.log_metrics(dict(scalars), step)


def log_figure(trainer: pl.Trainer, folder: RunFolder, name: str, figure: Figure, step: int) -> None:
    """A plotly figure: ``figures/<name>.json`` in the run folder, ``figures/<name>`` in W&B."""
    if not trainer.is_global_zero:
        return
    folder.write_text(f"{FIGURES}/{name}.json", figure.to_json() + "\n")
    for logger in wandb_loggers(trainer):
        import wandb

        log_made(logger, f"figures/{name}", partial(wandb.Plotly, figure), step)


def log_table(trainer: pl.Trainer, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], step: int) -> None:
    """A table, ``tables/<name>`` in W&B."""
    for logger in wandb_loggers(trainer):
        import wandb

        table = partial(wandb.Table, columns=list(columns), data=[list(row) for row in rows])
        log_made(logger, f"tables/{name}", table, step)


def log_lines(trainer: pl.Trainer, name: str, series: Series, *, title: str, x_name: str, step: int) -> None:
    """Several lines in one chart, ``charts/<name>`` in W&B; long ones are thinned."""
    if not series:
        return
    thinned = {key: _thin(xs, ys) for key, (xs, ys) in series.items()}
    for logger in wandb_loggers(trainer):
        import wandb

        chart = partial(
            wandb.plot.line_series,
            xs=[xs for xs, _ in thinned.values()],
            ys=[ys for _, ys in thinned.values()],
            keys=list(thinned),
            title=title,
            xname=x_name,
        )
        log_made(logger, f"charts/{name}", chart, step)


def wandb_loggers(trainer: pl.Trainer) -> list[WandbLogger]:
    """The W&B loggers of rank zero."""
    return [logger for logger in trainer.loggers if isinstance(logger, WandbLogger)] if trainer.is_global_zero else []


def log_made(logger: WandbLogger, key: str, make: Callable[[], Any], step: int) -> None:
    """A figure, table, picture or video that ``make`` makes for W&B.

    W&B stages these in a folder for temporary files of its own. Where that was cleaned or is full, training goes on
    without them, with a warning for each key: the run folder has them too.
    """
    try:
        value = make()
    except Exception as error:  # of W&B's making: any
        reason = getattr(error, "strerror", None) or error  # without a file name, which would differ every time
        warnings.warn(f"W&B has to do without {key} ({type(error).__name__}: {reason})", stacklevel=2)
    else:
        logger.log_metrics({key: value}, step)


def _thin(xs: Sequence[float], ys: Sequence[float]) -> tuple[list[float], list[float]]:
    stride = -(-len(xs) // MAX_CHART_POINTS)
    if stride <= 1:
        return list(xs), list(ys)
    kept = range(len(xs) - 1, -1, -stride)  # the last point is the one that counts
    return [xs[i] for i in reversed(kept)], [ys[i] for i in reversed(kept)]
