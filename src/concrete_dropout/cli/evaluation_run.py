"""An evaluation from its request to its files: plan, passes with progress, tables and page; goes on after a kill."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from concrete_dropout.cli.checkpoint_files import find_checkpoint, sha256
from concrete_dropout.cli.evaluation_load import load_subjects, other_data
from concrete_dropout.cli.evaluation_plan import plan_of, wanted_of
from concrete_dropout.cli.evaluation_request import Request
from concrete_dropout.cli.evaluation_table import print_tables
from concrete_dropout.cli.facts import run_facts
from concrete_dropout.cli.paths import shortest
from concrete_dropout.cli.trust import Trust
from concrete_dropout.errors import UserError
from concrete_dropout.evaluation import Foreign, Plan, Store, Subject, Unit, evaluate_unit, planned_units
from concrete_dropout.folderlock import alone_in
from concrete_dropout.report.evaluation import build_evaluation_page
from concrete_dropout.runfolder import EVALUATION, EVALUATION_PAGE, EVALUATION_TABLE, new_folder
from concrete_dropout.tasks import ClassificationTask, SegmentationTask

FILE_WIDTH, DAY = 140, 86_400.0
Passes = list[tuple[Unit, Subject, int]]  # with their cost: batches times samples


class EvaluationStopped(BaseException):
    """By a signal; what is finished is on disk.

    Args:
        number: of the signal.
        folder: of the results.
    """

    def __init__(self, number: int, folder: Path) -> None:
        super().__init__(number)
        self.number, self.exit_code, self.folder = number, 128 + number, folder


def evaluate_networks(request: Request, conf_dir: Path) -> None:
    """Evaluate networks as the request says.

    Raises:
        UserError: the request does not fit the checkpoints or their data; nothing is written then.
        EvaluationStopped: by Ctrl-C or SIGTERM.
    """
    console = Console(highlight=False)
    if not console.is_terminal:  # a file, which has no edge that tables must be squeezed into
        console.width = FILE_WIDTH
    subjects = load_subjects(request, device_of(request.device), Trust(request.trust, conf_dir))
    plan = plan_of(request, subjects)
    foreign = other_data(request, subjects[0], plan.shift_part, conf_dir)
    passes = [
        (unit, subject, subject.num_batches(unit.part, foreign.get(unit.shift)) * max(max(unit.counts), 1))
        for subject in subjects
        for unit in planned_units(plan, [subject])
    ]
    folder = request.out or _new_folder(find_checkpoint(request.ckpt[0]))
    is_new = request.out is None
    with alone_in(folder, "name another folder with out=...", is_new=is_new), _stoppable(folder):
        store = Store(folder, facts_of(request, plan, subjects))
        _print_start(console, subjects, plan, request, folder, len(passes))
        try:
            store.files.remove_unfinished()
            store.write(state="running")
            _make(passes, plan, store, foreign, console)
            store.write(state="finished", ended=_now())
            build_evaluation_page(folder)
        except (KeyboardInterrupt, EvaluationStopped) as stop:
            _close(store, "stopped")
            raise EvaluationStopped(getattr(stop, "number", signal.SIGINT), folder) from None
        except BaseException:
            _close(store, "failed")
            raise
    print_tables(store.files.read_json(EVALUATION), console)
    console.print()
    for name, file in (("results", EVALUATION_TABLE), ("page", EVALUATION_PAGE)):
        console.print(f"{name:<12} {escape(shortest(folder / file))}", soft_wrap=True)


def _close(store: Store, state: str) -> None:
    """Say how an evaluation ended before its time; on a full disk, which may be the reason, there is no room for it."""
    with suppress(OSError):
        store.write(state=state, ended=_now())
        build_evaluation_page(store.files.path)


def device_of(name: str) -> torch.device:
    """Where networks run."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("device=cuda: there is no GPU here that torch can use; take device=cpu")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def facts_of(request: Request, plan: Plan, subjects: list[Subject]) -> dict[str, Any]:
    """What results.json says besides the results; "identity" must be the same to go on in a folder."""
    paths = [find_checkpoint(path) for path in request.ckpt]
    task = subjects[0].task
    kinds = {SegmentationTask: "segmentation", ClassificationTask: "classification"}
    return {
        "identity": {
            "checkpoints": [sha256(path)[:16] for path in paths],
            "data": request.data,
            "ood": request.ood_data,
            "seed": request.seed,
            "ensemble": request.ensemble,
        },
        "kind": next((word for kind, word in kinds.items() if isinstance(task, kind)), "regression"),
        "plan": asdict(plan),
        "subjects": [{"name": subject.name, **subject.facts} for subject in subjects],
        "started": _now(),
        "device": device_of(request.device).type,
        **run_facts(),
    }


def _make(passes: Passes, plan: Plan, store: Store, foreign: Foreign, console: Console) -> None:
    total = sum(cost for _, _, cost in passes)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    began, spent, due = time.monotonic(), 0, total
    # Remaining time from all that was done so far: a batch may take longer than the half minute rich looks back.
    with Progress(
        *columns,
        console=console,
        disable=not console.is_terminal,
        transient=True,
        speed_estimate_period=DAY,
    ) as bar:
        task = bar.add_task("", total=total)
        for unit, subject, cost in passes:
            bar.update(task, description=escape(unit.label))
            if store.is_done(unit, plan):
                bar.advance(task, cost)
                due -= cost
                continue
            wanted = wanted_of(unit, plan, store)
            outcome = evaluate_unit(subject, unit, wanted, plan.seed, foreign, lambda done: bar.advance(task, done))
            store.add(unit, outcome)
            spent += cost
            left = (time.monotonic() - began) / spent * (due - spent)
            line = f"{unit.label}: {outcome.record['seconds']:.1f} s"
            console.print(escape(line if console.is_terminal else f"{line}, about {left:.0f} s left"), style="dim")


def _new_folder(checkpoint: Path) -> Path:
    folder = checkpoint.absolute().parent.parent / "evaluations" / datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    above = next(path for path in folder.parents if path.exists())
    if not os.access(above, os.W_OK):
        raise UserError(f"{above} cannot be written to: name a folder for the results with out=...")
    return new_folder(folder)


def _print_start(
    console: Console, subjects: list[Subject], plan: Plan, request: Request, folder: Path, passes: int
) -> None:
    for subject in subjects[:8]:
        facts = subject.facts
        console.print(escape(f"{subject.name}: {facts['experiment']}, {facts['dropout']} dropout"), soft_wrap=True)
    if len(subjects) > 8:
        console.print(f"and {len(subjects) - 8} more")
    for key, value in request.data.items():
        console.print(escape(f"with {key}={value} in place of the run's own"), soft_wrap=True)
    if plan.sampled and not any(subject.is_stochastic for subject in subjects):
        console.print("no dropout is active: every number of samples is one pass, which is made once")
    console.print(escape(f"{passes} passes over data, results in {shortest(folder)}"), soft_wrap=True)


@contextmanager
def _stoppable(folder: Path) -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise EvaluationStopped(number, folder)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
