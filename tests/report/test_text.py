from __future__ import annotations

import pytest

from concrete_dropout.report.text import change, count, duration, moment, number, probability, whole


@pytest.mark.parametrize("make", [number, whole, probability, change])
@pytest.mark.parametrize("value", [None, "1", True, float("nan"), float("inf"), [1]])
def test_what_is_no_number_is_a_dash(make: object, value: object) -> None:
    assert make(value) == "–"  # type: ignore[operator]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.99999, "1.00"), (9.999, "10.0"), (-1.5, "−1.50"), (123456, "123,456"), (1e9, "1.00e+09"), (3e-6, "3.00e−06")],
)
def test_numbers_have_significant_digits(value: float, shown: str) -> None:
    assert number(value) == shown


def test_counts_agree_with_their_noun() -> None:
    assert count(0, "layer") == "0 layers"
    assert count(1.0, "layer") == "1 layer"


@pytest.mark.parametrize(
    ("start", "end", "shown"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:07+00:00", "7 s"),
        ("2026-01-01T00:00:00", "2026-01-01T02:05:00Z", "2 h 5 min"),
        ("2026-01-02", "2026-01-01", None),
        ("soon", "2026-01-01", None),
    ],
)
def test_durations(start: str, end: str, shown: str | None) -> None:
    assert duration(start, end) == shown


def test_moments() -> None:
    assert moment("2026-03-01T12:00:00Z") == "2026-03-01 12:00 UTC"
    assert moment("2026-03-01T12:00:00") == "2026-03-01 12:00"
    assert moment("yesterday") == "yesterday"
    assert moment(None) == "–"
