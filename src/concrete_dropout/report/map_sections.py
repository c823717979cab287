"""The section on maps: what a segmentation looks like, image by image, through training."""

from __future__ import annotations

from typing import Any

from concrete_dropout.plots.pictures import RIGHT, VOID, WRONG, scale_colours
from concrete_dropout.report.components import Section, paragraph
from concrete_dropout.report.html import Html, join, tag
from concrete_dropout.report.picture_style import MAX_STEPS
from concrete_dropout.report.pictures import tile
from concrete_dropout.report.record import CHANGING, FIXED, STAGE_WORDS, STAGES, Record, dicts, finite, mapping
from concrete_dropout.report.text import number, percent, whole
from concrete_dropout.report.vision_sections import rgb_of, swatch

KINDS = {
    "input": "Input",
    "target": "Ground truth",
    "prediction": "Prediction",
    "epistemic": "Epistemic",
    "aleatoric": "Aleatoric",
    "error": "Error",
}
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


def has_maps(record: Record) -> bool:
    """Whether there is an image to show."""
    return any(_images(record, stage) for stage in STAGES)


def maps(record: Record) -> Section:
    """Input, truth, prediction, uncertainties and errors: a row per image, a button per step."""
    stages = [stage for stage in reversed(STAGES) if _images(record, stage)]
    intro = paragraph(
        "Epistemic is the mutual information: what the model does not know. Aleatoric is the expected entropy: "
        "ambiguity in the image itself. Where errors light up, one of the two should have warned."
    )
    entry = mapping(record.maps.get(stages[0]))
    body = join([intro, _legend(entry), *(_stage(record, stage) for stage in stages)])
    return Section("maps", "Maps of prediction and uncertainty", body)


def _stage(record: Record, stage: str) -> Html:
    images = _images(record, stage)
    steps = _steps(images)
    heading = f"{STAGE_WORDS[stage].capitalize()} images" + (" through training" if len(steps) > 1 else "")
    sampled = any(
        (finite(at.get("mutual_information")) or 0) > 1e-7 for image in images for at in dicts(image["steps"])
    )
    key = "task.val_samples" if stage == "val" else "task.test_samples"
    without = f"No epistemic uncertainty: these predictions had no Monte Carlo samples ({key}=0), or no dropout."
    parts = [
        tag("h3", heading),
        None if sampled else paragraph(without),
        _buttons(stage, steps) if len(steps) > 1 else None,
        *(_image(record, image, steps) for image in images),
    ]
    return tag("div", *(part for part in parts if part is not None), class_="maps")


def _buttons(stage: str, steps: list[float]) -> Html:
    last = len(steps) - 1
    choices = [
        tag(
            "label",
            tag("input", type="radio", name=f"step-{stage}", value=str(i), checked=i == last),
            tag("span", whole(step)),
        )
        for i, step in enumerate(steps)
    ]
    return tag("fieldset", tag("legend", "Training step"), *choices, class_="steps")


def _image(record: Record, image: dict[str, Any], steps: list[float]) -> Html:
    name = str(image.get("name") or f"image {image.get('index')}")

    def shown(kind: str, place: dict[str, Any], when: str = "") -> Html:
        picture = record.pictures.get(str(place.get(kind)))
        return tile(picture, f"{KINDS[kind]} of {name}{when}", f"{KINDS[kind]}{_number(kind, place)}")

    at_steps = {finite(at.get("step")): at for at in dicts(image.get("steps"))}
    panels = [shown(kind, image) for kind in FIXED]
    for i, step in enumerate(steps):
        at, last = at_steps.get(step, {}), i == len(steps) - 1
        tiles = [shown(kind, at, f" at step {whole(step)}") for kind in CHANGING]
        panels.append(tag("div", *tiles, class_=f"at at-{i}{' last' if last else ''}"))
    return tag("div", tag("h4", name), tag("div", *panels, class_="panels"), class_="scene")


def _number(kind: str, at: dict[str, Any]) -> str:
    """What a picture is in one number: the share of errors, or the mean of an uncertainty."""
    wrong = finite(at.get("wrong"))
    if kind == "error" and wrong is not None:
        return f": {percent(wrong, 1)} wrong"
    mean = finite(at.get({"epistemic": "mutual_information", "aleatoric": "expected_entropy"}.get(kind, "")))
    return f": mean {number(mean, 2)}" if mean is not None else ""


def _legend(entry: dict[str, Any]) -> Html:
    names, colours = (value if isinstance(value := entry.get(key), list) else [] for key in ("names", "colours"))
    marks = [*zip(names, colours, strict=False), ("void", VOID), ("wrong", WRONG), ("right", RIGHT)]
    items = [tag("li", swatch(colour), " ", name) for name, colour in marks]
    return tag("div", tag("ul", *items, class_="legend"), _scale(mapping(entry.get("scales"))), class_="keys")


def _scale(scales: dict[str, Any]) -> Html:
    """The colours of uncertainties over their numbers; a place on the scale is the root of the share of its end."""
    ends = {kind: end for kind in ("epistemic", "aleatoric") if (end := finite(scales.get(kind))) is not None}
    colours = ",".join(rgb_of(colour.tolist()) for colour in scale_colours(12))
    rows = [
        tag(
            "div",
            *(tag("span", number(end * tick**2, 2), style=f"left:{100 * tick:g}%", class_="tick") for tick in TICKS),
            tag("span", kind, class_="what"),
            class_="ticks",
        )
        for kind, end in ends.items()
    ]
    bar = tag("div", class_="bar", style=f"background:linear-gradient(to right,{colours})")
    return tag("div", tag("p", "Uncertainty in nats, on the same scales in all pictures"), bar, *rows, class_="scale")


def _images(record: Record, stage: str) -> list[dict[str, Any]]:
    images = dicts(mapping(record.maps.get(stage)).get("images"))
    return [image for image in images if dicts(image.get("steps"))]


def _steps(images: list[dict[str, Any]]) -> list[float]:
    found = sorted(
        {step for image in images for at in dicts(image["steps"]) if (step := finite(at.get("step"))) is not None}
    )
    return [*found[: MAX_STEPS - 1], found[-1]] if len(found) > MAX_STEPS else found
