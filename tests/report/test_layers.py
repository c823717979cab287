from __future__ import annotations

import pytest

from concrete_dropout.report.layers import layers_of
from concrete_dropout.report.record import Record


def test_a_layer_is_put_together_from_all_files() -> None:
    record = Record(
        "run",
        run={
            "state": "finished",
            "layers": [{"name": "a", "kind": "concrete", "initial_p": 0.1, "owners": ["w"], "K": 5}],
        },
        convergence={"layers": {"a": {"final": 0.3, "change_last_fifth": 0.02, "converged": False, "saturated": None}}},
        dropout={"a": ([0, 100], [0.1, 0.29])},
    )
    (layer,) = layers_of(record)
    assert (layer.initial, layer.final, layer.change, layer.converged) == (0.1, 0.3, 0.02, False)
    assert (layer.owners, layer.K, layer.saturated, layer.learned) == (("w",), 5, None, True)


def test_an_unfinished_run_counts_what_was_written_last() -> None:
    steps = list(range(0, 101, 10))
    record = Record("run", run={"state": "running"}, dropout={"a": (steps, [0.001 * s for s in steps])})
    (layer,) = layers_of(record)
    assert (layer.initial, layer.final, layer.converged) == (0.0, 0.1, None)
    assert layer.change == pytest.approx(0.02)


@pytest.mark.parametrize(("p", "saturated"), [(0.0005, "low"), (0.7, "high"), (0.3, None)])
def test_saturation_is_judged_where_the_run_did_not(p: float, saturated: str | None) -> None:
    (layer,) = layers_of(Record("run", dropout={"a": ([0], [p])}))
    assert layer.saturated == saturated
    assert layer.change is None


def test_the_order_is_that_of_depth() -> None:
    record = Record(
        "run", run={"layers": [{"name": "b"}, {"name": "a"}]}, dropout={"a": ([0], [0.1]), "c": ([0], [0.1])}
    )
    assert [layer.name for layer in layers_of(record)] == ["b", "a", "c"]


def test_a_fixed_layer_ends_where_it_started() -> None:
    record = Record("run", run={"layers": [{"name": "a", "kind": "fixed", "initial_p": 0.0002}]})
    (layer,) = layers_of(record)
    assert (layer.final, layer.learned, layer.saturated) == (0.0002, False, None)


def test_layers_that_were_switched_off_are_left_out() -> None:
    off = {"name": "a", "kind": "none", "initial_p": 0.0, "owners": [], "K": 0}
    record = Record("run", run={"dropout": "none", "layers": [off]}, summary={"probabilities": {"a": {"final": 0.0}}})
    assert layers_of(record) == []


def test_entries_of_other_shapes_are_passed_over() -> None:
    record = Record(
        "run",
        run={"layers": ["a", {"kind": 1}, {"name": "b", "owners": "w", "K": "many"}]},
        convergence={"layers": [1]},
    )
    (layer,) = layers_of(record)
    assert (layer.name, layer.owners, layer.K, layer.final) == ("b", (), None, None)
