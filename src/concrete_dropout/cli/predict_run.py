"""What python predict.py does once its command line is understood."""

from __future__ import annotations

import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import torch

from concrete_dropout.cli.paths import shortest
from concrete_dropout.cli.predict import FAILED, INTERRUPTED, Request
from concrete_dropout.cli.saved_model import SavedModel, load_saved_model
from concrete_dropout.cli.stopped import by_what
from concrete_dropout.cli.trust import Trust
from concrete_dropout.data.picture_file import SUFFIXES as PICTURES
from concrete_dropout.data.recipes import PictureRecipe, SceneRecipe, TableRecipe
from concrete_dropout.errors import UserError
from concrete_dropout.folderlock import alone_in
from concrete_dropout.memory import GB
from concrete_dropout.prediction.journal import Journal
from concrete_dropout.prediction.outcome import Predictor
from concrete_dropout.prediction.pictures import PicturePredictor
from concrete_dropout.prediction.run import Tally, predict_all, table_of
from concrete_dropout.prediction.scenes import ScenePredictor
from concrete_dropout.prediction.settings import MissingRows, Settings, UnknownCategories
from concrete_dropout.prediction.sources import TABLES, Source, find_sources, stems
from concrete_dropout.prediction.tables import TablePredictor
from concrete_dropout.runfolder import RunFolder, new_folder
from concrete_dropout.signals import Terminated
from concrete_dropout.tasks import ClassificationTask, RegressionTask, SegmentationTask, Task

TABLE, SUMMARY, CLASSES = "predictions.csv", "predictions.json", "classes.csv"
SHOWN = 10  # refused files that the terminal names


def predict(request: Request, trust: Trust) -> int:
    """Predict all files; returns the exit code."""
    torch.set_flush_denormal(True)  # as in training: weights that a prior has pulled to nothing are 0, and no slower
    model = load_saved_model(request.ckpt, trust)
    model.task.to(_device(request.device))
    settings = settings_of(request, model)
    folder = request.output or model.run_folder / "predictions" / f"{datetime.now():%Y-%m-%d_%H-%M-%S-%f}"
    if folder.is_file():
        raise UserError(f"output={folder} is a file: name a folder")
    suffixes = TABLES if isinstance(model.recipe, TableRecipe) else PICTURES
    sources = find_sources(str(request.input), model.recipe.kind, suffixes, folder)
    model.task.mask = settings.mask
    if request.output is None:
        folder = new_folder(folder)
    with alone_in(folder, "name another folder with output=...", is_new=request.output is None):
        RunFolder(folder).remove_unfinished()
        predictor = predictor_of(model, settings, folder, sources, request.memory)
        _print_start(model, settings, sources, folder)
        journal = Journal(folder, settings.fingerprint(model.sha256))
        try:
            tally = predict_all(predictor, sources, journal, request.strict)
            _write(folder, request, model, settings, sources, tally)
        except (KeyboardInterrupt, Terminated) as stop:
            place = shlex.quote(f"output={shortest(folder)}")
            way_on = f"The same command with {place} goes on; finished files are left alone"
            print(f"\nStopped {by_what(stop)}. {way_on}.", file=sys.stderr)
            return stop.exit_code if isinstance(stop, Terminated) else INTERRUPTED
    _print_end(folder, tally, len(sources))
    return FAILED if tally.refused else 0


def deploy(request: Request, trust: Trust) -> int:
    """Write the network for use without this package; returns the exit code."""
    from concrete_dropout.deployment.package import deploy_task

    model = load_saved_model(request.ckpt, trust)
    folder = request.output or model.run_folder / "deploy"
    for line in deploy_task(model.task, model.recipe, folder, str(model.config.get("name", ""))):
        print(line)
    return 0


