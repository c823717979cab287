"""Types of config values, from signatures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from concrete_dropout.cli.typecheck import check_node, check_top_level, closest, describe, fits, parameters_of
from concrete_dropout.errors import UserError


class Base:
    def __init__(self, size: int, share: float = 0.0) -> None: ...


class Derived(Base):
    def __init__(self, kind: Literal["a", "b"] = "a", names: Sequence[str] | None = None, **kwargs: int) -> None: ...


class TakesAnything:
    def __init__(self, **kwargs: int) -> None: ...


def anything(**kwargs: int) -> None: ...


TARGETS = {"derived": Derived, "anything": TakesAnything, "function": anything}


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (1, int),
        (1, float),
        (1.5, float),
        (True, bool),
        ("x", str),
        ("x", Path),
        (None, float | None),
        ([1, 2], Sequence[int]),
        ([0.1, 0.5], float | tuple[float, float]),
        ({"a": 1}, Mapping[str, int]),
        ("a", Literal["a", "b"]),
        ("1:00", Any),
    ],
)
def test_fits(value: object, annotation: Any) -> None:
    assert fits(value, annotation)


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (1.0, int),
        ("1", int),
        (True, int),
        (True, float),
        (1, bool),
        (None, float),
        ("abc", float | None),
        (50, Sequence[int]),
        ("50", Sequence[str]),
        ([0.5], Sequence[int]),
        ([1], Mapping[str, int]),
        ("c", Literal["a", "b"]),
        (["a"], Literal["a", "b"]),
        (3, Path),
    ],
)
def test_does_not_fit(value: object, annotation: Any) -> None:
    assert not fits(value, annotation)
    assert describe(annotation)


def test_parameters_of_base_classes_are_found_behind_kwargs() -> None:
    assert parameters_of(Derived) == {
        "kind": Literal["a", "b"],
        "names": Sequence[str] | None,
        "size": int,
        "share": float,
    }
    assert parameters_of(TakesAnything) is None
    assert parameters_of(anything) is None


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"kind": "c"}, "x.kind='c' must be a | b"),
        ({"size": "???"}, "x.size has no value yet"),
        ({"sise": 3}, "x.sise is no setting of derived. Did you mean 'size'?"),
        ({"names": "y"}, r"x.names='y' must be a list of texts or null, as in x.names=\[y\]"),
        ({"_target_": "nowhere.Nothing"}, "x._target_=nowhere.Nothing cannot be imported"),
    ],
)
def test_refusals_name_the_key(node: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_node("x", {"_target_": "derived", **node}, TARGETS.__getitem__)


def test_nested_nodes_are_checked_and_free_ones_are_not() -> None:
    check_node("x", {"a": {"_target_": "anything", "b": 1}, "c": [{"_target_": "function", "d": 1}]}, TARGETS.get)
    with pytest.raises(UserError, match=r"x.0.size='a'"):
        check_node("x", [{"_target_": "derived", "size": "a"}], TARGETS.get)


def test_keys_outside_of_groups() -> None:
    check_top_level({"seed": 0, "ckpt_path": None, "other": object()})
    with pytest.raises(UserError, match=r"test_ckpt='first' must be last \| best"):
        check_top_level({"test_ckpt": "first"})


def test_the_closest_choice_comes_first() -> None:
    assert closest("concret", ["none", "concrete"]) == "Did you mean 'concrete'? There is: concrete, none"
    assert closest("x", []) == "There is: nothing"
