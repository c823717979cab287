"""Configs as flat settings: in parts, as a whole, and what is none."""

from __future__ import annotations

import pytest

from concrete_dropout.dashboard.flat import MAX_VALUE, flat_config


def test_blocks_of_all_kinds() -> None:
    text = "a: 1\nb:\n  c: [1, two]\n  d:\n    e: null\n    f: {}\n# words\ng: |\n  two\n  lines\nh: '#x'\n"
    expected = {"a": "1", "b.c": '[1, "two"]', "b.d.e": "null", "b.d.f": "{}", "g": "two\nlines\n", "h": "#x"}
    assert flat_config(text) == expected
    assert flat_config(text) == expected  # its parts are known now


def test_parts_that_refer_to_each_other() -> None:
    assert flat_config("a: &x {k: 1}\nb: *x\n") == {"a.k": "1", "b.k": "1"}
    assert flat_config("---\na: 1\n") == {"a": "1"}


def test_the_runs_own_folder_has_one_name() -> None:
    config = flat_config("paths:\n  run_dir: /o/run\n  output_dir: /o\ncallbacks:\n  keep: {folder: /o/run/x}\n")
    assert config == {"paths.run_dir": "RUN", "paths.output_dir": "/o", "callbacks.keep.folder": "RUN/x"}


def test_long_values_are_cut() -> None:
    assert len(flat_config(f"a: {'x' * 5000}")["a"]) == MAX_VALUE


@pytest.mark.parametrize("text", ["a: [1", "- 1\n- 2\n", "just words", "a: b: c", "\x00"])
def test_what_is_no_config_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        flat_config(text)
