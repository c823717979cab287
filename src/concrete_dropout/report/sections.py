"""The sections of a run's report between its results and its configuration."""

from __future__ import annotations

from concrete_dropout import plots
from concrete_dropout.plots.arrays import outputs
from concrete_dropout.plots.metrics import IOU, NO_MC, base_of, title_of
from concrete_dropout.report import vision_sections
from concrete_dropout.report.components import Section, details, figure, grid, paragraph, table
from concrete_dropout.report.headline import coverage_in_words, errors_in_words
from concrete_dropout.report.html import Html, join, tag
from concrete_dropout.report.layers import Layer
from concrete_dropout.report.record import STAGE_WORDS, STAGES, Record, mapping
from concrete_dropout.report.text import change, count, number, probability, whole

MAX_OPEN_ROWS = 16
MAX_OUTPUTS = 4
MAX_CURVES = 12
# One figure each, in this order; a log-likelihood is the NLL upside down.
CURVE_GROUPS = (
    ("nll",),
    ("loss",),
    ("kl",),
    ("rmse",),
    ("miou",),
    ("accuracy",),
    ("calibration_rmse",),
    ("crps",),
    ("ece", "mce"),
    ("brier",),
    ("epistemic_std", "aleatoric_std", "predictive_std"),
    ("predictive_entropy", "expected_entropy", "mutual_information"),
    ("iou",),
)
GROUP_TITLES = {
    ("epistemic_std", "aleatoric_std", "predictive_std"): "Uncertainty (std)",
    ("ece", "mce"): "Calibration error (ECE, MCE)",
    ("predictive_entropy", "expected_entropy", "mutual_information"): "Uncertainty (entropies)",
}
HIDDEN_CURVES = ("dropout_p/", "test/", "epoch")


def probabilities(record: Record, layers: list[Layer]) -> Section:
    """Learned p per layer: table, trajectories, profile over depth."""
    heading = "Learned dropout probabilities"
    if not layers:
        none = record.run.get("dropout") == "none"
        text = "This run has no dropout." if none else "No dropout probabilities were recorded."
        return Section("probabilities", "Dropout probabilities", paragraph(text))
    drawn = [layer for layer in layers if layer.final is not None]
    depth = plots.probabilities.by_depth(
        [layer.name for layer in drawn],
        [layer.final for layer in drawn],
        [layer.initial for layer in drawn] if any(layer.learned for layer in drawn) else None,
    )
    listing = _layer_table(layers)
    if len(layers) > MAX_OPEN_ROWS:
        listing = details(f"Table of all {count(len(layers), 'layer')}", listing)
    if not any(layer.learned for layer in layers):
        fixed = paragraph("Fixed dropout: these probabilities were set by hand and stayed as they were.")
        caption = "Dropout probability of every layer, from input to output."
        return Section("probabilities", "Dropout probabilities", join([fixed, listing, figure(depth, caption)]))
    intro = paragraph(
        "p is the probability that a layer's input is dropped. It was learned with the weights; "
        "it is a result only where it has stopped moving."
    )
    ordered = {layer.name: record.dropout[layer.name] for layer in layers if layer.name in record.dropout}
    path = figure(
        plots.probabilities.trajectories(ordered), "p of every layer over training steps. Flat at the end: converged."
    )
    profile = figure(depth, "p of every layer from input to output, at the start and at the end of training.")
    parts = [intro, listing, path, profile] if len(layers) <= MAX_OPEN_ROWS else [intro, path, profile, listing]
    return Section("probabilities", heading, join(parts))


def uncertainty(record: Record, layers: list[Layer]) -> Section:
    """Epistemic, aleatoric and predictive uncertainty; a band over one input, else errors against it."""
    if record.kind != "regression":
        return vision_sections.uncertainty(record)
    stages = [stage for stage in STAGES if isinstance(record.uncertainty.get(stage), dict)]
    kinds = ("epistemic_std", "aleatoric_std", "predictive_std")
    rows = [
        [STAGE_WORDS[stage].capitalize(), *(number(record.metric(stage, kind)) for kind in kinds)] for stage in stages
    ]
    header = ["Data", "Epistemic", "Aleatoric", "Predictive"]
    parts: list[object] = [paragraph(text) if (text := errors_in_words(record, record.stage)) else None]
    if rows:
        parts.append(
            table(header, rows, "Standard deviations in target units (root of the mean variance)", numeric=(1, 2, 3))
        )
    drawn = _band(record) or _errors(record)
    parts.append(drawn)
    if not rows and drawn is None:
        parts.append(paragraph("No uncertainty was recorded: it is measured at the first validation."))
    return Section("uncertainty", "Uncertainty", join(parts))


def calibration(record: Record, layers: list[Layer]) -> Section:
    """Coverage of predictive intervals, or reliability of confidence, on validation and test data."""
    if record.kind != "regression":
        return vision_sections.calibration(record)
    stages = {stage: mapping(record.calibration.get(stage)) for stage in STAGES}
    found = {stage: entry for stage, entry in stages.items() if entry.get("expected") and entry.get("observed")}
    if not found:
        return Section(
            "calibration",
            "Calibration",
            paragraph("No calibration was recorded: it is measured at the first validation."),
        )
    curves = {STAGE_WORDS[stage]: (entry["expected"], entry["observed"]) for stage, entry in found.items()}
    sentences = [
        "A calibrated model's intervals hold as many targets as they promise.",
        *(coverage_in_words(record, stage) for stage in found),
    ]
    keys = ("rmse", "sharpness", "nll", "crps")
    rows = [
        [
            STAGE_WORDS[stage].capitalize(),
            *(number(entry.get(key)) for key in keys),
            whole(entry.get("num_points")),
        ]
        for stage, entry in found.items()
    ]
    header = ["Data", "Calibration RMSE", "Sharpness (mean std)", "NLL (nats)", "CRPS", "Points"]
    listing = table(
        header, rows, "Sharpness and CRPS are in target units; lower is better in all columns", numeric=range(1, 6)
    )
    coverage = figure(
        plots.calibration.coverage_curve(curves),
        "Share of targets inside of central predictive intervals. Below the diagonal the model is overconfident.",
    )
    parts = [paragraph(" ".join(filter(None, sentences))), listing, grid([coverage, *_pit(record)])]
    return Section("calibration", "Calibration", join(parts))


