"""The cache of decoded images: built once, rebuilt when it must be, whole or not there."""

from __future__ import annotations

import logging
import multiprocessing
import os
import stat
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from concrete_dropout.data import image_cache
from concrete_dropout.data.image_cache import INDEX, LOCK, PIXELS, UNFINISHED, cached, default_place, user_cache
from concrete_dropout.data.label_files import Labels, Pair, read_planes
from concrete_dropout.errors import UserError

LABELS = Labels(("a", "b"), ((0, 0, 0), (9, 9, 9)), {0: 0, 1: 1})
SIZES = {"train": [(5, 7), (4, 4), (6, 3)], "val": [(2, 9)]}


@pytest.fixture
def pairs(tmp_path) -> dict[str, list[Pair]]:
    random = np.random.default_rng(0)
    made: dict[str, list[Pair]] = {}
    for part, sizes in SIZES.items():
        for number, size in enumerate(sizes):
            pair = Pair(f"{part}{number}", tmp_path / f"{part}{number}.png", tmp_path / f"{part}{number}_mask.png")
            Image.fromarray(random.integers(0, 256, (*size, 3), dtype=np.uint8)).save(pair.image)
            Image.fromarray(random.integers(0, 2, size, dtype=np.uint8)).save(pair.mask)
            made.setdefault(part, []).append(pair)
    return made


@pytest.fixture
def place(tmp_path) -> Path:
    return tmp_path / "not/there/yet"


class Reader:
    """Reads files and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, pair: Pair) -> np.ndarray:
        self.count += 1
        return read_planes(pair, LABELS)


def caches(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir() if path.name != LOCK)


def test_files_are_decoded_once(pairs, place):
    read = Reader()
    first, second = (cached(pairs, read, place, "settings") for _ in range(2))
    assert read.count == 4
    for images in (first, second):
        assert list(images) == ["train", "val"]
        for part, entries in pairs.items():
            assert images[part].names == tuple(pair.name for pair in entries)
            assert [tuple(size) for size in images[part].sizes] == SIZES[part]
            for number, pair in enumerate(entries):
                assert np.array_equal(images[part].planes(number), read_planes(pair, LABELS))
        assert isinstance(images["train"].flat, np.memmap)
        assert not images["train"].flat.flags.writeable
    (name,) = caches(place)
    assert sorted(path.name for path in (place / name).iterdir()) == [INDEX, PIXELS]
    assert stat.S_IMODE((place / name).stat().st_mode) == 0o755


@pytest.mark.parametrize("change", ["content", "time", "name", "fewer"])
def test_a_changed_source_is_decoded_anew_and_the_old_cache_removed(pairs, place, change, caplog):
    cached(pairs, Reader(), place, "settings")
    before = caches(place)
    first = pairs["train"][0]
    if change == "content":
        Image.fromarray(np.full((5, 7, 3), 77, np.uint8)).save(first.image)
    elif change == "time":
        os.utime(first.mask, ns=(0, first.mask.stat().st_mtime_ns + 1))
    elif change == "name":
        pairs["train"][0] = Pair("other", first.image.rename(first.image.with_name("other.png")), first.mask)
    else:
        pairs["train"].pop()
    read = Reader()
    with caplog.at_level(logging.INFO, "concrete_dropout"):
        images = cached(pairs, read, place, "settings")
    assert read.count == sum(map(len, pairs.values()))
    assert np.array_equal(images["train"].planes(0), read_planes(pairs["train"][0], LABELS))
    assert caches(place) != before
    assert len(caches(place)) == 1
    assert f"Removing the cache {place / before[0]}: its source has changed" in caplog.text


def test_caches_of_other_settings_stay(pairs, place):
    cached(pairs, Reader(), place, "scale 1")
    cached(pairs, Reader(), place, "scale 0.5")
    assert len(caches(place)) == 2
    read = Reader()
    cached(pairs, read, place, "scale 1")
    assert read.count == 0


@pytest.mark.parametrize("damage", ["short pixels", "no pixels", "short index", "no index", "other index"])
def test_a_damaged_cache_is_built_anew(pairs, place, damage):
    cached(pairs, Reader(), place, "settings")
    folder = place / caches(place)[0]
    path = folder / (PIXELS if "pixels" in damage else INDEX)
    if damage.startswith("short"):
        path.write_bytes(path.read_bytes()[:-5])
    elif damage.startswith("no"):
        path.unlink()
    else:
        path.write_text("[1, 2]")
    images = cached(pairs, Reader(), place, "settings")
    assert np.array_equal(images["val"].planes(0), read_planes(pairs["val"][0], LABELS))


def test_a_faulty_file_leaves_nothing(pairs, place):
    pairs["val"][0].mask.write_bytes(b"no image")
    with pytest.raises(UserError, match=r"val0_mask\.png cannot be read as an image"):
        cached(pairs, Reader(), place, "settings")
    assert caches(place) == []
    pairs["val"][0].mask.unlink()
    with pytest.raises(UserError, match=r"val0_mask\.png cannot be read \(No such file"):
        cached(pairs, Reader(), place, "settings")


# What a process runs: it builds the cache slowly, and tells how many files it decoded.
SCRIPT = """
import resource, signal, time
from contextlib import contextmanager
from concrete_dropout.data import image_cache
from concrete_dropout.data.label_files import read_planes
from concrete_dropout.errors import UserError

