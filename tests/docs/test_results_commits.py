"""Every commit that a row names is in the history, or the page says after which one it was made."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.docs import result_runs as runs
from tests.docs.test_results_page import cells, place_of, section
from tools.measured.command import add
from tools.measured.commits_section import FILE, TITLE, all_rows, commit_of, read_places
from tools.measured.page import PAGE, RESULTS, made

from concrete_dropout.errors import UserError

ROOT = Path(__file__).parents[2]


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def history() -> list[str]:
    """Full names of all commits; skips where there is no whole history."""
    try:
        if git("rev-parse", "--is-shallow-repository") == "true":
            pytest.skip("the clone is shallow")
        return git("rev-list", "HEAD").splitlines()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no clone")


def test_commits_of_all_rows_are_known() -> None:
    known = history()
    places = read_places(ROOT / RESULTS)
    assert len(list(all_rows(ROOT / RESULTS))) > 1000
    for commit in {commit_of(row) for row in all_rows(ROOT / RESULTS)}:
        place = places.get(commit, commit)
        assert any(name.startswith(place) for name in known), f"{commit} is neither in the history nor in {FILE}"


def test_the_page_says_after_which_commit_rows_were_made(tmp_path: Path) -> None:
    root = place_of(tmp_path / "project")
    commits = ("aaaaaaa", "bbb+")
    add(root / RESULTS, [runs.mnist(tmp_path / c, seed, commit=c) for seed, c in enumerate(commits)])
    assert TITLE not in made(root)[root / PAGE]
    (root / RESULTS / FILE).write_text("commit,after\nbbb,ccccccc\nddd,ccccccc\n")
    text = section(made(root)[root / PAGE], TITLE)
    assert cells(text, "`bbb`") == ["`bbb`", "`ccccccc`", "1"]
    assert "ddd" not in text  # no row has it
    (root / RESULTS / FILE).write_text("commit,after\nbbb,\n")
    with pytest.raises(UserError, match=r"commits\.csv, line 2"):
        made(root)
