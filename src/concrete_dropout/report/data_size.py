"""Section 4.1 of the paper: uncertainties and probabilities against the amount of data, and what was expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from concrete_dropout import plots
from concrete_dropout.report.components import Section, bullets, figure, grid, paragraph
from concrete_dropout.report.html import join, tag
from concrete_dropout.report.record import STAGE_WORDS, data_setting, finite
from concrete_dropout.report.replica_record import NUM_DATA, Replicas
from concrete_dropout.report.statistics import Summary
from concrete_dropout.report.text import count, number, plus_minus, probability, whole

KINDS = ("epistemic", "aleatoric", "predictive")
# The paper's p are "near 0.5" with 10 points and within 0.2 to 0.4 with 10,000.
NEAR_HALF, BELOW = 0.4, 0.4
CLOSE = 0.15  # of the noise: what counts as having reached it
SHOWN, PARTLY, NOT_SHOWN, UNKNOWN = "✓ shown", "~ in part", "✗ not shown", "– cannot be told"


@dataclass(frozen=True)
class Expectation:
    """What the paper leads one to expect, and what this run has.

    Args:
        claim: in words.
        verdict: one of the four above.
        evidence: the numbers.
    """

    claim: str
    verdict: str
    evidence: str


Curve = list[tuple[float, Summary]]


def data_size(replicas: Replicas) -> Section:
    """The four figures of section 4.1 and whether the numbers show what the paper found."""
    noise = known_noise(replicas.record.config)
    found = expectations(replicas, noise)
    repeats = sorted({len(rows) for rows in replicas.groups(NUM_DATA).values()})
    amount = " to ".join(str(n) for n in dict.fromkeys((repeats[0], repeats[-1]))) if repeats else "no"
    intro = paragraph(
        f"The same network on more and more data (section 4.1 of the paper), {amount} "
        f"{'repeat' if amount == '1' else 'repeats'} for each amount, measured on {STAGE_WORDS[replicas.stage]} data. "
        "Open marks are single repeats, lines their means."
    )
    lines = [join([tag("strong", f"{item.verdict}: {item.claim}"), item.evidence], " ") for item in found]
    verdicts = join([tag("h3", "What the paper found, and whether it shows here"), bullets(lines)])
    body = join([intro, verdicts, _figures(replicas, noise)])
    return Section("data-size", "Uncertainty against the amount of data", body)


def expectations(replicas: Replicas, noise: float | None) -> list[Expectation]:
    """The paper's statements about section 4.1, judged by the means over repeats."""
    curves = {kind: _curve(replicas, f"{kind}_std") for kind in KINDS}
    # The input layer has few mask entries, so its entropy pays little and p goes to 0 whatever the data.
    hidden = [layer.name for layer in replicas.layers if layer.learned][1:]
    found = [_falls("Epistemic std falls as data grow.", curves["epistemic"])]
    if noise is not None:
        found.append(_reaches("Aleatoric", curves["aleatoric"], noise))
        found.append(_reaches("Predictive", curves["predictive"], noise))
    if hidden:
        found.append(_probabilities({name: _probability_curve(replicas, name) for name in hidden}))
    return found


def known_noise(config: str) -> float | None:
    """Standard deviation of the noise of generated data, from the ``data`` block of config.yaml.

    >>> known_noise("seed: 0\\ndata:\\n  num_data: 10\\n  noise: 1.0\\ntask:\\n  noise: heteroscedastic\\n")
    1.0
    """
    noise = finite(data_setting(config, "noise"))
    return noise if noise is not None and noise > 0 else None


def _figures(replicas: Replicas, noise: float | None) -> object:
    stage = replicas.stage
    groups = [(size, rows) for key, rows in replicas.groups(NUM_DATA).items() if (size := finite(key[0])) is not None]
    captions = {
        "epistemic": "What the model does not know. It should fall towards 0.",
        "aleatoric": "What the model takes for noise. It should tend to the noise of the data; with little data it is "
        "too large, because it absorbs what the model does not know.",
        "predictive": "Both together (root of the sum of variances). It should settle near the noise.",
    }
    made = []
    for kind in KINDS:
        values = {kind: {size: [row.scalars.get(f"{stage}/{kind}_std") for row in rows] for size, rows in groups}}
        reference = noise if kind != "epistemic" else None
        drawn = plots.study.against_size(
            f"{kind.capitalize()} uncertainty",
            "Standard deviation (target units)",
            values,
            reference,
            "noise of the data",
        )
        made.append(figure(drawn, captions[kind]))
    layers = {
        layer.name: {size: [row.p.get(layer.name) for row in rows] for size, rows in groups}
        for layer in replicas.layers
    }
    drawn = plots.study.against_size("Dropout probability", "p at the end of training", layers)
    made.append(figure(drawn, "p of every layer. Hidden layers should start near 0.5 and fall as data grow."))
    return grid(made)


