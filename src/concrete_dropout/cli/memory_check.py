"""Whether a training step can fit into memory, told before it is tried: systems end a process that takes too much."""

from __future__ import annotations

from typing import Any

from concrete_dropout.errors import UserError
from concrete_dropout.memory import GB, free_main_memory
from concrete_dropout.tasks import RegressionTask, Task
from concrete_dropout.tasks.m_step_rows import M_STEP_ROWS

PER_ROW = 64  # bytes beside the inputs: its place in the order, targets, outputs and their gradients


def check_memory(task: Task, data: Any) -> None:
    """Refuse a batch whose inputs alone would not fit, or more samples than an M step can hold.

    Args:
        task: with its numbers of samples.
        data: its data module.

    Raises:
        UserError: names the keys.
    """
    there = free_main_memory()
    row = data.example_input[0]
    rows = data.batch_size * max(task.train_samples, 1)
    need = rows * (row.nbytes + PER_ROW)
    if need > there:
        raise UserError(
            f"data.batch_size={data.batch_size} with task.train_samples={task.train_samples} makes {rows:,} rows of "
            f"{' x '.join(map(str, row.shape))} numbers a step, which take {need / GB:,.1f} GB before the network has "
            f"computed anything; {there / GB:.1f} may be used. Lower one of them"
        )
    if isinstance(task, RegressionTask) and task.final_m_step and task.noise is not None:
        need = max(task.val_samples, 1) * M_STEP_ROWS * task.targets.mean.numel() * PER_ROW
        if need > there:
            raise UserError(
                f"task.val_samples={task.val_samples}: the final M step would take {need / GB:,.1f} GB of memory, and "
                f"{there / GB:.1f} may be used. Lower it, or set task.final_m_step=false"
            )
