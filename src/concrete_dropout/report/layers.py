"""What is known about every dropout layer of a run, from whichever files there are."""

from __future__ import annotations

from dataclasses import dataclass

from concrete_dropout.report.record import Record, dicts, finite, mapping

# The same bounds as the warnings during training.
LOW, HIGH = 1e-3, 0.6


@dataclass(frozen=True)
class Layer:
    """One dropout layer at the end of what was recorded.

    Args:
        name: of its module.
        kind: "concrete" or "fixed" or what the run says.
        initial: p at the start.
        final: the last p.
        change: of p over the last fifth of the recorded steps.
        converged: None where nobody judged it.
        saturated: "low", "high" or None.
        owners: layers whose weights it masks.
        K: number of independent mask entries.
    """

    name: str
    kind: str
    initial: float | None
    final: float | None
    change: float | None
    converged: bool | None
    saturated: str | None
    owners: tuple[str, ...]
    K: float | None

    @property
    def learned(self) -> bool:
        """Whether p is a parameter."""
        return self.kind != "fixed"


def layers_of(record: Record) -> list[Layer]:
    """The dropout layers in the order of depth; those that were switched off drop nothing and are left out."""
    described = {str(layer["name"]): layer for layer in dicts(record.run.get("layers")) if layer.get("name")}
    judged = mapping(record.convergence.get("layers"))
    summary = mapping(record.summary.get("probabilities"))
    names = dict.fromkeys([*described, *record.dropout, *judged, *summary])
    found = [
        _layer(record, name, mapping(described.get(name)), mapping(judged.get(name)), mapping(summary.get(name)))
        for name in names
    ]
    return [layer for layer in found if layer.kind != "none"]


def _layer(
    record: Record,
    name: str,
    described: dict[str, object],
    judged: dict[str, object],
    summary: dict[str, object],
) -> Layer:
    steps, values = record.dropout.get(name, ([], []))
    kind = str(described.get("kind") or record.run.get("dropout") or "concrete").lower()
    kind = "fixed" if "fixed" in kind else kind
    initial = _first(described.get("initial_p"), judged.get("initial"), values[0] if values else None)
    # The table is written as the run goes; the verdicts only when it has come to its end.
    ended = [judged.get("final"), summary.get("final")]
    trace = [values[-1]] if values else []
    final = _first(*(ended + trace if record.state == "finished" else trace + ended))
    if final is None and kind == "fixed":
        final = initial
    converged = judged.get("converged")
    saturated = judged.get("saturated")
    if saturated is None and kind != "fixed" and final is not None and not judged:
        saturated = "low" if final < LOW else "high" if final > HIGH else None
    owners = described.get("owners")
    return Layer(
        name=name,
        kind=kind,
        initial=initial,
        final=final,
        change=_first(judged.get("change_last_fifth"), change_last_fifth(steps, values)),
        converged=converged if isinstance(converged, bool) else None,
        saturated=str(saturated) if saturated else None,
        owners=tuple(str(owner) for owner in owners) if isinstance(owners, list) else (),
        # The core writes 0 where owners are not known.
        K=finite(described.get("K")) or None,
    )


def short_names(names: list[str]) -> list[str]:
    """Names without what they share in front, down to their last two parts.

    >>> short_names(["network.layers.0", "network.layers.2"])
    ['layers.0', 'layers.2']
    """
    parts = [name.split(".") for name in names]
    shared = 0
    while parts and all(len(part) > shared + 2 and part[shared] == parts[0][shared] for part in parts):
        shared += 1
    return [".".join(part[shared:]) for part in parts]


def _first(*candidates: object) -> float | None:
    return next((found for value in candidates if (found := finite(value)) is not None), None)


def change_last_fifth(steps: list[float], values: list[float]) -> float | None:
    """Change of p from the start of the last fifth of the recorded steps to the end."""
    if len(steps) < 2:
        return None
    start = steps[-1] - 0.2 * (steps[-1] - steps[0])
    before = [value for step, value in zip(steps, values, strict=True) if step <= start]
    return values[-1] - before[-1] if before else None
