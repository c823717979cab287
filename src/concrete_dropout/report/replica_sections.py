"""Sections of a replicated run's report: its results, its probabilities, the sweep over initial p, every replica."""

from __future__ import annotations

from concrete_dropout import plots
from concrete_dropout.plots.metrics import title_of
from concrete_dropout.report.components import Card, Section, cards, details, figure, grid, paragraph, table
from concrete_dropout.report.headline import coverage_in_words
from concrete_dropout.report.html import Html, join, tag
from concrete_dropout.report.layers import change_last_fifth, short_names
from concrete_dropout.report.record import STAGE_WORDS, finite
from concrete_dropout.report.replica_record import INIT_P, NUM_DATA, WORDS, Replica, Replicas, mean_points
from concrete_dropout.report.statistics import Summary, slope, summarise
from concrete_dropout.report.text import change, count, number, plus_minus, probability, whole

COLUMNS = ("log_likelihood", "rmse", "calibration_rmse", "epistemic_std", "aleatoric_std")
BEFORE = "log_likelihood_before_m_step"
MAX_GROUP_FIGURES = 8
MAX_LAYER_COLUMNS = 6
MAX_OPEN_ROWS = 24
FORGOTTEN = 0.1  # slope of final over initial p


def results(replicas: Replicas) -> Section:
    """Means with standard errors: as cards where replicas repeat one experiment, else one row per experiment."""
    words = STAGE_WORDS[replicas.stage]
    scored = replicas.score("log_likelihood") or replicas.score("rmse")
    if scored is None:
        text = "No replica has been scored yet: their results are written at the end of the run."
        return Section("results", "Results", paragraph(text))
    intro = paragraph(f"Measured on {words} data, in the target's original units. ± is one standard error of the mean.")
    grouped = bool(replicas.group_keys)
    shown = _group_table(replicas) if grouped else cards(_cards(replicas))
    listing = None if grouped else _metric_table(replicas)
    return Section("results", "Results", join([intro, shown, listing]))


def probabilities(replicas: Replicas) -> Section:
    """Learned p per layer: table, trajectories, and where every replica ended."""
    key, heading = "probabilities", "Dropout probabilities"
    if not replicas.layers:
        none = replicas.record.run.get("dropout") == "none"
        text = "This run has no dropout." if none else "No dropout probabilities were recorded."
        return Section(key, heading, paragraph(text))
    listing = _layer_table(replicas)
    if not replicas.learned:
        text = "Fixed dropout: these probabilities were set by hand and stayed as they were."
        return Section(key, heading, join([paragraph(text), listing]))
    intro = paragraph(
        f"Every replica learns its own p; they share a batch, nothing else. The table and the figures are over "
        f"{count(len(replicas.rows), 'replica')}."
    )
    return Section(key, "Learned dropout probabilities", join([intro, listing, _paths(replicas), _ends(replicas)]))


def initial_sweep(replicas: Replicas) -> Section:
    """Whether p has forgotten where it started."""
    pairs = {
        layer.name: [
            (start, row.p[layer.name])
            for row in replicas.rows
            if layer.name in row.p and (start := _start(row, layer.name)) is not None
        ]
        for layer in replicas.layers
        if layer.learned
    }
    pairs = {name: found for name, found in pairs.items() if found}
    rows = []
    for name, found in pairs.items():
        starts, ends = [start for start, _ in found], [end for _, end in found]
        left = slope(starts, ends)
        forgot = "–" if left is None else "yes" if abs(left) <= FORGOTTEN else tag("span", "no", class_="flag")
        reach = [f"{probability(min(values))} to {probability(max(values))}" for values in (starts, ends)]
        rows.append([tag("code", name), *reach, change(left), forgot])
    if not rows:
        return Section("initial-p", "Initial p", paragraph("No dropout probabilities were recorded."))
    intro = paragraph(
        "The same experiment from different initial p. A p that has converged does not depend on its start: in the "
        "figure its line is flat. On the diagonal, p has not moved."
    )
    header = ["Layer", "Initial p", "p at the end", "Slope", "Start forgotten"]
    caption = (
        "Slope of final over initial p (least squares): 0 has forgotten its start, 1 has not moved; "
        f"up to ±{FORGOTTEN} counts as forgotten"
    )
    listing = table(header, rows, caption, numeric=(1, 2, 3))
    drawn = plots.replicas.against_initial(
        {name: ([s for s, _ in found], [e for _, e in found]) for name, found in pairs.items()}
    )
    figures = figure(drawn, "Final against initial p of every replica; lines join the means.")
    return Section("initial-p", "Does p depend on its start?", join([intro, listing, figures]))


