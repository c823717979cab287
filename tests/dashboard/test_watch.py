"""Following runs: a build that finds nothing new is silent, one that goes wrong is not the last."""

from __future__ import annotations

from pathlib import Path

from concrete_dropout.dashboard.build import DATA, Site
from concrete_dropout.dashboard.pack import unpacked
from concrete_dropout.dashboard.watch import ending_still, watch
from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import METRICS, RunFolder


def test_news_are_told_once(outputs: Path) -> None:
    told: list[Site] = []
    troubles: list[UserError] = []

    def tell(site: Site) -> None:
        told.append(site)
        if len(told) == 1:
            RunFolder(outputs / "uci/run_1").append_rows(METRICS, (), [(3000, 30, "val/nll", 0.25)])

    watch(outputs, None, 0.01, tell, troubles.append, rounds=4)
    assert [site.read for site in told] == [8, 1]
    assert troubles == []


def test_trouble_is_told_and_the_next_build_is_made(outputs: Path) -> None:
    told: list[Site] = []
    troubles: list[UserError] = []
    (outputs / "dashboard").write_text("in the way")

    def trouble(error: UserError) -> None:
        troubles.append(error)
        (outputs / "dashboard").unlink()

    watch(outputs, None, 0.01, told.append, trouble, rounds=2)
    assert len(troubles) == len(told) == 1


def test_open_pages_stop_to_look_when_nobody_watches(outputs: Path) -> None:
    version = outputs / "dashboard" / DATA / "version.js"
    with ending_still(outputs, None):
        watch(outputs, None, 0.5, lambda site: None, lambda error: None, rounds=1)
        assert unpacked(version.read_bytes())["refresh"] == 0.5
    assert unpacked(version.read_bytes())["refresh"] == 0
