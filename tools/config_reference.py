"""The configuration reference, from the YAML files of conf/ themselves: every group, choice, key, default and comment.

Text in, Markdown out: ``tools/docs_hook.py`` hands the pages to mkdocs. Comments are read beside the keys that they
explain, so that nothing has to be written twice.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

TOP = "train.yaml"
REQUIRED = "???"
GLOBAL = ("experiment", "sweep")  # their files set keys of all groups, by full names
HIDDEN = ("help.", "_partial_")  # a long text, and how something is built rather than what
ABOUT = {
    "agent": "What a reinforcement-learning agent does; `none` for experiments on data.",
    "callbacks": "What watches a run and writes its files.",
    "data": "What is learned from.",
    "dropout": "The flag: no dropout, a fixed p, or a p that every layer learns.",
    "env": "The world of an agent.",
    "experiment": "Settings of all groups that belong together. Its values win over those of the groups.",
    "hydra": "Folders and logging of the config system.",
    "hydra/launcher": "Where the jobs of a sweep run, beside the launchers that are plugins of the config system.",
    "logger": "Where metrics go beside the run folder.",
    "model": "The network.",
    "optim": "The optimiser, with a learning rate of its own for the p logits.",
    "paths": "Folders.",
    "policy": "The policies that an agent searches.",
    "replicas": "Several splits, seeds or settings as one batched model.",
    "sweep": "Several runs with one command and one report (`-m`).",
    "task": "The likelihood, the objective and the numbers of stochastic passes.",
    "trainer": "Devices, steps and limits: arguments of Lightning's Trainer.",
}


@dataclass(frozen=True)
class Entry:
    """One key of a file: dotted name, default as it is written, and the comment behind it."""

    key: str
    default: str
    comment: str


@dataclass(frozen=True)
class Choice:
    """One YAML file: its name, the comment at its beginning, its defaults list, its keys."""

    name: str
    about: tuple[str, ...]
    defaults: tuple[str, ...]
    entries: tuple[Entry, ...]


def read_choice(path: Path) -> Choice:
    """A YAML file with its comments.

    Raises:
        ValueError: where the file is no mapping.
    """
    text = path.read_text(encoding="utf-8")
    node = yaml.compose(text)
    if not isinstance(node, yaml.MappingNode):
        raise ValueError(f"{path} is no mapping of keys to values")
    about = [line.removeprefix("#").strip() for line in _head(text)]
    return Choice(
        name=path.stem,
        about=tuple(line for line in about if not line.startswith("@package")),
        defaults=tuple(_defaults(yaml.safe_load(text).get("defaults") or [])),
        entries=tuple(entry for entry in _entries(node, text.splitlines(), "") if _is_shown(entry)),
    )


def read_groups(conf: Path) -> dict[str, list[Choice]]:
    """All groups below ``conf`` with their choices, the one that is chosen by default first.

    A folder inside a group (``hydra/launcher``) is a group of its own.
    """
    chosen = dict(_pairs(yaml.safe_load((conf / TOP).read_text(encoding="utf-8"))["defaults"]))
    groups: dict[str, list[Choice]] = {}
    for folder in sorted(path for path in conf.rglob("*") if path.is_dir()):
        choices = [read_choice(path) for path in sorted(folder.glob("*.yaml"))]
        name = folder.relative_to(conf).as_posix()
        if choices:
            groups[name] = sorted(choices, key=lambda choice: choice.name != chosen.get(name))
    return groups


def pages(conf: Path) -> dict[str, str]:
    """Markdown of every page by its name: ``index``, and one for each group."""
    groups = read_groups(conf)
    top = read_choice(conf / TOP)
    chosen = dict(entry.split(": ", 1) for entry in top.defaults if ": " in entry)
    made = {"index": _index(top, groups, chosen)}
    for group, choices in groups.items():
        made[page_name(group)] = _group(group, choices, chosen.get(group))
    return made


def page_name(group: str) -> str:
    """Name of a group's page.

    >>> page_name("hydra/launcher")
    'hydra-launcher'
    """
    return group.replace("/", "-")


def _index(top: Choice, groups: dict[str, list[Choice]], chosen: dict[str, str]) -> str:
    lines = [
        "# Configuration reference",
        "",
        "This page and those of the groups are made from the files of `conf/`: what you read here is what runs.",
        "`python train.py --cfg job` prints the whole config of a command, `group=CHOICE` takes another file of a",
        "group, `key=value` changes a key. What is unknown is refused with what there is instead.",
        "",
        "## Groups",
        "",
        "| group | default | choices | what it decides |",
        "| --- | --- | --- | --- |",
    ]
    for group, choices in groups.items():
        names = ", ".join(f"`{name}`" for name in sorted(choice.name for choice in choices))
        default = f"`{chosen[group]}`" if group in chosen else ""
        lines.append(f"| [`{group}`]({page_name(group)}.md) | {default} | {names} | {ABOUT.get(group, '')} |")
    return "\n".join([*lines, "", "## Keys of the top level", "", *_table(top.entries), ""])


def _group(group: str, choices: list[Choice], chosen: str | None) -> str:
    lines = [f"# {group}", "", *([ABOUT[group], ""] if group in ABOUT else [])]
    if chosen:
        also = "" if group == "experiment" else "; an experiment may choose another one"
        lines += [f"The default is `{group}={chosen}`{also}.", ""]
    choices = _with_full_keys(group, choices)
    for number, choice in enumerate(choices):
        lines += [f"## `{group}={choice.name}`", ""]
        for line in choice.about:
            command, _, rest = line.partition(": ") if line.startswith("python ") else ("", "", line)
            lines += [f"    {command}", ""] if command else []
            lines += [_escaped(rest), ""] if rest else []
        if choice.defaults:
            lines += ["Takes " + ", ".join(f"`{entry}`" for entry in choice.defaults) + ".", ""]
        lines += [*_body(choice, choices[:number]), ""]
    return "\n".join(lines)


def _with_full_keys(group: str, choices: list[Choice]) -> list[Choice]:
    """The choices with keys as one types them, and with the others' comment where a key has none and they agree."""
    if group in GLOBAL:
        return choices
    found: dict[str, set[str]] = {}
    for entry in (entry for choice in choices for entry in choice.entries if entry.comment):
        found.setdefault(entry.key, set()).add(entry.comment)
    known = {key: comments.pop() for key, comments in found.items() if len(comments) == 1}
    start = group.replace("/", ".")
    return [
        replace(
            choice,
            entries=tuple(
                Entry(f"{start}.{entry.key}", entry.default, entry.comment or known.get(entry.key, ""))
                for entry in choice.entries
            ),
        )
        for choice in choices
    ]