count = 0

def read(pair):
    global count
    count += 1
    pipe.send("reading")
    time.sleep(60 if mode == "hang" and pair.name == "val0" else 0.1)
    return read_planes(pair, labels)

@contextmanager
def no_lock(place):
    yield False

if mode == "no locks":
    image_cache._alone = no_lock
if mode == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
pipe.send("ready")
pipe.recv()
try:
    images = image_cache.cached(pairs, read, place, "settings")
    pipe.send((count, int(images["train"].flat.astype(int).sum())))
except UserError as error:
    pipe.send(str(error))
"""


class Builder:
    """Another process; they are forked from a server that has imported everything."""

    def __init__(self, pairs: dict[str, list[Pair]], place: Path, mode: str) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["concrete_dropout.data.image_cache"])
        self.pipe, other = context.Pipe()
        names = {"pairs": pairs, "place": place, "mode": mode, "labels": LABELS, "pipe": other}
        self.process = context.Process(target=exec, args=(SCRIPT, names))
        self.process.start()
        other.close()
        assert self.pipe.recv() == "ready"

    def go(self) -> None:
        self.pipe.send("go")

    def answer(self) -> Any:
        while (message := self.pipe.recv()) == "reading":
            pass
        self.process.join(60)
        return message


@pytest.mark.parametrize(("mode", "decoded"), [("locks", [0, 4]), ("no locks", [4, 4])])
def test_two_processes_build_at_once(pairs, place, mode, decoded):
    builders = [Builder(pairs, place, mode) for _ in range(2)]
    for builder in builders:
        builder.go()
    answers = [builder.answer() for builder in builders]
    images = cached(pairs, Reader(), place, "settings")
    expected = int(images["train"].flat.astype(int).sum())
    assert sorted(count for count, _ in answers) == decoded
    assert [total for _, total in answers] == [expected] * 2
    assert len(caches(place)) == 1
    assert not list(place.glob(f"{UNFINISHED}*"))


def test_a_killed_build_leaves_nothing_that_looks_finished(pairs, place):
    builder = Builder(pairs, place, "hang")
    builder.go()
    assert [builder.pipe.recv() for _ in range(4)] == ["reading"] * 4
    builder.process.kill()
    builder.process.join()
    (name,) = caches(place)
    assert name.startswith(UNFINISHED)
    read = Reader()
    start = time.monotonic()
    cached(pairs, read, place, "settings")
    assert time.monotonic() - start < 30  # the lock died with the process
    assert read.count == 4
    assert len(caches(place)) == 1
    assert not caches(place)[0].startswith(UNFINISHED)


def test_a_full_disk(pairs, place):
    builder = Builder(pairs, place, "full")
    builder.go()
    message = builder.answer()
    assert message.startswith(f"The images cannot be cached in {place}: File too large. Free some space there")
    assert "data.cache_dir" in message
    assert caches(place) == []


def test_without_locks_only_abandoned_builds_are_removed(pairs, place, monkeypatch):
    place.mkdir(parents=True)
    old, new = place / f"{UNFINISHED}old", place / f"{UNFINISHED}new"
    old.mkdir()
    new.mkdir()
    os.utime(old, (0, 0))
    image_cache._remove_unfinished(place, certain=False)
    assert caches(place) == [new.name]
    image_cache._remove_unfinished(place, certain=True)
    assert caches(place) == []


def test_a_place_that_cannot_be_made(tmp_path, pairs):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot be cached in .*file/cache: Not a directory.*data\.cache_dir"):
        cached(pairs, Reader(), tmp_path / "file/cache", "settings")


def test_the_default_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    data_dir = tmp_path / "data"
    assert default_place(data_dir) == data_dir / "cache"  # it can be made
    data_dir.mkdir()
    assert default_place(data_dir) == data_dir / "cache"
    data_dir.chmod(0o555)  # for the superuser too, who could write there
    assert default_place(data_dir) == tmp_path / "caches/concrete-dropout"
    data_dir.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_cache() == tmp_path / ".cache/concrete-dropout"