def _curve(replicas: Replicas, name: str) -> Curve:
    return [
        (size, summary)
        for key, rows in replicas.groups(NUM_DATA).items()
        if (size := finite(key[0])) is not None and (summary := replicas.score(name, rows)) is not None
    ]


def _probability_curve(replicas: Replicas, layer: str) -> Curve:
    return [
        (size, summary)
        for key, rows in replicas.groups(NUM_DATA).items()
        if (size := finite(key[0])) is not None and (summary := replicas.probability(layer, rows)) is not None
    ]


def _falls(claim: str, curve: Curve) -> Expectation:
    if len(curve) < 2:
        return Expectation(claim, UNKNOWN, "Fewer than two amounts of data have numbers.")
    rises = [(small, large) for (small, before), (large, after) in pairwise(curve) if after.mean >= before.mean]
    fell = curve[-1][1].mean < curve[0][1].mean
    where = ", ".join(f"N = {whole(small)} to {whole(large)}" for small, large in rises)
    detail = f" It does not fall from {where}." if rises else " It falls at every step."
    verdict = SHOWN if fell and not rises else PARTLY if fell else NOT_SHOWN
    return Expectation(claim, verdict, f"{_ends(curve)}.{detail}")


def _reaches(kind: str, curve: Curve, noise: float) -> Expectation:
    claim = f"{kind} std tends to the noise of the data, {number(noise)}."
    if len(curve) < 2:
        return Expectation(claim, UNKNOWN, "Fewer than two amounts of data have numbers.")
    first, last = (abs(curve[i][1].mean - noise) for i in (0, -1))
    close = last <= CLOSE * noise
    verdict = SHOWN if close else PARTLY if last < first else NOT_SHOWN
    how = "within" if close else "not within"
    evidence = f"{_ends(curve)}: {how} {100 * CLOSE:.0f} % of the noise at the end, {number(last, 2)} away."
    return Expectation(claim, verdict, evidence)


def _probabilities(curves: dict[str, Curve]) -> Expectation:
    claim = "p of hidden layers falls from near 0.5 to below 0.4."
    usable = {name: curve for name, curve in curves.items() if len(curve) >= 2}
    if not usable:
        return Expectation(claim, UNKNOWN, "Fewer than two amounts of data have numbers.")
    fell = [curve[-1][1].mean < curve[0][1].mean for curve in usable.values()]
    high = [curve[0][1].mean >= NEAR_HALF for curve in usable.values()]
    low = [curve[-1][1].mean < BELOW for curve in usable.values()]
    verdict = SHOWN if all([*fell, *high, *low]) else PARTLY if all(fell) else NOT_SHOWN
    lines = [f"{name}: {probability(c[0][1].mean)} → {probability(c[-1][1].mean)}" for name, c in usable.items()]
    sizes = next(iter(usable.values()))
    reach = f"N = {whole(sizes[0][0])} → {whole(sizes[-1][0])}"
    wrong = {"does not start near 0.5": high, "does not end below 0.4": low, "does not fall": fell}
    failed = [
        f" {', '.join(name for name, fine in zip(usable, flags, strict=True) if not fine)} {what}."
        for what, flags in wrong.items()
        if not all(flags)
    ]
    return Expectation(claim, verdict, f"{reach}: {_some(lines)}.{''.join(failed)}")


def _ends(curve: Curve) -> str:
    (small, first), (large, last) = curve[0], curve[-1]
    start, end = plus_minus(first.mean, first.se), plus_minus(last.mean, last.se)
    return f"{start} at N = {whole(small)}, {end} at N = {whole(large)}"


def _some(lines: Sequence[str], limit: int = 6) -> str:
    rest = len(lines) - limit
    return "; ".join([*lines[:limit], *([f"and {count(rest, 'more layer')}"] if rest > 0 else [])])
