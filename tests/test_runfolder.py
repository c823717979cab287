from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from concrete_dropout.errors import as_user_error
from concrete_dropout.runfolder import RunFolder, new_folder, own_file, predictions_name


def test_json_comes_back_and_what_is_not_finite_is_null(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "new")
    value = {"a": [1.5, math.nan, (math.inf, "ü")], "b": {"c": -math.inf}, 3: None}
    assert folder.write_json("x.json", value) == tmp_path / "new" / "x.json"
    assert folder.read_json("x.json") == {"a": [1.5, None, [None, "ü"]], "b": {"c": None}, "3": None}
    json.loads((tmp_path / "new" / "x.json").read_text(), parse_constant=lambda name: pytest.fail(name))


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_json("x.json", {"old": 1})
    with pytest.raises(TypeError):
        folder.write_json("x.json", {"new": object()})
    with pytest.raises(UnicodeEncodeError):
        folder.write_text("x.json", "half \ud800")
    assert folder.read_json("x.json") == {"old": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["x.json"]


def test_bytes_are_written_as_they_are(tmp_path: Path) -> None:
    content = bytes(range(256))
    assert RunFolder(tmp_path).write_bytes("images/x.png", content).read_bytes() == content
    assert [file.name for file in (tmp_path / "images").iterdir()] == ["x.png"]


def test_a_reader_that_has_the_old_file_open_keeps_it(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with folder.write_text("x.txt", "old").open() as reader:
        folder.write_text("x.txt", "new")
        assert reader.read() == "old"
    assert (tmp_path / "x.txt").read_text() == "new"


def test_written_files_have_the_permissions_of_other_files(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    assert os.stat(RunFolder(tmp_path).write_text("x", "")).st_mode == os.stat(plain).st_mode


def test_keys_are_changed_and_others_kept(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.update_json("x.json", a=1) == {"a": 1}
    assert folder.update_json("x.json", b=2) == folder.read_json("x.json") == {"a": 1, "b": 2}


def test_rows_are_appended_under_one_header(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "new")
    folder.append_rows("x.csv", ("step", "name"), [(0, 'a,"b"'), (1, "two\nlines")])
    folder.append_rows("x.csv", ("step", "name"), [(2, math.nan)])
    expected = [{"step": "0", "name": 'a,"b"'}, {"step": "1", "name": "two\nlines"}, {"step": "2", "name": "nan"}]
    assert folder.read_table("x.csv") == expected


def test_what_is_missing_is_empty(tmp_path: Path) -> None:
    assert RunFolder(tmp_path).read_json("x.json") is None
    assert RunFolder(tmp_path).read_table("x.csv") == []
    assert predictions_name("val") == "predictions_val.csv"


@pytest.mark.parametrize("content", [None, "", "{", "[1]", "3"])
def test_a_record_is_empty_where_there_is_no_whole_object(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "x.json").write_text(content)
    assert RunFolder(tmp_path).read_record("x.json") == {}
    (tmp_path / "x.json").write_text('{"a": 1}')
    assert RunFolder(tmp_path).read_record("x.json") == {"a": 1}


def test_a_table_may_be_cut_anywhere(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    rows = [(0, "größe", 0.1), (1, "größe", 0.2)]
    folder.append_rows("x.csv", ("step", "layer", "p"), rows)
    content = (tmp_path / "x.csv").read_bytes()
    for length in range(len(content)):
        (tmp_path / "x.csv").write_bytes(content[:length])
        found = folder.read_table("x.csv")
        assert len(found) <= 2
        # Whole rows are as they were; a cut inside of "ö" costs that row only.
        if length > content.index(b"\n1,"):
            assert found[0] == {"step": "0", "layer": "größe", "p": "0.1"}


@pytest.mark.parametrize("place", ["x.csv", "inside/x.csv"])
def test_links_out_of_the_folder_are_not_followed(tmp_path: Path, place: str) -> None:
    secret, folder = tmp_path / "secret", RunFolder(tmp_path / "run")
    secret.mkdir()
    (secret / "x.csv").write_text("a\n1\n")
    folder.path.mkdir()
    link = folder.path / Path(place).parts[0]
    link.symlink_to(secret / "x.csv" if link.suffix else secret)
    for use in (folder.read_json, folder.read_table, lambda name: folder.append_rows(name, ("a",), [(2,)])):
        with pytest.raises(OSError, match="leads out of the run folder") as caught:
            use(place)
        assert str(link) in str(as_user_error(caught.value))
    assert (secret / "x.csv").read_text() == "a\n1\n"
    # Writing in one piece takes the place of the link.
    if link.suffix:
        folder.write_text(place, "b\n2\n")
        assert folder.read_table(place) == [{"b": "2"}]
        assert (secret / "x.csv").read_text() == "a\n1\n"


def test_links_inside_of_the_folder_are(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "x.json").write_text("{}")
    (tmp_path / "x.json").symlink_to("kept/x.json")
    outside = tmp_path.parent / "other name"
    outside.symlink_to(tmp_path)
    assert RunFolder(outside).read_json("x.json") == {}
    assert own_file(outside, "new/file") == outside / "new" / "file"


def test_a_folder_of_the_same_time_is_another_one(tmp_path: Path) -> None:
    made = [new_folder(tmp_path / "outputs" / "2026-01-01") for _ in range(3)]
    assert [path.name for path in made] == ["2026-01-01", "2026-01-01-2", "2026-01-01-3"]
    assert all(path.is_dir() for path in made)


def test_what_a_kill_left_half_written_is_removed_and_nothing_else(tmp_path: Path) -> None:
    kept = ["x.json", ".hydra/config.yaml", "a.tmp", ".report.html.abc.tmp"]
    gone = [".x.json.abc.tmp", "checkpoints/.last.ckpt.abc.tmp"]
    for name in [*kept, *gone]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    RunFolder(tmp_path).remove_unfinished()
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == set(kept)
