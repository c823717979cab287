"""The record of maps in a run folder: ``maps.json`` and its pictures, of which a few steps are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from concrete_dropout.callbacks.pictures import remove_pictures, save_picture
from concrete_dropout.callbacks.scene import CHANGING, FIXED, Scene
from concrete_dropout.runfolder import MAPS, RunFolder


@dataclass(frozen=True)
class Classes:
    """Names and colours, one per class."""

    names: list[str]
    colours: list[tuple[int, int, int]]


class MapRecord:
    """Adds steps to the record of a stage and takes others away.

    An entry of the file: names and colours of the classes, ``scales`` (the uncertainties at the end of the colours,
    in nats), and images: index, name, paths of "input" and "target", and steps: step, epoch, paths of "prediction",
    "epistemic", "aleatoric" and "error", share of wrong pixels, mean mutual information and expected entropy.

    Args:
        folder: the run folder.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def entry(self, stage: str) -> dict[str, Any]:
        """What the file has of a stage."""
        entry = (self.folder.read_json(MAPS) or {}).get(stage)
        return entry if isinstance(entry, dict) else {}

    def steps(self, stage: str) -> list[int]:
        """The steps that the file has of a stage."""
        return sorted({int(kept["step"]) for image in self.entry(stage).get("images", []) for kept in image["steps"]})

    def add(
        self, stage: str, step: int, epoch: int, scenes: Sequence[Scene], classes: Classes, name: Callable[[int], str]
    ) -> None:
        """Write the pictures of a step. Where the images are others than before, the record begins anew.

        Args:
            stage: "val" or "test".
            step: training steps so far.
            epoch: epochs so far.
            scenes: the images, in the order of their numbers.
            classes: of the data.
            name: number of an image -> what it is called.
        """
        if [image["index"] for image in self.entry(stage).get("images", [])] != [scene.index for scene in scenes]:
            self.keep(stage, [])
        images = self.entry(stage).get("images") or [
            {"index": scene.index, "name": name(scene.index), "steps": []} for scene in scenes
        ]
        for image, scene in zip(images, scenes, strict=True):
            pictures = scene.pictures(classes.colours)
            new = [kind for kind in FIXED if kind in pictures and kind not in image]
            files = {
                kind: save_picture(self.folder, f"maps_{stage}_{scene.index}_{step}_{kind}", pictures[kind])
                for kind in (*new, *CHANGING)
            }
            image |= {kind: files[kind] for kind in new}
            now = {"step": step, "epoch": epoch, **{kind: files[kind] for kind in CHANGING}, **scene.numbers()}
            others = [kept for kept in image["steps"] if kept["step"] != step]
            image["steps"] = sorted([*others, now], key=lambda kept: int(kept["step"]))
        facts = {"names": classes.names, "colours": classes.colours, "scales": scenes[0].scales}
        self.folder.update_json(MAPS, **{stage: {**facts, "images": images}})

    def keep(self, stage: str, steps: Sequence[int]) -> None:
        """Take all other steps out of the file and off the disk; everything where no step is left."""
        entry = self.entry(stage)
        images = entry.get("images", [])
        gone = [kept for image in images for kept in image["steps"] if kept["step"] not in steps]
        paths = [kept[kind] for kept in gone for kind in CHANGING]
        if steps:
            for image in images:
                image["steps"] = [kept for kept in image["steps"] if kept["step"] in steps]
        else:
            paths += [image.get(kind) for image in images for kind in FIXED]
            entry = {}
        if paths:
            # First the file: whoever reads it finds every picture that it names.
            self.folder.update_json(MAPS, **{stage: entry})
            remove_pictures(self.folder, paths)


def thinned(steps: Sequence[int], limit: int) -> list[int]:
    """At most ``limit`` steps, the first and the last among them, at distances that grow with the step.

    As long as there are too many, the one goes whose neighbours are closest as a ratio. Called after every new step,
    this needs none of those that are gone.

    >>> kept = []
    >>> for step in range(1, 1001):
    ...     kept = thinned([*kept, step], limit=5)
    >>> kept
    [1, 7, 24, 167, 1000]
    """
    kept = sorted(set(steps))
    while len(kept) > limit:
        # From step 0 every ratio would be infinite.
        ratios = [kept[i + 1] / max(kept[i - 1], 1) for i in range(1, len(kept) - 1)]
        kept.pop(1 + ratios.index(min(ratios)))
    return kept
