"""From checkpoints to networks with their data: what their runs were made of, with ``data.*`` as given here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf
from torch.utils.data import DataLoader

from concrete_dropout.callbacks import AtomicCheckpointIO
from concrete_dropout.cli import build
from concrete_dropout.cli.agent_build import AGENT
from concrete_dropout.cli.checkpoint import CONFIG_KEY, check_checkpoint
from concrete_dropout.cli.checkpoint_files import find_checkpoint
from concrete_dropout.cli.compose import compose_config, plain
from concrete_dropout.cli.evaluation_request import Request
from concrete_dropout.cli.networks import build_task, without_downloads
from concrete_dropout.cli.replicated import build_replicas
from concrete_dropout.cli.saved_config import of_this_version, saved_config
from concrete_dropout.cli.trust import Trust, trusted_config
from concrete_dropout.cli.typecheck import check_node, closest
from concrete_dropout.data import ExperimentData, Part
from concrete_dropout.data.batches import as_is
from concrete_dropout.data.shifts import REPLACEMENTS, OtherData
from concrete_dropout.errors import UserError
from concrete_dropout.evaluation import Member, Subject
from concrete_dropout.tasks import RegressionTask
from concrete_dropout.tasks.base import Task
from concrete_dropout.tasks.m_step_rows import M_STEP_ROWS
from concrete_dropout.tasks.replicas import ReplicatedTask


def is_agent(path: Path) -> bool:
    """Whether a checkpoint holds an agent rather than a network.

    Raises:
        UserError: it cannot be read, or is of neither.
    """
    saved = AtomicCheckpointIO().load_checkpoint(path)
    if CONFIG_KEY in saved and (AGENT in saved or "state_dict" in saved):
        return AGENT in saved
    own = path.absolute().parents[1]
    hint = f": take ckpt={own.parents[1]} replica={own.name}" if own.parent.name == "replicas" else ""
    raise UserError(f"ckpt={path} is no checkpoint of an agent or of a network that train.py has trained{hint}")


def load_subjects(request: Request, device: torch.device, trust: Trust) -> list[Subject]:
    """The networks of all checkpoints with their data.

    Args:
        request: which, and what of their data is to be different.
        device: where the networks shall be.
        trust: what the configs of the checkpoints may name.

    Raises:
        UserError: a checkpoint, a data.* key or a replica that does not fit.
    """
    paths = [find_checkpoint(path) for path in request.ckpt]
    named = zip(paths, names_of(paths), strict=True)
    subjects = [subject for path, name in named for subject in _of(path, name, request, device, trust)]
    kinds = {type(subject.task).__name__ for subject in subjects}
    if len(kinds) > 1:
        raise UserError(
            f"ckpt: the checkpoints are of different tasks ({', '.join(sorted(kinds))}): take them one by one"
        )
    if not request.ensemble:
        return subjects
    if len(subjects) < 2:
        raise UserError("ensemble=true needs several members: name more checkpoints, as in ckpt=RUN_A,RUN_B")
    members = tuple(member for subject in subjects for member in subject.members)
    facts = {
        "group": f"ensemble of {len(members)}",
        "checkpoint": ", ".join(dict.fromkeys(s.facts["checkpoint"] for s in subjects)),
    }
    dropout = ", ".join(sorted({s.facts["dropout"] for s in subjects}))
    return [Subject(f"ensemble of {len(members)}", members, {**subjects[0].facts, **facts, "dropout": dropout})]


def names_of(paths: list[Path]) -> list[str]:
    """A short name for each: that of the run's folder, with as many folders around it as tell them apart.

    >>> names_of([Path("/a/none/checkpoints/last.ckpt"), Path("/a/fixed/checkpoints/best.ckpt")])
    ['none', 'fixed/best']
    """
    whole = [(*path.absolute().parent.parent.parts, *([] if path.stem == "last" else [path.stem])) for path in paths]
    for length in range(1, max(map(len, whole)) + 1):
        names = ["/".join(p[-length - (path.stem != "last") :]) for p, path in zip(whole, paths, strict=True)]
        if len(set(names)) == len(names):
            return names
    raise UserError("ckpt names the same checkpoint twice")


def other_data(request: Request, subject: Subject, part: Part, conf_dir: Path) -> dict[str, OtherData]:
    """The data sets among ``ood``, by name; of each at most as many items as the part that they are told from has."""
    sets = sorted(path.stem for path in (conf_dir / "data").glob("*.yaml") if path.stem != "transitions")
    own, found, used = subject.members[0].data, {}, set[str]()
    for name in request.ood:
        if name in REPLACEMENTS:
            if isinstance(subject.task, RegressionTask) and name != "noise":
                raise UserError(f"ood={name} is for pictures: of tables there is noise, or another data set")
            continue
        if name not in sets:
            raise UserError(f"ood={name} is unknown. {closest(name, [*REPLACEMENTS, *sets])}")
        cfg = compose_config(["~experiment", f"data={name}"], conf_dir)
        if "data_dir" in cfg.data and subject.facts.get("data_dir"):
            cfg.data.data_dir = subject.facts["data_dir"]
        settings = {key: value for key, value in request.ood_data.items() if key.partition(".")[2] in cfg.data}
        _override(cfg.data, settings, "ood")
        used |= set(settings)
        missing = next((key for key in cfg.data if OmegaConf.is_missing(cfg.data, key)), None)
        if missing:
            raise UserError(f"ood={name} needs ood.{missing}=...")
        check_node("ood", plain(cfg)["data"], get_object)
        found[name] = OtherData(build.build_data(cfg), most=subject.num_items(part))
        next(found[name].batches(own))  # what does not fit is refused here rather than after hours
    unused = sorted(set(request.ood_data) - used)
    if unused:
        raise UserError(f"{unused[0]} is a setting of none of the data sets in ood={','.join(request.ood) or 'null'}")
    return found


def _of(path: Path, name: str, request: Request, device: torch.device, trust: Trust) -> list[Subject]:
    saved = AtomicCheckpointIO().load_checkpoint(path)
    cfg = saved_config(path, saved, trusted_config(saved[CONFIG_KEY], f"ckpt={path}", trust))
    _override(cfg.data, request.data, "data")
    check_node("data", plain(cfg)["data"], get_object)
    cfg = without_downloads(cfg)
    if request.threads is not None:
        cfg.threads = request.threads
    facts = {
        "group": name,
        "checkpoint": str(path),
        "experiment": cfg.name,
        "dropout": cfg.dropout.kind,
        "seed": cfg.seed,
        "data_dir": cfg.data.get("data_dir"),
    }
    if cfg.get("replicas", {}).get("grid") is not None:
        return _replicas(path, name, cfg, saved, facts, request, device)
    if request.replica is not None:
        raise UserError(f"replica={_listed(request.replica)}: {path} is of one network, not of replicas")
    build.set_out(cfg)
    data = build.build_data(cfg)
    with of_this_version(path, saved):
        task = build_task(cfg, data)
    check_checkpoint(path, task, plain(cfg))
    task.load_state_dict(saved["state_dict"])
    return [_subject(name, task, data, facts, device)]


def _replicas(
    path: Path,
    name: str,
    cfg: DictConfig,
    saved: Mapping[str, Any],
    facts: dict[str, Any],
    request: Request,
    device: torch.device,
) -> list[Subject]:
    labels, replicas = build_replicas(cfg, path.absolute().parent.parent)
    build.set_out(cfg)
    task = ReplicatedTask([own for _, own in replicas])
    check_checkpoint(path, task, plain(cfg))
    task.load_state_dict(saved["state_dict"])
    task.write_back()
    chosen = range(len(replicas)) if request.replica is None else request.replica
    for index in chosen:
        if index >= len(replicas):
            raise UserError(f"replica={index} does not exist: {path} has replicas 0 to {len(replicas) - 1}, or all")
    found = []
    for index in chosen:
        data, own = replicas[index]
        label = ", ".join(f"{key}={value}" for key, value in labels[index].items())
        found.append(
            _subject(f"{name}, replica {index}", own, data, {**facts, "replica": index, "label": label}, device)
        )
    return found


def _subject(name: str, task: Task, data: ExperimentData, facts: dict[str, Any], device: torch.device) -> Subject:
    task.to(device).eval()
    if isinstance(task, RegressionTask) and task.final_m_step and task.noise is not None and not task.noise.is_final:
        part = "val" if "val" in data.parts else "train"  # as before a test of weights that had none
        rows: Any = data.items(part)  # type: ignore[attr-defined]
        task.take_final_m_step(DataLoader(rows, M_STEP_ROWS, collate_fn=as_is), max(task.val_samples, 1))
    return Subject(name, (Member(task, data, name),), facts)


def _override(node: DictConfig, settings: Mapping[str, str], prefix: str) -> None:
    """Set keys of a data config that it has."""
    for key, text in settings.items():
        name = key.partition(".")[2]
        if name not in node or name.startswith("_"):
            raise UserError(f"{prefix}.{name} is unknown. {closest(name, [k for k in map(str, node) if k[0] != '_'])}")
        try:
            # A path may have characters that mean something in YAML.
            is_path = isinstance(node.get(name), str) and text and Path(text).exists()
            node[name] = text if is_path else OmegaConf.from_dotlist([f"value={text}"]).value
        except Exception as error:  # of the YAML parser
            raise UserError(f"{key}={text} is not understood: quote a value that has special characters") from error


def _listed(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))
