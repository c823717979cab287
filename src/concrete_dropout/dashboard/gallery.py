"""The pictures of a run for the page: samples with their classes, or maps of prediction and uncertainty."""

from __future__ import annotations

from typing import Any

from concrete_dropout.dashboard.flat import rounded
from concrete_dropout.report.pictures import Picture
from concrete_dropout.report.record import CHANGING, FIXED, STAGES, Record, dicts, finite, mapping

MAX_SAMPLES = 12  # of each kind
MAX_IMAGES = 4
NUMBERS = ("confidence", "predictive_entropy", "mutual_information")


def pictures_of(record: Record) -> dict[str, Any]:
    """Samples and maps of a run as plain values with their pictures as data; empty where there are none."""
    stage = next((stage for stage in STAGES if dicts(record.gallery.get(stage))), "")
    samples = _samples(record, stage)
    mapped = next((stage for stage in STAGES if dicts(mapping(record.maps.get(stage)).get("images"))), "")
    images = _images(record, mapped)
    found: dict[str, Any] = {}
    if samples:
        found["samples"] = {"stage": stage, "items": samples}
    if images:
        found["maps"] = {"stage": mapped, "images": images}
    return found


def media_of(record: Record) -> list[str]:
    """Names under which a run's pictures are in W&B, where it was logged there."""
    galleries = [(stage, str(item.get("kind"))) for stage in STAGES for item in dicts(record.gallery.get(stage))]
    images = [(stage, image) for stage in STAGES for image in dicts(mapping(record.maps.get(stage)).get("images"))]
    maps = [f"maps/{stage}_{index:.0f}" for stage, image in images if (index := finite(image.get("index"))) is not None]
    return [*dict.fromkeys(f"gallery/{stage}_{kind}"[:60] for stage, kind in galleries), *maps]


def _samples(record: Record, stage: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    for sample in dicts(record.gallery.get(stage)):
        picture = _picture(record.pictures.get(str(sample.get("file"))))
        kind = str(sample.get("kind"))
        if picture is None or counts.get(kind, 0) == MAX_SAMPLES:
            continue
        counts[kind] = counts.get(kind, 0) + 1
        texts = {key: str(sample.get(key))[:100] for key in ("kind", "name", "target", "predicted")}
        found.append({**texts, **{key: rounded(finite(sample.get(key)), 3) for key in NUMBERS}, "picture": picture})
    return found


def _images(record: Record, stage: str) -> list[dict[str, Any]]:
    """The images with their last maps."""
    found = []
    for image in dicts(mapping(record.maps.get(stage)).get("images"))[:MAX_IMAGES]:
        last = max(dicts(image.get("steps")), key=lambda at: finite(at.get("step")) or 0.0, default={})
        shown = {**{kind: image.get(kind) for kind in FIXED}, **{kind: last.get(kind) for kind in CHANGING}}
        panels = {kind: _picture(record.pictures.get(str(file))) for kind, file in shown.items()}
        panels = {kind: picture for kind, picture in panels.items() if picture is not None}
        if panels:
            numbers = {
                "error": rounded(finite(last.get("wrong")), 3),
                "epistemic": rounded(finite(last.get("mutual_information")), 3),
                "aleatoric": rounded(finite(last.get("expected_entropy")), 3),
            }
            name = str(image.get("name") or f"image {image.get('index')}")[:100]
            found.append({"name": name, "step": rounded(finite(last.get("step")), 9), "numbers": numbers, **panels})
    return found


def _picture(picture: Picture | None) -> list[Any] | None:
    """[data URI, width, height]."""
    return None if picture is None else [picture.uri, picture.width, picture.height]