def every_replica(replicas: Replicas) -> Section:
    """One row per replica."""
    stage = replicas.stage
    names = [name for name in COLUMNS[:3] if any(f"{stage}/{name}" in row.scalars for row in replicas.rows)]
    layers = [layer.name for layer in replicas.layers][:MAX_LAYER_COLUMNS]
    keys = list(replicas.keys)
    judged = replicas.learned and any(row.converged is not None for row in replicas.rows)
    # The number of training points is worth a column where it varies and is no key already.
    sizes = NUM_DATA not in keys and len({row.num_train for row in replicas.rows}) > 1
    header = [
        "Replica",
        *(WORDS.get(key, key).capitalize() if key in WORDS else key for key in keys),
        *(["Training points"] if sizes else []),
        *(title_of(name) for name in names),
        *(f"p {name}" for name in short_names(layers)),
        *(["Converged"] if judged else []),
    ]
    rows = [
        [
            str(row.index),
            *(row.labels.get(key, "–") for key in keys),
            *([whole(row.num_train)] if sizes else []),
            *(number(row.scalars.get(f"{stage}/{name}"), 4 - (name == "calibration_rmse")) for name in names),
            *(probability(row.p.get(name)) for name in layers),
            *([_verdict(row)] if judged else []),
        ]
        for row in replicas.rows
    ]
    hidden = len(replicas.layers) - len(layers)
    caption = f"All replicas, on {STAGE_WORDS[stage]} data" + (
        f"; {hidden} layers more in replicas.csv" if hidden else ""
    )
    listing = table(header, rows, caption, numeric=range(1, len(header) - judged))
    body = details(f"Table of all {count(len(rows), 'replica')}", listing) if len(rows) > MAX_OPEN_ROWS else listing
    return Section("replicas", "Every replica", body if rows else paragraph("No replica was recorded."))


def group_label(replicas: Replicas, values: tuple[str, ...]) -> str:
    """A group of replicas in words, for example "N = 1000"."""
    pairs = zip(replicas.group_keys, values, strict=True)
    return ", ".join(f"{WORDS.get(key, key)} = {value}" for key, value in pairs)


def _cards(replicas: Replicas) -> list[Card]:
    coverage = coverage_in_words(replicas.record, replicas.stage)
    meanings = {
        "log_likelihood": ("nats", "Mean log density per point. Higher is better."),
        "rmse": ("target units", "Typical error of the predictive mean. Lower is better."),
        "calibration_rmse": ("", f"Distance of the coverage curve from the diagonal; 0 is perfect. {coverage}".strip()),
        "epistemic_std": ("target units", "What the model does not know; more data would reduce it."),
        "aleatoric_std": ("target units", "Noise in the targets; more data would not reduce it."),
    }
    made = []
    for name, (unit, meaning) in meanings.items():
        if (found := replicas.score(name)) is not None:
            decimals = 3 if name == "calibration_rmse" else 2
            value, _, error = plus_minus(found.mean, found.se, decimals).partition(" ")
            over = f"Over {count(found.count, 'replica')}." if name == "log_likelihood" else ""
            made.append(Card(title_of(name), value, " ".join(filter(None, [error, unit])), f"{meaning} {over}".strip()))
    values = [layer.final for layer in replicas.layers if layer.final is not None]
    if values:
        low, high = probability(min(values)), probability(max(values))
        verdict = f"p converged in {replicas.num_converged} of {count(len(replicas.rows), 'replica')}."
        title, meaning = ("Learned p", f"Means of {count(len(values), 'layer')}. {verdict}")
        if not replicas.learned:
            title, meaning = "Fixed p", f"Set by hand for {count(len(values), 'layer')}."
        made.append(Card(title, low if low == high else f"{low}–{high}", "", meaning))
    return made


