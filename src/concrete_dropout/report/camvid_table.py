"""The paper's table of CamVid results (section 4.4), with our runs beside it."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass

from concrete_dropout.report import paper
from concrete_dropout.report.comparison import METRICS, Metric, moving, score
from concrete_dropout.report.comparison_sections import CONVERGED, narrow
from concrete_dropout.report.components import Card, Section, cards, paragraph, table
from concrete_dropout.report.html import join, tag
from concrete_dropout.report.layers import layers_of
from concrete_dropout.report.paper import CamvidRow
from concrete_dropout.report.record import NO_MC, STAGES, Record, data_setting, finite
from concrete_dropout.report.statistics import Summary, summarise
from concrete_dropout.report.study_record import Member, Study
from concrete_dropout.report.text import count, whole

MIOU = next(metric for metric in METRICS if metric.key == "miou")
OTHERS = tuple(
    next(metric for metric in METRICS if metric.key == key)
    for key in ("accuracy", "class_accuracy", "log_likelihood", "calibration_rmse", "ece", "brier")
)
SHOWN = tuple(metric for metric in OTHERS if metric.key not in ("class_accuracy", "brier"))  # a page has no room for
OURS, PAPER = Metric("miou", "Our mIoU", "%"), Metric("miou", "Paper", "%")
STAGE = STAGES[0]


@dataclass(frozen=True)
class Row:
    """One of the paper's rows with the runs of ours that stand for it, in whatever state."""

    paper: CamvidRow
    members: tuple[Member, ...]

    @property
    def done(self) -> tuple[Member, ...]:
        """The runs whose numbers count."""
        return tuple(member for member in self.members if member.record is not None and member.state == "finished")

    def values(self, metric: Metric) -> dict[str, float]:
        """Seed -> score of the finished runs."""
        found = {
            str(member.values.get("seed", index)): self._score(member, metric) for index, member in enumerate(self.done)
        }
        return {seed: value for seed, value in found.items() if value is not None}

    def ours(self, metric: Metric) -> Summary | None:
        """Mean over seeds."""
        return summarise(self.values(metric).values())

    def _score(self, member: Member, metric: Metric) -> float | None:
        """With MC or without, as the row asks for; a run that was tested in one way has no number of the other."""
        if self.paper.kind == "none":
            return score(member, STAGE, metric)
        sampled = _setting(member, "task", "test_samples") != "0"
        if self.paper.mc:
            return score(member, STAGE, metric) if sampled else None
        return score(member, STAGE, metric, NO_MC) if sampled else score(member, STAGE, metric)


def rows_of(study: Study) -> list[Row]:
    """The paper's five rows."""
    return [Row(row, tuple(m for m in study.members if _kind(m) == row.kind)) for row in paper.CAMVID]


def difference(first: Row, second: Row, metric: Metric = MIOU) -> Summary | None:
    """Mean difference of two rows over the seeds that both have: what the seeds share does not count as noise."""
    ones, others = first.values(metric), second.values(metric)
    return summarise(ones[seed] - others[seed] for seed in ones if seed in others)


def camvid_lead(study: Study) -> str:
    """One sentence about the study."""
    rows = rows_of(study)
    done = sum(row.ours(MIOU) is not None for row in rows)
    if not done:
        return "No run has come to its end yet; the paper's numbers are below."
    gap = difference(rows[4], rows[2])
    verdict = ""
    if gap is not None:
        verdict = f" Concrete dropout against p = 0.2, both with MC: {_points(gap)} of mIoU on the same seeds."
    return f"{done} of {len(rows)} rows of the paper's table have results.{verdict}"


def camvid_section(study: Study) -> Section:
    """The table, with what ours differs in."""
    rows = rows_of(study)
    best = max((summary.mean for row in rows if (summary := row.ours(MIOU)) is not None), default=None)
    made = [_row(row, best) for row in rows]
    header = ["Variant", narrow(OURS), narrow(PAPER), *map(narrow, SHOWN), "Seeds", narrow(CONVERGED)]
    caption = "Test images, mean ± standard error over seeds. Bold: our best mIoU"
    listing = table(header, made, caption, numeric=range(1, len(header)))
    intro = paragraph(
        f"The paper's numbers ({paper.CAMVID_SOURCE}) are of {paper.CAMVID_NETWORK}, one number per row. "
        f"{network_note(study)} mIoU is that of the whole test set over all classes, without void "
        "pixels. Without MC: one pass with dropout inactive."
    )
    return Section("results", "CamVid, beside the paper's table", join([_cards(rows), intro, listing]))