def training(record: Record, layers: list[Layer]) -> Section:
    """Metrics over steps, training and validation in one figure per metric."""
    shown = {name: points for name, points in record.metrics.items() if not name.startswith(HIDDEN_CURVES)}
    if not shown:
        return Section("training", "Training", paragraph("No metrics over training steps were recorded."))
    groups: dict[tuple[str, ...], dict[str, object]] = {}
    for name, points in shown.items():
        suffix = base_of(name).removesuffix(NO_MC)
        key = next((group for group in CURVE_GROUPS if suffix in group), (suffix,))
        groups.setdefault(key, {})[name] = points
    if ("nll",) in groups:
        groups.pop(("log_likelihood",), None)
    order = sorted(groups, key=lambda key: CURVE_GROUPS.index(key) if key in CURVE_GROUPS else len(CURVE_GROUPS))
    made = [_curves(key, groups[key]) for key in order[:MAX_CURVES]]
    rest = order[MAX_CURVES:]
    more = (
        paragraph(f"Not drawn, but in metrics.csv: {', '.join(name for key in rest for name in key)}.")
        if rest
        else None
    )
    intro = paragraph(
        "The loss is the mean NLL plus the KL term per observation, in nats. Training values are single batches."
    )
    return Section("training", "Training curves", join([intro, grid(made), more]))


def _layer_table(layers: list[Layer]) -> Html:
    caption = "Dropout layers from input to output; K is the number of independent mask entries"
    names = [tag("code", layer.name) for layer in layers]
    final = [tag("strong", probability(layer.final)) for layer in layers]
    owners = [", ".join(layer.owners) or "–" for layer in layers]
    entries = [whole(layer.K) for layer in layers]
    if not any(layer.learned for layer in layers):
        rows = zip(names, final, owners, entries, strict=True)
        return table(["Layer", "p", "Weights it masks", "K"], list(rows), caption, numeric=(1, 3))
    initial = [probability(layer.initial) for layer in layers]
    moved = [change(layer.change) if layer.learned else "–" for layer in layers]
    verdicts = [_verdict(layer) for layer in layers]
    header = ["Layer", "p at start", "p at end", "Change in last fifth", "Converged", "Weights it masks", "K"]
    columns = zip(names, initial, final, moved, verdicts, owners, entries, strict=True)
    return table(header, list(columns), caption, numeric=(1, 2, 3, 6), words=(4,))


def _verdict(layer: Layer) -> object:
    if not layer.learned:
        return "fixed"
    verdict: list[object] = [{True: "yes", None: "not judged"}.get(layer.converged)]
    if layer.converged is False:
        verdict = [tag("span", "still moving", class_="flag")]
    if layer.saturated:
        verdict.append(tag("span", f"saturated {layer.saturated}", class_="flag"))
    return join(verdict, ", ")


def _band(record: Record) -> Html | None:
    if not record.band.get("x") or not record.band.get("mean"):
        return None
    caption = (
        "Where training data are scarce the epistemic band should widen. "
        "The wider band holds about 95 % of the targets of a calibrated model."
    )
    return figure(plots.uncertainty.band(record.band), caption)


def _errors(record: Record) -> Html | None:
    stage = next((stage for stage in STAGES if record.predictions.get(stage)), None)
    if stage is None:
        return None
    rows = record.predictions[stage]
    parts: list[object] = []
    names = outputs(rows)
    for output in names[:MAX_OUTPUTS]:
        data = f"{STAGE_WORDS[stage]} data" + (f", output {output}" if output else "")
        scatter = plots.uncertainty.error_against_std(rows, output)
        spread = plots.uncertainty.histogram(rows, output)
        parts += [tag("h3", output) if output else None]
        parts += [
            grid(
                [
                    figure(
                        scatter,
                        f"Every point is a prediction ({data}). The line on the diagonal: errors as large as expected.",
                    ),
                    figure(spread, f"How uncertain the model is over the {data}."),
                ]
            )
        ]
    if len(names) > MAX_OUTPUTS:
        parts.append(paragraph(f"{count(len(names) - MAX_OUTPUTS, 'more output')} in the table of predictions."))
    return join(parts) if names else None


def _pit(record: Record) -> list[Html]:
    rows = next((record.predictions[stage] for stage in STAGES if record.predictions.get(stage)), [])
    values = [row[name] for row in rows for name in row if name == "pit" or name.startswith("pit:")]
    if not values:
        return []
    caption = "Flat: the predictive distribution is right. A hill: too wide; a valley: too narrow; a slope: biased."
    return [figure(plots.calibration.pit_histogram(values), caption)]


def _curves(key: tuple[str, ...], group: dict[str, object]) -> Html:
    title = GROUP_TITLES.get(key) or title_of(key[0])
    # A line of the legend takes 20 pixels of height, and there is room for two lines of it.
    height = 340 + 20 * max(0, len(group) - 4)
    names = {name.split(IOU, 1)[1] if key == ("iou",) else name: points for name, points in group.items()}
    made = plots.metrics.curves(names, title=title, height=height)  # type: ignore[arg-type]
    return figure(made, alt=f"{title} over training steps: {', '.join(group)}")
