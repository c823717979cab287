"""Watches the dropout probabilities: scalars, table, charts, saturation, and whether they have converged."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytorch_lightning as pl

from concrete_dropout.callbacks.convergence import Convergence, Criterion, convergence
from concrete_dropout.callbacks.loggers import log_figure, log_lines, log_scalars, log_table, logging_interval
from concrete_dropout.callbacks.network import active_layers
from concrete_dropout.callbacks.pace import logit_pace
from concrete_dropout.callbacks.sparse import stride_of, thinned
from concrete_dropout.callbacks.tables import cut_table, replace_table
from concrete_dropout.runfolder import CONVERGENCE, DROPOUT, DROPOUT_HEADER, RunFolder

MAX_ROWS = 4000  # of a layer in dropout.csv and in memory
log = logging.getLogger(__name__)


class ProbabilityMonitor(pl.Callback):
    """Records p of every dropout layer at step 0, at every logging step and at the end of the fit.

    Leaves ``dropout.csv`` and ``convergence.json``; scalars ``dropout_p/<layer>`` for the loggers; charts over steps
    and over depth. Fixed layers are recorded and never warned about; layers of kind "none" are left out.
    A resumed run continues the table of the run that it resumes, from the step of the checkpoint on. When a layer has
    too many rows, every second one is thrown away, and those that follow come half as often: a run of any length
    has a table of bounded size. Loggers get every logging step.

    Args:
        folder: the run folder.
        low: a learned p below it is warned about, once per layer.
        high: a learned p above it, too.
        tolerance: largest change of p over the last fifth of the steps that counts as converged.
        relative_tolerance: the same as a part of p (see ``convergence.Criterion``).
        chart_every_n_steps: how often the charts are logged before the end; 0 for at the end only.
        max_rows: of a layer in the table.
    """

    def __init__(
        self,
        folder: str | Path,
        low: float = 1e-3,
        high: float = 0.6,
        tolerance: float = 0.02,
        relative_tolerance: float = 0.2,
        chart_every_n_steps: int = 1000,
        max_rows: int = MAX_ROWS,
    ) -> None:
        if chart_every_n_steps < 0:
            raise ValueError(f"chart_every_n_steps={chart_every_n_steps} must be at least 0")
        if max_rows < 2:
            raise ValueError(f"max_rows={max_rows} must be at least 2")
        self.folder = RunFolder(folder)
        self.criterion = Criterion(tolerance, relative_tolerance, low=low, high=high)
        self.chart_every_n_steps, self.max_rows = chart_every_n_steps, max_rows
        self._stride = 1  # logging steps from one row of the table to the next
        self._initial: dict[str, float] = {}
        self._history: dict[str, tuple[list[int], list[float]]] = {}
        self._last_step = -1
        self._warned: set[str] = set()

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Keep p as the model was built: a checkpoint is loaded after this."""
        if stage == "fit":
            self._initial = {row.module: row.p for row in active_layers(pl_module)}

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Take up the table of a run that is resumed, and record where this one starts."""
        self._history, self._last_step, self._stride = {}, -1, 1
        if trainer.is_global_zero:
            for row in cut_table(self.folder, DROPOUT, DROPOUT_HEADER, before=trainer.global_step):
                self._remember(int(row["step"]), row["layer"], float(row["p"]))
            for steps, _ in self._history.values():
                self._stride = stride_of(steps, logging_interval(trainer))
        if not self._history:  # one that goes on has the rows of an undisturbed run, whatever step it was stopped at
            self._record(trainer, pl_module)

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Record p after every n-th step; why not in ``on_train_batch_end``, see ``callbacks.loggers``."""
        step, every = trainer.global_step, logging_interval(trainer)
        if step == self._last_step:
            return
        if every and step % every == 0:
            self._record(trainer, pl_module, keep=step % (every * self._stride) == 0)
        if self.chart_every_n_steps and step > 0 and step % self.chart_every_n_steps == 0:
            self._record(trainer, pl_module)
            self._log_charts(trainer)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Record the last p, judge whether it has converged, log the charts."""
        if not trainer.is_global_zero:
            return
        self._record(trainer, pl_module)
        learned = {row.module for row in active_layers(pl_module) if row.kind == "concrete"}
        pace = logit_pace(trainer)
        results = {
            name: convergence(
                steps,
                ps,
                learned=name in learned,
                initial=self._initial_of(name),
                criterion=self.criterion,
                pace=pace,
            )
            for name, (steps, ps) in self._history.items()
        }
        self.folder.write_json(
            CONVERGENCE,
            {
                "layers": {name: result.as_dict() for name, result in results.items()},
                "converged": all(result.converged for result in results.values()),
                "criterion": str(self.criterion),
            },
        )
        self._warn_of_movement(results)
        self._log_charts(trainer)
        if results:
            rows = [(name, *result.as_dict().values()) for name, result in results.items()]
            columns = ["layer", *next(iter(results.values())).as_dict()]
            log_table(trainer, "dropout_p", columns, rows, trainer.global_step)

    def _record(self, trainer: pl.Trainer, task: pl.LightningModule, keep: bool = True) -> None:
        step = trainer.global_step
        if not trainer.is_global_zero or step == self._last_step:
            return
        layers = active_layers(task)
        self._last_step = step
        if not layers:
            return
        log_scalars(trainer, {f"dropout_p/{row.module}": row.p for row in layers}, step)
        for row in layers:
            if row.kind == "concrete":
                self._warn_of_saturation(row.module, row.p, step)
        if not keep:
            return
        self.folder.append_rows(DROPOUT, DROPOUT_HEADER, [(step, row.module, row.p) for row in layers])
        for row in layers:
            self._remember(step, row.module, row.p)
        if max(len(steps) for steps, _ in self._history.values()) > self.max_rows:
            self._thin()

    def _thin(self) -> None:
        """Throw away every second row, on disk too."""
        self._stride *= 2
        self._history = {layer: thinned(*history) for layer, history in self._history.items()}
        rows = [(step, layer, p) for layer, pair in self._history.items() for step, p in zip(*pair, strict=True)]
        replace_table(self.folder, DROPOUT, DROPOUT_HEADER, sorted(rows, key=lambda row: row[0]))

    def _remember(self, step: int, layer: str, p: float) -> None:
        steps, ps = self._history.setdefault(layer, ([], []))
        steps.append(step)
        ps.append(p)

    def _initial_of(self, layer: str) -> float:
        steps, ps = self._history[layer]
        # A run resumed in a new folder has no row at step 0.
        return ps[0] if steps[0] == 0 else self._initial.get(layer, ps[0])

    def _warn_of_saturation(self, layer: str, p: float, step: int) -> None:
        side = self.criterion.saturated(p)
        if side is None or layer in self._warned:
            return
        self._warned.add(layer)
        meaning = "its dropout is practically off" if side == "low" else "most of its input is dropped"
        bound = f"below {self.criterion.low:g}" if side == "low" else f"above {self.criterion.high:g}"
        log.warning("dropout p of %s is saturated at step %d: %.2g is %s, %s.", layer, step, p, bound, meaning)

    def _warn_of_movement(self, results: dict[str, Convergence]) -> None:
        for name, result in results.items():
            if result.converged:
                continue
            change, drift = result.change_last_fifth, result.drift
            moved = (
                "cannot be judged" if change is None else f"changed by {change:+.3f} over the last fifth of the steps"
            )
            if change is not None and drift is not None and abs(change) <= self.criterion.largest_change(result.final):
                moved += f", one way, at {abs(drift):.0%} of the speed that its learning rate allows"
            log.warning(
                "dropout p of %s has not converged: it is %.3f and %s. Train longer, or raise optim.p_lr.",
                name,
                result.final,
                moved,
            )

    def _log_charts(self, trainer: pl.Trainer) -> None:
        if not trainer.is_global_zero or not self._history:
            return
        from concrete_dropout.plots import probabilities as plots  # plotly takes half a second to import

        step = trainer.global_step
        names = list(self._history)
        final = [ps[-1] for _, ps in self._history.values()]
        initial = [self._initial_of(name) for name in names]
        title = "Dropout probability of each layer"
        log_lines(trainer, "dropout_p", self._history, title=title, x_name="step", step=step)
        log_figure(trainer, self.folder, "dropout_p_over_steps", plots.trajectories(self._history), step)
        log_figure(trainer, self.folder, "dropout_p_by_depth", plots.by_depth(names, final, initial), step)
