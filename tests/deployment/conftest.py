"""The small trained runs of the tests of predictions."""

from tests.prediction.conftest import trained  # noqa: F401