def settings_of(request: Request, model: SavedModel) -> Settings:
    """The settings, with those of the run where the command names none."""
    task, recipe = model.task, model.recipe
    trained = "mean" if isinstance(recipe, TableRecipe) and recipe.missing == "mean" else "error"
    return Settings(
        samples=task.test_samples if request.mc_samples is None else request.mc_samples,
        mask=task.mask if request.mask is None else cast(Any, request.mask),
        seed=request.seed,
        interval=request.interval,
        max_size=request.max_size,
        raw=request.raw,
        missing=cast(MissingRows, request.missing or trained),
        unknown=cast(UnknownCategories, request.unknown),
    )


def predictor_of(
    model: SavedModel, settings: Settings, folder: Path, sources: list[Source], memory: float | None
) -> Predictor:
    """What predicts files for this network."""
    task, recipe, names, output = model.task, model.recipe, stems(sources), RunFolder(folder)
    if isinstance(recipe, TableRecipe) and isinstance(task, RegressionTask):
        return TablePredictor(task, recipe, settings, output, names)
    if isinstance(recipe, PictureRecipe) and isinstance(task, ClassificationTask):
        return PicturePredictor(task, recipe, settings)
    if isinstance(recipe, SceneRecipe) and isinstance(task, SegmentationTask):
        limit = None if memory is None else int(memory * GB)
        return ScenePredictor(task, recipe, settings, output, names, limit)
    raise UserError(f"ckpt={model.path} is of a {type(task).__name__}, which predict.py does not know")


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"device={name} is not here: torch sees {torch.cuda.device_count()} GPUs. Use device=cpu")
    return device


def _write(
    folder: Path, request: Request, model: SavedModel, settings: Settings, sources: list[Source], tally: Tally
) -> None:
    files = RunFolder(folder)
    files.write_text(TABLE, table_of(sources, tally.rows))
    recipe = model.recipe
    if isinstance(recipe, SceneRecipe):
        lines = [
            ",".join(map(str, (_quoted(name), label, *colour)))
            for label, (name, colour) in enumerate(zip(recipe.class_names, recipe.class_colours, strict=True))
        ]
        files.write_text(CLASSES, "\n".join(["name,label,r,g,b", *lines]) + "\n")
    files.write_json(
        SUMMARY,
        {
            "checkpoint": str(model.path),
            "sha256": model.sha256,
            "input": request.input,
            "kind": recipe.kind,
            "settings": vars(settings),
            "files": len(sources),
            "predicted": len(tally.rows),
            "refused": tally.refused,
        },
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if any(c in name for c in ',"\n') else name


def _print_start(model: SavedModel, settings: Settings, sources: list[Source], folder: Path) -> None:
    passes = f"{settings.samples} stochastic passes" if settings.samples else "one pass without dropout"
    if settings.samples and not _is_stochastic(model.task):
        passes = "one pass: the network has no dropout, and no epistemic uncertainty"
    print(f"{model.recipe.kind} network {shortest(model.path)}, {passes}")
    print(f"{len(sources)} file{'s' * (len(sources) > 1)} -> {shortest(folder)}", flush=True)


def _is_stochastic(task: Task) -> bool:
    from concrete_dropout.callbacks.network import active_layers

    return bool(active_layers(task))


def _print_end(folder: Path, tally: Tally, total: int) -> None:
    found = f", {tally.found} of them before" if tally.found else ""
    own = [str(row["predictions"]) for row in tally.rows.values() if "predictions" in row]  # of tables
    place = shortest(folder / (own[0] if len(own) == 1 else TABLE))
    print(f"{len(tally.rows)} of {total} predicted{found}: {place}")
    if tally.refused:
        print(f"\n{len(tally.refused)} refused:", file=sys.stderr)
        for name, reason in list(tally.refused.items())[:SHOWN]:
            print(f"  {name}: {reason}", file=sys.stderr)
        if len(tally.refused) > SHOWN:
            print(f"  and {len(tally.refused) - SHOWN} more: see {shortest(folder / SUMMARY)}", file=sys.stderr)