def _body(choice: Choice, earlier: list[Choice]) -> list[str]:
    """The table of a choice; of one with the keys of an earlier one, only what differs."""
    keys = [entry.key for entry in choice.entries]
    like = next((other for other in earlier if keys and [entry.key for entry in other.entries] == keys), None)
    if like is None:
        return _table(choice.entries) if choice.entries else ["No keys."]
    changed = [
        entry for entry, other in zip(choice.entries, like.entries, strict=True) if entry.default != other.default
    ]
    if not changed:
        return [f"As `{like.name}`."]
    return [f"As `{like.name}`, but:", "", *_table(changed)]


def _table(entries: tuple[Entry, ...] | list[Entry]) -> list[str]:
    built = [entry.default for entry in entries if _is_target(entry)]
    lines = ["Builds nothing." if name == "null" else f"Builds `{name}`." for name in built]
    lines += [""] if lines else []
    keys = [entry for entry in entries if not _is_target(entry)]
    lines += ["| key | default | meaning |", "| --- | --- | --- |"] if keys else []
    for entry in keys:
        shown = "**required**" if entry.default == REQUIRED else _code(entry.default)
        lines.append(f"| `{entry.key}` | {shown} | {_escaped(entry.comment)} |")
    return lines


def _is_target(entry: Entry) -> bool:
    """Whether it names what a whole group builds; of a part of a group, it stays a key."""
    return entry.key.endswith("._target_") and entry.key.count(".") == 1


def _head(text: str) -> Iterator[str]:
    """The comment lines in front of the first key."""
    for line in text.splitlines():
        if not line.startswith("#"):
            return
        yield line


def _pairs(defaults: list[Any]) -> Iterator[tuple[str, str]]:
    for entry in defaults:
        if isinstance(entry, dict):
            for key, value in entry.items():
                yield str(key).removeprefix("override ").lstrip("/"), str(value)


def _defaults(defaults: list[Any]) -> Iterator[str]:
    for entry in defaults:
        if isinstance(entry, dict):
            yield from (f"{key}: {value}" if key != value else key for key, value in _pairs([entry]))
        elif entry != "_self_":
            yield str(entry)


def _entries(node: yaml.MappingNode, lines: list[str], prefix: str) -> Iterator[Entry]:
    for key, value in node.value:
        name = f"{prefix}{key.value}"
        if name == "defaults":
            continue
        if isinstance(value, yaml.MappingNode) and not value.flow_style:
            comment = _behind(lines, key.end_mark.line, key.end_mark.column + 1)
            inner = list(_entries(value, lines, f"{name}."))
            if comment and inner and inner[0].key.endswith("_target_"):
                inner[0] = replace(inner[0], comment=comment)
            yield from inner
        elif isinstance(value, yaml.ScalarNode) and value.style in ("|", ">"):
            yield Entry(name, "a text", "")
        else:
            yield Entry(name, _source(value, lines), _behind(lines, value.end_mark.line, value.end_mark.column))


def _source(value: yaml.Node, lines: list[str]) -> str:
    """A value as it is written, on one line."""
    first, last = value.start_mark, value.end_mark
    if first.line == last.line:
        return lines[first.line][first.column : last.column] if first.column < last.column else "null"
    inner = [lines[first.line][first.column :], *lines[first.line + 1 : last.line]]
    inner += [lines[last.line][: last.column]] if last.line < len(lines) else []
    return " ".join(re.sub(r"\s#.*", "", line).strip() for line in inner).strip()


def _behind(lines: list[str], line: int, column: int) -> str:
    rest = lines[line][column:].strip() if line < len(lines) else ""
    return rest[1:].strip() if rest.startswith("#") else ""


def _is_shown(entry: Entry) -> bool:
    return not any(entry.key.startswith(name) or entry.key.endswith(f".{name}") for name in HIDDEN)


def _code(text: str) -> str:
    return f"`{text}`".replace("|", r"\|") if text else ""


def _escaped(text: str) -> str:
    r"""Text as Markdown that shows it as it is, also in a table; what stands in backticks stays code.

    >>> _escaped("none | [layer4.*] <a>, `x_y`")
    'none \\| [layer4.\\*] &lt;a&gt;, `x_y`'
    """
    parts = re.split(r"(`[^`]*`)", text)
    outside = [re.sub(r"([*_|])", r"\\\1", html.escape(part, quote=False)) for part in parts[::2]]
    return "".join(part for pair in zip(outside, [*parts[1::2], ""], strict=True) for part in pair)