def _metric_table(replicas: Replicas) -> Html:
    stages = [
        stage
        for stage in ("val", "test")
        if any(name.startswith(f"{stage}/") for r in replicas.rows for name in r.scalars)
    ]
    suffixes = dict.fromkeys(name.split("/", 1)[1] for row in replicas.rows for name in row.scalars)
    rows = []
    for suffix in suffixes:
        title = "Log-likelihood before the final M step" if suffix == BEFORE else title_of(suffix)
        found = [summarise(row.scalars.get(f"{stage}/{suffix}") for row in replicas.rows) for stage in stages]
        ends = found[-1] or next((summary for summary in found if summary), None)
        rows.append([title, *(_mean(summary) for summary in found), number(ends.low, 4) if ends else "–",
                     number(ends.high, 4) if ends else "–"])  # fmt: skip
    header = ["Metric", *(STAGE_WORDS[stage].capitalize() for stage in stages), "Lowest", "Highest"]
    last = STAGE_WORDS[stages[-1]] if stages else "validation"
    caption = f"Mean ± standard error over replicas; lowest and highest replica on {last} data"
    return table(header, rows, caption, numeric=range(1, len(header)))


def _group_table(replicas: Replicas) -> Html:
    names = [name for name in COLUMNS if replicas.score(name) is not None]
    rows = [
        [
            group_label(replicas, values),
            str(len(rows)),
            *(_mean(replicas.score(name, rows), 2 + (name == "calibration_rmse")) for name in names),
            *([_converged(rows)] if replicas.learned else []),
        ]
        for values, rows in replicas.groups(*replicas.group_keys).items()
    ]
    header = [
        "Experiment",
        "Repeats",
        *(title_of(name) for name in names),
        *(["p converged"] if replicas.learned else []),
    ]
    return table(header, rows, "Mean ± standard error over repeats", numeric=range(1, len(header)))


def _layer_table(replicas: Replicas) -> Html:
    rows = []
    for layer in replicas.layers:
        found = replicas.probability(layer.name)
        moved = [change_last_fifth(*pair) for pair in replicas.trajectories.get(layer.name, {}).values()]
        largest = max((value for value in moved if value is not None), key=abs, default=None)
        rows.append(
            [
                tag("code", layer.name),
                probability(layer.initial),
                tag("strong", probability(layer.final)),
                f"{probability(found.low)} to {probability(found.high)}" if found else "–",
                change(largest),
                whole(layer.K),
            ]
        )
    header = ["Layer", "Mean p at start", "Mean p at end", "Lowest to highest", "Largest change in last fifth", "K"]
    caption = "Dropout layers from input to output; K is the number of independent mask entries"
    return table(header, rows, caption, numeric=range(1, 6))


def _paths(replicas: Replicas) -> Html | None:
    traced = {layer.name: replicas.trajectories[layer.name] for layer in replicas.layers
              if layer.learned and layer.name in replicas.trajectories}  # fmt: skip
    if not traced:
        return paragraph("How p moved during training was not recorded.")
    if not replicas.group_keys:
        drawn = plots.replicas.spread({name: list(runs.values()) for name, runs in traced.items()})
        return figure(
            drawn, "p over training steps: mean over replicas, and the band from the lowest to the highest one."
        )
    groups = replicas.groups(*replicas.group_keys)
    made = []
    for name, runs in list(traced.items())[:MAX_GROUP_FIGURES]:
        lines = {
            group_label(replicas, values): mean_points([runs[row.index] for row in rows if row.index in runs])
            for values, rows in groups.items()
        }
        made.append(figure(plots.replicas.by_group(name, lines), alt=f"p of {name} over training steps"))
    rest = len(traced) - len(made)
    more = paragraph(f"{count(rest, 'more layer')} in dropout.csv.") if rest > 0 else None
    return join([tag("h3", "p of each layer over training steps, means over repeats"), grid(made), more])


def _ends(replicas: Replicas) -> Html | None:
    if replicas.group_keys:
        # Shown against what was varied, in a section of its own, or by the lines above.
        return None
    rows = {layer.name: {layer.name: [row.p.get(layer.name) for row in replicas.rows]} for layer in replicas.layers}
    return figure(plots.replicas.strip(rows), "p of every replica at the end, from input to output; lines are means.")


def _start(row: Replica, layer: str) -> float | None:
    found = row.initial_p.get(layer)
    return found if found is not None else finite(row.labels.get(INIT_P))


def _mean(summary: Summary | None, decimals: int = 3) -> str:
    return plus_minus(summary.mean, summary.se, decimals) if summary is not None else "–"


def _converged(rows: list[Replica]) -> str:
    judged = [row for row in rows if row.converged is not None]
    return f"{sum(row.converged is True for row in judged)} of {len(rows)}" if judged else "not judged"


def _verdict(row: Replica) -> object:
    if row.converged is False:
        return tag("span", "still moving", class_="flag")
    return "yes" if row.converged else "not judged"
