"""Paths in Hydra's grammar: written, read, and taken as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from concrete_dropout.cli.overrides import override, text_of, with_literal_paths

ODD = ["a b", "a,b", "a=b", "[a]", "{a}", "it's", 'say "so"', "back\\slash\\", "#1", "größe 🚀", "null", "1e3", "a:b"]


@pytest.mark.parametrize("path", ODD)
def test_what_is_written_is_read(path: str) -> None:
    written = override("data.path", path)
    assert OverridesParser.create().parse_override(written).value() == path
    assert text_of(written) == path


@pytest.mark.parametrize("path", [path for path in ODD if path not in ("null", "1e3")])
def test_a_path_that_is_there_is_taken_literally(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(path).touch()
    (argument,) = with_literal_paths([f"data.path={path}"])
    assert OverridesParser.create().parse_override(argument).value() == path
    (place,) = with_literal_paths([f"hydra.run.dir=runs/{path}"])  # which need not be there
    assert OverridesParser.create().parse_override(place).value() == f"runs/{path}"


@pytest.mark.parametrize(
    "argument",
    [
        "data.cache_dir=null",
        "hydra.run.dir='already, quoted'",
        "hydra.run.dir=${paths.output_dir}/x",
        "data.root=not, there",
        "seed=1,2",
        "model.hidden=[8]",
        "-m",
        "~experiment",
        "data.path=",
    ],
)
def test_everything_else_stays(argument: str) -> None:
    assert with_literal_paths([argument]) == [argument]