def network_note(study: Study) -> str:
    """Which network and resolution our numbers are of, from the runs' own records."""
    member = next((member for member in study.members if member.record is not None), None)
    record = member.record if member is not None else None
    if member is None or record is None:
        return "Which network ours is will be known when the first run has begun."
    parameters = finite(record.run.get("num_parameters"))
    target = (_setting(member, "model", "_target_") or "a network").rpartition(".")[2]
    size = f" ({whole(parameters)} parameters)" if parameters is not None else ""
    scale = finite(data_setting(record.config, "scale"))
    where = "full images" if scale in (None, 1.0) else f"images at {100 * scale:g} % of their size"
    crop = finite(data_setting(record.config, "crop"))
    crops = f", trained on crops of {whole(crop)} pixels" if crop is not None else ""
    ours = f"Ours are of {target}{size} on {where}{crops}, {whole(record.step)} steps.{_other_p(study)}"
    same = parameters is not None and abs(parameters / paper.CAMVID_PARAMETERS - 1) < 0.01 and scale in (None, 1.0)
    return ours if same else f"{ours} The rows can be compared with each other, not with the paper's column."


def table_csv(rows: list[Row]) -> str:
    """The table for other programs: empty cells where there is no number."""
    metrics = (MIOU, *OTHERS)
    header = ["variant", "dropout", "mc", "paper_miou_percent"]
    header += [f"{metric.column}{end}" for metric in metrics for end in ("", "_se")]
    header += ["seeds", "expected_seeds", "runs_with_converged_p"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        cells: list[object] = [row.paper.name, row.paper.kind, int(row.paper.mc), row.paper.miou]
        for metric in metrics:
            ours = row.ours(metric)
            cells += [ours.mean, ours.se] if ours is not None else [None, None]
        cells += [len(row.values(MIOU)), len(row.members), len(row.done) - len(moving(row.done))]
        writer.writerow(["" if cell is None else cell for cell in cells])
    return text.getvalue()


def table_md(study: Study) -> str:
    """The table in Markdown, for a README."""
    header = ["variant", "our mIoU (%)", "paper (%)", *(metric.header for metric in OTHERS), "seeds"]
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for row in rows_of(study):
        cells = [_text(row.ours(metric), metric) for metric in (MIOU, *OTHERS)]
        shown = [row.paper.name, cells[0], f"{row.paper.miou:.1f}", *cells[1:], str(len(row.values(MIOU)))]
        lines.append("| " + " | ".join(shown) + " |")
    note = (
        f"Mean ± standard error over seeds. Paper: {paper.CAMVID_SOURCE}, {paper.CAMVID_NETWORK}. {network_note(study)}"
    )
    return "\n".join([*lines, "", re.sub(r"([\\|`*_<>\[\]])", r"\\\1", " ".join(note.split()))]) + "\n"


def _row(row: Row, best: float | None) -> list[object]:
    ours = row.ours(MIOU)
    text = _text(ours, MIOU)
    shown = tag("strong", text) if ours is not None and ours.mean == best else text
    seeds, expected = len(row.values(MIOU)), len(row.members)
    amount: object = str(seeds) if seeds == expected else tag("span", f"{seeds} of {expected}", class_="flag")
    settled = len(row.done) - len(moving(row.done))
    converged: object = "–"
    if row.paper.kind == "concrete" and row.done:
        words = f"{settled} of {len(row.done)}"
        converged = words if settled == len(row.done) else tag("span", words, class_="flag")
    others = [_text(row.ours(metric), metric) for metric in SHOWN]
    return [row.paper.name, shown, f"{row.paper.miou:.1f}", *others, amount, converged]


def _other_p(study: Study) -> str:
    """A note where the fixed probability is not the paper's."""
    records = [member.record for member in study.members if _kind(member) == "fixed"]
    found = {layer.final for record in records if record is not None for layer in layers_of(record)} - {None}
    if not found or found == {paper.CAMVID_P}:
        return ""
    return f" Their fixed p is {', '.join(f'{p:g}' for p in sorted(filter(None, found)))}."


def _cards(rows: list[Row]) -> object:
    made = []
    for first, second, title in (
        (rows[4], rows[2], "Concrete − p = 0.2, both MC"),
        (rows[4], rows[0], "Concrete with MC − no dropout"),
        (rows[4], rows[3], "What MC adds to Concrete"),
    ):
        gap = difference(first, second)
        if gap is not None:
            published = first.paper.miou - second.paper.miou
            meaning = f"mIoU on the same {count(gap.count, 'seed')}; in the paper {published:+.1f}.".replace("-", "−")
            made.append(Card(title, _points(gap, unit=""), "points", meaning))
    return cards(made) if made else None


def _points(gap: Summary, unit: str = " points") -> str:
    text = MIOU.text(gap, 1)
    return f"{'+' if gap.mean >= 0 else ''}{text}{unit}"


def _text(summary: Summary | None, metric: Metric) -> str:
    return metric.text(summary, 1 if metric.unit == "%" else 2)


def _kind(member: Member) -> str:
    recorded = member.record.run.get("dropout") if member.record is not None else None
    return str(recorded or member.values.get("dropout.kind") or "")


def _setting(member: Member, block: str, key: str) -> str | None:
    """A plain setting of one block of config.yaml."""
    record: Record | None = member.record
    found = re.search(rf"^{block}:[ \t]*\n((?:[ \t].*\n?|\n)*)", record.config, re.MULTILINE) if record else None
    entry = re.search(rf"^[ \t]+{re.escape(key)}:[ \t]*(\S+)", found[1], re.MULTILINE) if found else None
    return entry[1].strip("'\"") if entry else None
