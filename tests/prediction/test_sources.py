from __future__ import annotations

from pathlib import Path

import pytest

from concrete_dropout.errors import UserError
from concrete_dropout.prediction.journal import NAME, Journal
from concrete_dropout.prediction.sources import Source, find_sources

PICTURES = (".jpg", ".png")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    names = "b/2.png b/10.png a.jpg B.PNG c.txt b/out/2_overlay.png .hidden/x.png b/.y.png d/a.png d/b/c.png"
    for name in names.split():
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def found(given: str, output: str = "results") -> list[str]:
    return [source.name for source in find_sources(given, "segmentation", PICTURES, Path(output))]


def test_a_folder_with_all_below_it_in_one_order(place: Path) -> None:
    names = ["B.PNG", "a.jpg", "b/10.png", "b/2.png", "d/a.png", "d/b/c.png"]
    assert found("in", "in/b/out") == names
    assert found(str(place / "in"), "in/b/out") == names


def test_patterns_and_files(place: Path) -> None:
    assert found("in/b/*.png") == ["10.png", "2.png"]
    assert found("in/**/c.png") == ["d/b/c.png"]
    assert found("in/*/[0-9]*.png", output="in/d") == ["b/10.png", "b/2.png"]
    assert found("in/b/*.png", output="in") == ["10.png", "2.png"]  # results go beside, not among them
    assert found("in/a.jpg", output="in") == ["a.jpg"]


@pytest.mark.parametrize("given", ["in/b", "in/b/*.png"])
def test_results_among_the_inputs_are_refused(place: Path, given: str) -> None:
    with pytest.raises(UserError, match=r"output=in/b is the folder of the inputs"):
        found(given, output="in/b")


def test_what_counts_as_finished(tmp_path: Path) -> None:
    source = Source(tmp_path / "a", "a", size=3, mtime_ns=5)
    (tmp_path / "a_mask.png").touch()
    Journal(tmp_path, "settings").add(source, {"n": 1}, ["a_mask.png"])
    assert Journal(tmp_path, "settings").values(source) == {"n": 1}
    assert Journal(tmp_path, "others").values(source) is None
    for changed in (Source(source.path, "a", 4, 5), Source(source.path, "a", 3, 6), Source(source.path, "b", 3, 5)):
        assert Journal(tmp_path, "settings").values(changed) is None
    (tmp_path / "a_mask.png").unlink()
    assert Journal(tmp_path, "settings").values(source) is None


def test_a_journal_that_was_cut_or_damaged_goes_on(tmp_path: Path) -> None:
    first, second = (Source(tmp_path / name, name, 1, 1) for name in "ab")
    Journal(tmp_path, "s").add(first, {"n": 1})
    with (tmp_path / NAME).open("ab") as file:
        file.write(b'\xff\n[1]\n3\n{"name": "b", "id": [1')
    Journal(tmp_path, "s").add(second, {"n": 2})
    journal = Journal(tmp_path, "s")
    assert (journal.values(first), journal.values(second)) == ({"n": 1}, {"n": 2})
